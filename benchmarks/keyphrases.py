"""Keyphrases of five corpora: calibrated phrases and their rivals, by document and corpus-wide.

    python -m benchmarks.keyphrases [--data FOLDER] [--corpora hulth,kdd,...] [--seeds 0,1]
                                    [--schemes share,one,...] [--documents N] [--yake]

Known phrases are drawn from the gold phrases that occur; all hidden gold phrases are the truth,
those that the text does not contain too, so that F has a ceiling below 1.

    share      each with probability .28      tenth     with probability .10
    thirty     each with probability .30, the rate never given     one   one of each document
    complete   as share; 5 % of documents whole, the rate never given

F per document (of each document the same share of its candidates, in all as many as there are
hidden keyphrases), F corpus-wide (so many over all documents), average precision among the
candidates, the expected calibration error in ten bins, the realised false share of corpus-wide
selections at .1, .3 and .5, and F of the selection of largest expected F, which needs no number.
Logistic regression has the same features (the words' scores among them), every other phrase a
negative, and is calibrated by the true rate. TextRank joins adjacent words of the best third
(Mihalcea and Tarau 2004); "words joined" takes the mean word score of a phrase.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from benchmarks.keyword_corpora import LANGUAGES, SHARED, features, short
from flows.keywords.counts import rows_of
from flows.keywords.documents import Prepared, prepare
from reproduce.keyword_documents import take_documents
from vbmodels.core.fit import fit
from vbmodels.keywords.candidate_counts import Whole, count_candidates
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.keywords.documents import KeywordBatch
from vbmodels.keywords.features import FEATURE_NAMES, OF_OWN_LABELS, label_rates
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES, build_phrases
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.keywords.phrases.phrase_ids import key_of, stem_keys
from vbmodels.keywords.phrases.spans import Spans, find_spans
from vbmodels.keywords.selection import select_share
from vbmodels.keywords.text import Normaliser, TextOptions

SCHEMES = ("share", "tenth", "thirty", "one", "complete")
LEVELS = (0.1, 0.3, 0.5)


def without_own_labels(batch: KeywordBatch) -> KeywordBatch:
    """Return the batch with the features that hold labels of a word's own document neutral.

    They leave out the word's own label, which is enough where words are known one by one. Where
    phrases are known, the other words of its phrase are known with it and are next to it: the
    features then separate known words from hidden ones. With 30 % of the phrases of 500 abstracts
    known, .54 of the words selected at .1 were false with them, .17 without.
    """
    x = batch.x.copy()
    for name, neutral in OF_OWN_LABELS.items():
        x[:, FEATURE_NAMES.index(name)] = neutral
    return replace(batch, x=x)


@dataclass(frozen=True)
class Corpus:
    """Documents as the product reads them, with all gold phrases as labels."""

    name: str
    prepared: Prepared
    spans: Spans
    texts: list[str]
    absent: np.ndarray  # [D] gold phrases that are no candidates


@dataclass(frozen=True)
class Task:
    """One draw of the known phrases."""

    batch: PhraseBatch
    spans: Spans
    truth: np.ndarray
    scored: np.ndarray
    absent: int

    @property
    def hidden(self) -> int:
        """Gold phrases to be found, those that are no candidates too."""
        return int(self.truth[self.scored].sum()) + self.absent


def load(name: str, folder: Path, most: int | None, options: TextOptions) -> Corpus:
    """Read a corpus through the product's own ingest."""
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()[:most]
    gold = "gold_phrases" if "gold_phrases" in rows[0] else "gold"
    columns = {"doc_id": [str(row["doc_id"]) for row in rows]}
    for column in ("tokens", "pos", "sentence", "text"):
        own = options.tag and column != "text"
        if column in rows[0] and (own if "tokens" in rows[0] else column == "text"):
            columns[column] = [row[column] for row in rows]
    columns["gold"] = [list(row[gold]) for row in rows]
    columns["keywords"] = [[] for _ in rows]  # named ones would be candidates because they are gold
    if "tokens" not in columns:
        columns["text"] = [row["text"] for row in rows]
    prepared = prepare(pa.table(columns), options, True)
    spans = find_spans(prepared.tokens, stem_keys(prepared.vocabulary.to_pylist()))
    found = np.bincount(spans.document, prepared.marks.gold == 1, len(rows)).astype(int)
    normalise = Normaliser(options)
    listed = np.array(
        [len({str(normalise.variants(k)[:1] or k.lower()) for k in row[gold]}) for row in rows]
    )
    return Corpus(
        name, prepared, spans, [row["text"] for row in rows], np.maximum(listed - found, 0)
    )


