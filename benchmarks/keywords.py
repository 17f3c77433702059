"""Keywords of five corpora, known in part: words and phrases, with their rivals.

    python -m benchmarks.keywords words [--data FOLDER] [--corpora hulth,kdd,...] [--seeds 0,1]
                                        [--schemes share,one,...] [--documents N] [--yake]
    python -m benchmarks.keywords phrases [the same] [--no-tags] [--no-stems]

Known candidates are drawn from the gold ones; the others are to be found, of phrases those that the
text does not contain too, so that F has a ceiling below 1.

    share      each with probability .28          tenth, thirty   with probability .10, .30
    one, three so many of each document           complete   as share; 5 % of documents whole
    uneven     with a probability of its own in each document, Beta(1.4, 3.6)

Over what was not known, of documents that are not complete: F per document (of each document the
same share, in all as many as there are hidden keywords), F corpus-wide (so many over all
documents), average precision, the expected calibration error in ten bins, the realised false share
and F of corpus-wide selections at three levels, and F of the selection of largest expected F. The
rate is the true one unless a form says otherwise (of phrases it is never given with "thirty" and
"complete"); logistic regression has the same features, every other candidate a negative, and is
calibrated by that rate (Elkan and Noto 2008). TextRank joins adjacent words of the best third
(Mihalcea and Tarau 2004); "words joined" takes the mean word score of a phrase.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, calibration_error, head, row
from flows.keywords.input.documents import Prepared, prepare
from flows.keywords.input.shards import rows_of
from reproduce.keyword_documents import select_share
from vbmodels.core.fit import fit
from vbmodels.keywords.candidate_counts import Whole, count_candidates
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.keywords.features import FEATURE_NAMES, build_batch, label_rates
from vbmodels.keywords.phrases.batch import PhraseBatch, scored
from vbmodels.keywords.phrases.features import PHRASE_FEATURES, build_phrases
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import DocumentTokens, Spans, find_spans, key_of, stem_keys
from vbmodels.text.words import Normaliser, TextOptions

LANGUAGES = {
    **dict.fromkeys(("hulth", "semeval2017", "kdd"), "english"),
    "wikinews_fr": "french",
    "110pt": "portuguese",
}
YAKE_LANGUAGES = {"english": "en", "french": "fr", "portuguese": "pt", "polish": "pl"}
SCHEMES = ("share", "tenth", "thirty", "one", "three", "complete", "uneven")
LEVELS = {"words": (0.05, 0.1, 0.3), "phrases": (0.1, 0.3, 0.5)}


@dataclass(frozen=True)
class Corpus:
    """Documents as the product reads them, with their gold words or phrases as labels."""

    unit: str
    prepared: Prepared
    texts: list[str]
    spans: Spans | None  # of phrases
    absent: np.ndarray  # [D] gold phrases that are no candidates


@dataclass(frozen=True)
class Task:
    """One draw of the known candidates: the batch, the truth of every one, and what is scored."""

    unit: str
    batch: KeywordBatch | PhraseBatch
    truth: np.ndarray
    scored: np.ndarray
    offsets: np.ndarray
    complete: np.ndarray  # [M] whether a candidate's document is
    hidden: int  # how many are to be found, those that are no candidates too


Answer = tuple[np.ndarray, bool, str]
"""Scores [M], whether they are probabilities, and a remark."""


def language_of(name: str) -> str:
    """Return the language of a corpus: English, if it is not one of those above."""
    return LANGUAGES.get(name, "english")


def load(unit: str, name: str, folder: Path, most: int | None, options: TextOptions) -> Corpus:
    """Read a corpus through the product's own ingest, with the gold keywords as known ones."""
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()[:most]
    gold = "gold_phrases" if "gold_phrases" in rows[0] else "gold"
    read = ("tokens", "pos", "sentence") if "tokens" in rows[0] and options.tag else ("text",)
    columns = {column: [one[column] for one in rows] for column in read if column in rows[0]}
    columns["doc_id"] = [str(one["doc_id"]) for one in rows]
    columns["gold"] = [list(one[gold]) for one in rows]
    columns["keywords"] = [[] for _ in rows]  # named ones would be candidates because they are gold
    prepared = prepare(pa.table(columns), options, unit == "phrases")
    texts, absent = [one["text"] for one in rows], np.zeros(len(rows), int)
    if unit == "words":
        return Corpus(unit, prepared, texts, None, absent)
    spans = find_spans(prepared.tokens, stem_keys(prepared.vocabulary.to_pylist()))
    found = np.bincount(spans.document, prepared.marks.gold == 1, len(rows)).astype(int)
    normalise = Normaliser(options)
    listed = [len({str(normalise.variants(k)[:1] or k.lower()) for k in one[gold]}) for one in rows]
    return Corpus(unit, prepared, texts, spans, np.maximum(np.array(listed) - found, 0))