def draw(corpus: Corpus, scheme: str, seed: int) -> Task:
    """Draw the known phrases and make the features of words and phrases."""
    rng = np.random.default_rng([seed, 5])
    tokens, marks, spans = corpus.prepared.tokens, corpus.prepared.marks, corpus.spans
    truth, n = marks.gold == 1, tokens.n_documents
    chance, whole = rng.random(len(truth)), np.zeros(n, bool)
    if scheme == "one":
        order = np.lexsort((chance, ~truth, spans.document))
        rank = np.arange(len(truth)) - np.repeat(spans.offsets[:-1], np.diff(spans.offsets))
        known = np.zeros(len(truth), bool)
        known[order] = rank < 1
        known &= truth
    else:
        if scheme == "complete":
            whole[rng.choice(n, max(5, round(0.05 * n)), replace=False)] = True
        share = {"tenth": 0.1, "thirty": 0.3}.get(scheme, 0.28)
        known = truth & ((chance < share) | whole[spans.document])
    seen = np.zeros(tokens.n_words, bool)
    seen[spans.words[known][spans.words[known] >= 0]] = True
    tokens = replace(tokens, y=seen, complete=whole)
    words = features(tokens, corpus.prepared.vocabulary)
    of_words = rows_of(corpus.prepared.counts["words"])
    keys = stem_keys(corpus.prepared.vocabulary.to_pylist())[tokens.term]
    frequency = Whole.of(of_words, True).elsewhere(keys, tokens.fold[tokens.document_of_word])
    folds = tokens.fold[spans.document]
    rows = count_candidates(spans.key, folds, tokens.looked_at[spans.document], known)
    coverage = truth.sum() / max(truth.sum() + corpus.absent.sum(), 1)
    batch = build_phrases(
        tokens, spans, words, known, marks.score, round(known.sum() / coverage),
        frequency.frequency, Whole.of(rows, False).elsewhere(spans.key, folds), n,
        label_rates(*rows.totals),
    )  # fmt: skip
    scored = ~known & ~whole[spans.document]
    return Task(batch, spans, truth, scored, int(corpus.absent[~whole].sum()))


Answer = tuple[np.ndarray, bool, str]


def keyphrases_per_document(task: Task) -> float:
    """The mean number of keyphrases of a document, as somebody who knows would say it."""
    coverage = (task.batch.y.sum() + 0.5) / (task.batch.listed + 0.5)
    return float(task.truth.sum() / coverage / task.batch.words.n_documents)


def fitted(task: Task, given: bool) -> tuple[Keyphrases, PhraseGlobal, np.ndarray, str]:
    """Fit phrases, and return their features too."""
    model = Keyphrases(per_document=keyphrases_per_document(task) if given else None)
    done = fit(model, [task.batch])
    q = done.q
    units = model.phrase_units(q, task.batch)
    r = model.phrases.probabilities(q.phrases, units, None)
    said = f"{done.iterations} passes, rate x{q.phrases.rate / task.truth.mean():.2f}"
    return model, q, np.column_stack([units.x, r]), said


def half(task: Task, second: bool) -> Task:
    """Return the first or the second half of the documents."""
    batch, spans = task.batch, task.spans
    middle, last = batch.words.n_documents // 2, batch.words.n_documents
    low, high = (middle, last) if second else (0, middle)
    rows = slice(int(spans.offsets[low]), int(spans.offsets[high]))
    has = (batch.document >= low) & (batch.document < high)
    sizes = np.diff(batch.offsets)[has]
    member = batch.member[rows]
    start = int(batch.words.offsets[low])
    own = PhraseBatch(
        words=take_documents(batch.words, low, high),
        x=batch.x[rows],
        member=np.where(member >= 0, member - start, -1),
        y=batch.y[rows],
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        document=batch.document[has] - low,
        listed=round(batch.listed * batch.y[rows].sum() / max(batch.y.sum(), 1)),
    )
    offsets = spans.offsets[low : high + 1] - spans.offsets[low]
    spans = replace(spans, words=member, size=spans.size[rows], offsets=offsets)
    absent = round(task.absent * (high - low) / last)
    return Task(own, spans, task.truth[rows], task.scored[rows], absent)


def held_out(task: Task) -> tuple[Task, Answer]:
    """Fit the first half of the documents and score the second."""
    first, second = half(task, False), half(task, True)
    model, q, _, said = fitted(first, True)
    units = model.phrase_units(q, second.batch)
    return second, (model.phrases.predict(q.phrases, units), True, said)