def known_ones(
    scheme: str,
    truth: np.ndarray,
    document: np.ndarray,
    offsets: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which candidates are known [M] and which documents are complete [D]."""
    n = len(offsets) - 1
    whole = np.zeros(n, bool)
    chance = rng.random(len(truth))
    if scheme in ("one", "three"):
        order = np.lexsort((chance, ~truth, document))
        rank = np.arange(len(truth)) - np.repeat(offsets[:-1], np.diff(offsets))
        known = np.zeros(len(truth), bool)
        known[order] = rank < (1 if scheme == "one" else 3)
        return known & truth, whole
    share = {"tenth": 0.1, "thirty": 0.3}.get(scheme, 0.28)
    each = rng.beta(1.4, 3.6, n)[document] if scheme == "uneven" else share
    if scheme == "complete":
        whole[rng.choice(n, max(5, round(0.05 * n)), replace=False)] = True
    return truth & ((chance < each) | whole[document]), whole


def draw(corpus: Corpus, scheme: str, seed: int) -> Task:
    """Draw the known candidates and make the features."""
    tokens, spans = corpus.prepared.tokens, corpus.spans
    vocabulary, truth = corpus.prepared.vocabulary, corpus.prepared.marks.gold == 1
    if spans is None:
        document, offsets, stream = tokens.document_of_word, tokens.offsets, 3
    else:
        document, offsets, stream = spans.document, spans.offsets, 5
    rng = np.random.default_rng([seed, stream])
    known, whole = known_ones(scheme, truth, document, offsets, rng)
    scored = ~known & ~whole[document]
    if spans is None:
        batch = features(replace(tokens, y=known, complete=whole), vocabulary)
    else:
        batch = phrase_batch(corpus, spans, known, whole)
    hidden = int(truth[scored].sum()) + int(corpus.absent[~whole].sum())
    return Task(corpus.unit, batch, truth, scored, offsets, whole[document], hidden)


def features(tokens: DocumentTokens, vocabulary: pa.Array) -> KeywordBatch:
    """Make the features of words whose documents are the whole corpus."""
    keys = stem_keys(vocabulary.to_pylist())[tokens.term]
    own = tokens.document_of_word
    folds = tokens.fold[own]
    rows = count_candidates(keys, folds, tokens.looked_at[own], tokens.y)
    elsewhere = Whole.of(rows, True).elsewhere(keys, folds)
    return build_batch(tokens, elsewhere, tokens.n_documents, label_rates(*rows.totals))


def phrase_batch(corpus: Corpus, spans: Spans, known: np.ndarray, whole: np.ndarray) -> PhraseBatch:
    """Make the features of words and phrases."""
    prepared, truth = corpus.prepared, corpus.prepared.marks.gold == 1
    seen = np.zeros(prepared.tokens.n_words, bool)
    seen[spans.words[known][spans.words[known] >= 0]] = True
    tokens = replace(prepared.tokens, y=seen, complete=whole)
    keys = stem_keys(prepared.vocabulary.to_pylist())[tokens.term]
    of_words = Whole.of(rows_of(prepared.counts["words"]), True)
    frequency = of_words.elsewhere(keys, tokens.fold[tokens.document_of_word]).frequency
    folds = tokens.fold[spans.document]
    rows = count_candidates(spans.key, folds, tokens.looked_at[spans.document], known)
    coverage = truth.sum() / max(truth.sum() + corpus.absent.sum(), 1)
    return build_phrases(
        tokens,
        spans,
        features(tokens, prepared.vocabulary),
        known,
        prepared.marks.score,
        round(known.sum() / coverage),
        frequency,
        Whole.of(rows, False).elsewhere(spans.key, folds),
        tokens.n_documents,
        label_rates(*rows.totals),
    )


# The methods.


def logistic(task: Task, x: np.ndarray) -> Answer:
    """Logistic regression of what is known on features ``x``, calibrated by the true rate."""
    x = x[:, 1:]
    sd = x.std(0)
    x = (x - x.mean(0)) / np.where(sd > 1e-9, sd, 1.0)
    s = LogisticRegression(max_iter=1000).fit(x, task.batch.y).decision_function(x)
    c = task.batch.y[~task.complete].sum() / max(task.truth[~task.complete].sum(), 1)
    return np.minimum((1.0 - c) / c * np.exp(s), 1.0 + 1e-9 * s), True, ""


CORPUS_MODELS = {
    "corpus": (1.0, 0.0),
    "corpus, rate not given": (None, 0.0),
    "corpus, rate x1.5 with sd .4": (1.5, 0.4),
    "corpus, rate /1.5 with sd .4": (1.0 / 1.5, 0.4),
    "corpus, rate x1.5 as a fact": (1.5, 0.0),
}
"""The factor of the rate that is given, and how sure the corpus model is told to be of it."""


def of_words(task: Task) -> dict[str, Answer]:
    """Return every form's answer to a task of words."""
    found: dict[str, Answer] = {}
    true = float(task.truth.mean())
    for form, (factor, sd) in CORPUS_MODELS.items():
        begin = time.process_time()
        rate = None if factor is None else min(0.9, factor * true)
        model = CorpusProbit(keyword_rate=rate, keyword_rate_sd=sd)
        done = fit(model, [task.batch])
        p = model.probabilities(done.q, task.batch, None)
        seconds = time.process_time() - begin
        said = f"{done.iterations} passes, kappa {done.q.exponent:.2f}, "
        found[form] = p, True, f"{said}rate x{done.q.rate / true:.2f}; {seconds:.2f} s"
    found["logistic regression"] = logistic(task, task.batch.x)
    for form, name in (("TF-IDF", "log_tf_idf"), ("TextRank", "log_textrank")):
        found[form] = task.batch.x[:, FEATURE_NAMES.index(name)], False, ""
    return found


def without_labels(batch: PhraseBatch) -> dict[str, np.ndarray]:
    """Return the scores of phrases by methods that see no labels."""

    def column(name: str) -> np.ndarray:
        return batch.features[:, PHRASE_FEATURES.index(name)]

    rank = np.exp(batch.words.features[:, FEATURE_NAMES.index("log_textrank")])
    words = (batch.member != np.array(-1).astype(batch.member.dtype)).sum(axis=1)
    joined = scored(batch, rank, rank=np.zeros(batch.n_phrases))[:, 0] * words
    return {
        "TF-IDF": column("log_tf_idf"),
        "TF-IDF x position": column("log_tf_idf") - column("first_position"),
        "TextRank": joined + 1e3 * (column("maximal") > 0),
    }


def fitted(task: Task, given: bool) -> tuple[np.ndarray, str]:
    """Fit phrases, and return their features with their probabilities as the last column."""
    batch = task.batch
    coverage = (batch.y.sum() + 0.5) / (batch.listed + 0.5)
    number = float(task.truth.sum() / coverage / batch.words.n_documents)
    model = Keyphrases(per_document=number if given else None)
    done = fit(model, [batch])
    q = done.q
    phrases, scores = model.phrases_and_scores(q, batch)
    units = batch.units(np.hstack([phrases.features, scores]))
    r = model.phrases.probabilities(q.phrases, units, None)
    said = f"{done.iterations} passes, rate x{q.phrases.rate / task.truth.mean():.2f}"
    return np.column_stack([units.x, r]), said


def of_phrases(task: Task, scheme: str) -> dict[str, Answer]:
    """Return every form's answer to a task of phrases."""
    found: dict[str, Answer] = {}
    for form, given in (("phrases", True), ("phrases, rate not given", False)):
        if given and scheme in ("thirty", "complete"):
            continue
        begin = time.process_time()
        columns, said = fitted(task, given)
        seconds = time.process_time() - begin
        found[form] = (columns[:, -1], True, f"{said}; {seconds:.2f} s")
    x = columns[:, :-1]
    mean, maximal = (x[:, PHRASE_FEATURES.index(n)] for n in ("word_score_mean", "maximal"))
    found["logistic regression"] = logistic(task, x)
    found["words joined"] = mean + 1e3 * (maximal > 0), False, ""
    return found | {form: (score, False, "") for form, score in without_labels(task.batch).items()}


def candidate_rows(keys: Sequence[Hashable], offsets: np.ndarray) -> list[dict[Hashable, int]]:
    """Return the row of each document's candidates, by their keys."""
    return [{k: i for i, k in enumerate(keys[a:b], a)} for a, b in pairwise(offsets.tolist())]


def by_yake(
    texts: Sequence[str], language: str, size: int, rows: list[dict[Hashable, int]]
) -> np.ndarray:
    """YAKE's scores of candidates, up to ``size`` words, joined by the product's stems."""
    import yake

    extractor = yake.KeywordExtractor(
        lan=YAKE_LANGUAGES[language], n=size, top=100_000, dedupLim=1.0
    )
    normalise = Normaliser(TextOptions(language=language))
    score = np.full(sum(map(len, rows)), -1e9)
    for text, own in zip(texts, rows, strict=True):
        for phrase, value in extractor.extract_keywords(text):
            key: Hashable = normalise(phrase)
            if size > 1:
                key = next((key_of(one.parts) for one in normalise.variants(phrase)[:1]), None)
            if (row := own.get(key)) is not None:
                score[row] = max(score[row], -value)
    return score


def yake_of(corpus: Corpus, language: str) -> np.ndarray:
    """Return YAKE's scores of a corpus's candidates."""
    tokens, spans = corpus.prepared.tokens, corpus.spans
    if spans is not None:
        rows = candidate_rows(spans.key.tolist(), spans.offsets)
        return by_yake(corpus.texts, language, 4, rows)
    stems = corpus.prepared.vocabulary.take(pa.array(tokens.term)).to_pylist()
    return by_yake(corpus.texts, language, 1, candidate_rows(stems, tokens.offsets))


# Figures.


def figures(task: Task, answer: Answer) -> dict[str, float]:
    """Return everything that the tables show of a ranking of candidates."""
    score, calibrated, _ = answer
    at, hidden = task.scored, task.hidden
    s, true = np.clip(score[at], 0.0, 1.0) if calibrated else score[at], task.truth[at]
    offsets, none = np.concatenate([[0], np.cumsum(at)])[task.offsets], np.zeros(len(s), bool)
    share = min(hidden / len(s), 1.0)
    found = {"Fdoc": f_of(select_share(score[at], none, offsets, share), true, hidden)}
    best = np.zeros(len(s), bool)
    best[np.argsort(-score[at], kind="stable")[:hidden]] = True
    found["Fcorp"] = f_of(best, true, hidden)
    found["AP"] = float(average_precision_score(true, score[at]))
    if not calibrated:
        return found
    found["ECE"] = calibration_error(s, true)
    order = np.argsort(-s, kind="stable")
    expected = np.cumsum(1.0 - s[order]) / np.arange(1, len(s) + 1)
    for level in LEVELS[task.unit]:
        size = int(np.sum(expected <= level))
        right = int(true[order[:size]].sum())
        found |= {f"n{level:g}": size, f"false{level:g}": size - right}
        found[f"F{level:g}"] = 2.0 * right / max(size + hidden, 1)
    every = np.clip(score, 0.0, 1.0 - 1e-12)
    least = Histogram.of(every, ~at, task.offsets).least_by_f()
    chosen = select_above(every, ~at, task.offsets, least)[at]
    return found | {"best F": f_of(chosen, true, hidden)}


def f_of(selected: np.ndarray, true: np.ndarray, hidden: int) -> float:
    """F of a selection among ``hidden`` things to find, those that are no candidates too."""
    return float(2.0 * (selected & true).sum() / max(selected.sum() + hidden, 1))


def table_head(unit: str) -> str:
    """Return the head of a table."""
    levels = " / ".join(f"{level:g}".lstrip("0") for level in LEVELS[unit])
    columns = ("F doc", "F corpus", "AP", "ECE", f"false at {levels}", f"F at {levels}", "best F")
    return head(["", *columns, ""])


def table_row(form: str, draws: Sequence[dict[str, float]], unit: str, remark: str = "") -> str:
    """Return one line of a table: means, and false shares pooled over the draws."""
    found = pd.DataFrame(draws)
    mean = found.mean().map(short)
    cells = [mean["Fdoc"], mean["Fcorp"], mean["AP"]]
    if "ECE" not in found:
        return row([form, *cells, "", "", "", "", remark])
    false = []
    for level in LEVELS[unit]:
        size = found[f"n{level:g}"].sum()
        false.append(f"{short(found[f'false{level:g}'].sum() / max(size, 1))} ({size:.0f})")
    at_levels = " / ".join(mean[f"F{level:g}"] for level in LEVELS[unit])
    cells += [mean["ECE"], " / ".join(false), at_levels, mean["best F"]]
    return row([form, *cells, remark])


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


def compare(options: argparse.Namespace, seeds: Sequence[int]) -> None:
    """Write the tables of words or phrases, of each corpus and of all."""
    unit, schemes = options.what, options.schemes.split(",")
    everything: dict[tuple[str, str], list[dict[str, float]]] = {}
    for name, scheme in product(options.corpora.split(","), schemes):
        stem = "none" if options.no_stems else "auto"
        text = TextOptions(language=language_of(name), tag=not options.no_tags, stem=stem)
        corpus = load(unit, name, options.data, options.documents, text)
        tasks = [draw(corpus, scheme, seed) for seed in seeds]
        first, n = tasks[0], len(corpus.texts)
        coverage = first.truth.sum() / (first.truth.sum() + corpus.absent.sum())
        print(
            f"\n## {name}, {scheme}\n\n{n} documents, {len(first.truth) / n:.1f} {unit} each, "
            f"{first.truth.mean():.1%} keywords, {first.batch.y.sum()} known; "
            f"{coverage:.0%} of the gold {unit} are candidates\n\n{table_head(unit)}"
        )
        made = [of_words(t) if unit == "words" else of_phrases(t, scheme) for t in tasks]
        if options.yake:
            scores = yake_of(corpus, language_of(name))
            made = [one | {"YAKE": (scores, False, "")} for one in made]
        for form in made[0]:
            found = [figures(t, a[form]) for t, a in zip(tasks, made, strict=True)]
            everything.setdefault((scheme, form), []).extend(found)
            said = " / ".join(a[form][2] for a in made).strip(" /")
            print(table_row(form, found, unit, said), flush=True)
    for scheme in schemes:
        print(f"\n## All corpora, {scheme}\n\n{table_head(unit)}")
        for (of, form), found in everything.items():
            if of == scheme:
                print(table_row(form, found, unit))


def main() -> None:
    """Run all forms on all corpora and write Markdown to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=LEVELS)
    parser.add_argument("--data", type=Path, default=DATA / "keywords")
    parser.add_argument("--corpora", default=",".join(LANGUAGES))
    parser.add_argument("--schemes", default="share", help=", ".join(SCHEMES))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--documents", type=int, help="the first N of each corpus")
    parser.add_argument("--yake", action="store_true", help="run YAKE too")
    parser.add_argument("--no-tags", action="store_true", help="English without parts of speech")
    parser.add_argument("--no-stems", action="store_true", help="as a language without a stemmer")
    options = parser.parse_args()
    with threadpool_limits(1):
        compare(options, [int(seed) for seed in options.seeds.split(",")])


if __name__ == "__main__":
    main()