def rivals(task: Task, x: np.ndarray) -> dict[str, Answer]:
    """Return the answers of what sees nothing of the others but their features ``x``."""

    def column(name: str) -> np.ndarray:
        return x[:, PHRASE_FEATURES.index(name)]

    z = x[:, 1:]
    sd = z.std(0)
    z = (z - z.mean(0)) / np.where(sd > 1e-9, sd, 1.0)
    s = LogisticRegression(max_iter=1000).fit(z, task.batch.y).decision_function(z)
    open_ = ~task.batch.words.complete[task.spans.document]
    c = task.batch.y[open_].sum() / max(task.truth[open_].sum(), 1)
    calibrated = np.minimum((1.0 - c) / c * np.exp(s), 1.0 + 1e-9 * s)
    rank = task.batch.words.x[:, FEATURE_NAMES.index("log_textrank")]
    there = task.spans.words >= 0
    each = np.where(there, np.exp(rank)[np.where(there, task.spans.words, 0)], 0.0)
    whole = column("maximal") > 0
    return {
        "logistic regression": (calibrated, True, ""),
        "words joined": (column("word_score_mean") + 1e3 * whole, False, ""),
        "TF-IDF": (column("log_tf_idf"), False, ""),
        "TF-IDF x position": (column("log_tf_idf") - column("first_position"), False, ""),
        "TextRank": (each.sum(1) + 1e3 * whole, False, ""),
    }


def by_yake(corpus: Corpus) -> np.ndarray:
    """YAKE on the texts, up to four words, joined by the product's stems; once a corpus."""
    import yake

    language = LANGUAGES[corpus.name]
    short_name = {"english": "en", "french": "fr", "portuguese": "pt"}[language]
    extractor = yake.KeywordExtractor(lan=short_name, n=4, top=100_000, dedupLim=1.0)
    normalise = Normaliser(TextOptions(language=language))
    score = np.full(len(corpus.spans.size), -1e9)
    for d, text in enumerate(corpus.texts):
        low, high = int(corpus.spans.offsets[d]), int(corpus.spans.offsets[d + 1])
        place = {key: i for i, key in enumerate(corpus.spans.key[low:high].tolist(), low)}
        for phrase, value in extractor.extract_keywords(text):
            for one in normalise.variants(phrase)[:1]:
                if (row := place.get(key_of(one.parts))) is not None:
                    score[row] = max(score[row], -value)
    return score


def figures(task: Task, answer: Answer) -> dict[str, float]:
    """Return everything that the tables show."""
    score, calibrated, _ = answer
    at = task.scored
    s, true = score[at], task.truth[at]
    offsets = np.concatenate([[0], np.cumsum(at)])[task.spans.offsets]
    none = np.zeros(len(s), bool)
    share = min(task.hidden / len(s), 1.0)
    found = {"Fdoc": f_of(select_share(s, none, offsets, share), true, task.hidden)}
    best = np.zeros(len(s), bool)
    best[np.argsort(-s, kind="stable")[: task.hidden]] = True
    found["Fcorp"] = f_of(best, true, task.hidden)
    found["AP"] = float(average_precision_score(true, s))
    if not calibrated:
        return found
    r = np.clip(s, 0.0, 1.0)
    place = np.minimum((r * 10).astype(int), 9)
    found["ECE"] = float(sum(abs((r - true)[place == b].sum()) for b in range(10)) / len(r))
    order = np.argsort(-r, kind="stable")
    expected = np.cumsum(1.0 - r[order]) / np.arange(1, len(r) + 1)
    for level in LEVELS:
        size = int(np.sum(expected <= level))
        found[f"n{level:g}"] = size
        found[f"false{level:g}"] = float(size - true[order[:size]].sum())
    every = np.clip(score, 0.0, 1.0 - 1e-12)
    known = ~task.scored
    least = Histogram.of(every, known, task.spans.offsets).least_by_f()
    chosen = select_above(every, known, task.spans.offsets, least) & at
    found["best F"] = f_of(chosen[at], true, task.hidden)
    return found


def f_of(selected: np.ndarray, true: np.ndarray, hidden: int) -> float:
    """F of a selection among ``hidden`` keyphrases, those that are no candidates too."""
    return float(2.0 * (selected & true).sum() / max(selected.sum() + hidden, 1))


def of_words(corpus: Corpus, task: Task) -> str:
    """Return lines on the words of known phrases, with and without labels of their document."""
    truth, lines = corpus.prepared.tokens.y, []
    for form, batch in (
        ("words, own labels as features", task.batch.words),
        ("words", without_own_labels(task.batch.words)),
    ):
        model = CorpusProbit(keyword_rate=float(truth.mean()))
        r = model.probabilities(fit(model, [batch]).q, batch, None)[~batch.y]
        true = truth[~batch.y]
        order = np.argsort(-r, kind="stable")
        expected = np.cumsum(1.0 - r[order]) / np.arange(1, len(r) + 1)
        cells = [short(float(average_precision_score(true, r)))]
        for level in LEVELS:
            size = int(np.sum(expected <= level))
            cells.append(f"{short(1.0 - true[order[:size]].mean())} ({size})" if size else "")
        lines.append(f"| {form} | {' | '.join(cells)} |\n")
    return "| | AP | false at .1 | at .3 | at .5 |\n|---|---|---|---|---|\n" + "".join(lines)


HEAD = "| | F doc | F corpus | AP | ECE | false at .1 / .3 / .5 | best F | |\n" + "|---" * 8 + "|"


def row(found: Sequence[dict[str, float]]) -> str:
    """Return one line of a table: means, and false shares pooled over the draws."""
    shown = [short(np.mean([f[name] for f in found])) for name in ("Fdoc", "Fcorp", "AP")]
    if "ECE" not in found[0]:
        return " | ".join([*shown, "", "", ""])
    shown.append(short(np.mean([f["ECE"] for f in found])))
    false = []
    for level in LEVELS:
        size = sum(f[f"n{level:g}"] for f in found)
        wrong = sum(f[f"false{level:g}"] for f in found) / max(size, 1)
        false.append(f"{short(wrong)} ({size:.0f})")
    shown.append(" / ".join(false))
    return " | ".join([*shown, short(np.mean([f["best F"] for f in found]))])


def answers(task: Task, scheme: str, yake: np.ndarray | None) -> dict[str, Answer]:
    """Return every form's answer to a task."""
    found: dict[str, Answer] = {}
    x = None
    for form, given in (("phrases", True), ("phrases, rate not given", False)):
        if given and scheme in ("thirty", "complete"):
            continue
        begin = time.process_time()
        _, _, columns, said = fitted(task, given)
        x = columns[:, :-1]
        seconds = time.process_time() - begin
        found[form] = (columns[:, -1], True, f"{said}; {seconds:.2f} s")
    assert x is not None
    found.update(rivals(task, x))
    if yake is not None:
        found["YAKE"] = (yake, False, "")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all forms on all corpora and write Markdown to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the Parquet files")
    parser.add_argument("--corpora", default=",".join(LANGUAGES))
    parser.add_argument("--schemes", default="share")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--documents", type=int, default=None, help="the first N of each corpus")
    parser.add_argument("--yake", action="store_true", help="run YAKE too")
    parser.add_argument("--no-tags", action="store_true", help="English without parts of speech")
    parser.add_argument("--no-stems", action="store_true", help="as a language without a stemmer")
    parser.add_argument("--words", action="store_true", help="words of known phrases instead")
    parser.add_argument("--held-out", action="store_true", help="fit one half, score the other")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    everything: dict[tuple[str, str], list[dict[str, float]]] = {}
    with threadpool_limits(1):
        for name in options.corpora.split(","):
            text = TextOptions(
                language=LANGUAGES[name],
                tag=not options.no_tags,
                stem="none" if options.no_stems else "auto",
            )
            corpus = load(name, options.data, options.documents, text)
            yake = by_yake(corpus) if options.yake else None
            for scheme in options.schemes.split(","):
                tasks = [draw(corpus, scheme, seed) for seed in seeds]
                first = tasks[0]
                coverage = first.truth.sum() / (first.truth.sum() + corpus.absent.sum())
                sys.stdout.write(
                    f"\n## {name}, {scheme}\n\n{first.batch.words.n_documents} documents, "
                    f"{first.batch.n_phrases / first.batch.words.n_documents:.1f} phrases each, "
                    f"{first.truth.mean():.1%} keyphrases, {first.batch.y.sum()} known; "
                    f"{coverage:.0%} of the gold phrases are candidates\n\n{HEAD}\n"
                )
                if options.words:
                    sys.stdout.write(of_words(corpus, first) + "\n")
                    continue
                if options.held_out:
                    pairs = [held_out(task) for task in tasks]
                    found = [figures(*pair) for pair in pairs]
                    everything.setdefault((scheme, "new documents"), []).extend(found)
                    sys.stdout.write(f"| new documents | {row(found)} | {pairs[0][1][2]} |\n")
                    continue
                made = [answers(task, scheme, yake) for task in tasks]
                for form in made[0]:
                    found = [figures(t, a[form]) for t, a in zip(tasks, made, strict=True)]
                    everything.setdefault((scheme, form), []).extend(found)
                    said = " / ".join(a[form][2] for a in made).strip(" /")
                    sys.stdout.write(f"| {form} | {row(found)} | {said} |\n")
                    sys.stdout.flush()
    for scheme in () if options.words else options.schemes.split(","):
        sys.stdout.write(f"\n## All corpora, {scheme}\n\n{HEAD}\n")
        for (of, form), found in everything.items():
            if of == scheme:
                sys.stdout.write(f"| {form} | {row(found)} | |\n")


if __name__ == "__main__":
    main()
