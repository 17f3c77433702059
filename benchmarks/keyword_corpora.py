"""Keywords of five corpora: the corpus model and its rivals, by document and corpus-wide.

    python -m benchmarks.keyword_corpora [--data FOLDER] [--corpora hulth,kdd,...] [--seeds 0,1]
                                         [--schemes share,one,...] [--documents N] [--yake]

Known words are drawn from the gold words that are candidates; the others are to be found.

    share      each with probability .28          tenth      with probability .10
    one, three so many of each document           complete   as share; 5 % of documents whole
    uneven     with a probability of its own in each document, Beta(1.4, 3.6)

Over the words that were not known, of documents that are not complete: F per document (of
each document the same share, in all as many as there are hidden keywords), F corpus-wide (so
many over all documents), average precision, the expected calibration error in ten bins, and
the realised false share of a corpus-wide selection at .05, .1 and .3. The rate is the true one
unless a form says otherwise; logistic regression has the same features, every other word a
negative, and is calibrated by that rate (Elkan and Noto 2008).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from flows.keywords.input.documents import Prepared, prepare
from vbmodels.core.fit import fit
from vbmodels.keywords.candidate_counts import Whole, count_candidates
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.features import FEATURE_NAMES, build_batch, label_rates
from vbmodels.keywords.selection import select_share
from vbmodels.keywords.units import KeywordBatch
from vbmodels.text.candidates import DocumentTokens, key_of, stem_keys
from vbmodels.text.words import Normaliser, TextOptions

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "keywords"
LANGUAGES = {
    "hulth": "english",
    "semeval2017": "english",
    "kdd": "english",
    "wikinews_fr": "french",
    "110pt": "portuguese",
}
YAKE_LANGUAGES = {"english": "en", "french": "fr", "portuguese": "pt", "polish": "pl"}
SCHEMES = ("share", "tenth", "one", "three", "complete", "uneven")
LEVELS = (0.05, 0.1, 0.3)


@dataclass(frozen=True)
class Corpus:
    """Documents as the product reads them, with their gold words as labels."""

    name: str
    prepared: Prepared
    texts: list[str]
    n_documents: int


@dataclass(frozen=True)
class Task:
    """One draw of the known words: the batch, the truth of every word, and what is scored."""

    batch: KeywordBatch
    tokens: DocumentTokens
    truth: np.ndarray
    scored: np.ndarray

    @property
    def rate(self) -> float:
        """The share of the words that are keywords."""
        return float(self.truth.mean())


Answer = tuple[np.ndarray, bool, str]
"""Scores [W], whether they are probabilities, and a remark."""


def language_of(name: str) -> str:
    """Return the language of a corpus: English, if it is not one of those above."""
    return LANGUAGES.get(name, "english")


def load(name: str, folder: Path, most: int | None) -> Corpus:
    """Read a corpus through the product's own ingest, with the gold keywords as known ones."""
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()[:most]
    columns = {"doc_id": [str(row["doc_id"]) for row in rows]}
    gold = "gold_phrases" if "gold_phrases" in rows[0] else "gold"
    for column in ("tokens", "pos", "sentence", "text"):
        if column in rows[0] and not (column == "text" and "tokens" in rows[0]):
            columns[column] = [row[column] for row in rows]
    columns["gold"] = [list(row[gold]) for row in rows]
    columns["keywords"] = [[] for _ in rows]  # named ones would be candidates because they are gold
    prepared = prepare(pa.table(columns), TextOptions(language=language_of(name)), False)
    return Corpus(name, prepared, [row["text"] for row in rows], len(rows))


def known_words(scheme: str, truth: np.ndarray, tokens, rng: np.random.Generator):
    """Return which words are known [W] and which documents are complete [D]."""
    d = tokens.document_of_word
    n = tokens.n_documents
    whole = np.zeros(n, bool)
    chance = rng.random(len(truth))
    if scheme in ("one", "three"):
        order = np.lexsort((chance, ~truth, d))
        rank = np.arange(len(truth)) - np.repeat(tokens.offsets[:-1], np.diff(tokens.offsets))
        known = np.zeros(len(truth), bool)
        known[order] = rank < (1 if scheme == "one" else 3)
        return known & truth, whole
    share = {"tenth": 0.1}.get(scheme, 0.28)
    each = rng.beta(1.4, 3.6, n)[d] if scheme == "uneven" else share
    if scheme == "complete":
        whole[rng.choice(n, max(5, round(0.05 * n)), replace=False)] = True
    return truth & ((chance < each) | whole[d]), whole


def draw(corpus: Corpus, scheme: str, seed: int) -> Task:
    """Draw the known words and make the features."""
    tokens = corpus.prepared.tokens
    truth = corpus.prepared.marks.gold == 1
    known, whole = known_words(scheme, truth, tokens, np.random.default_rng([seed, 3]))
    tokens = replace(tokens, y=known, complete=whole)
    batch = features(tokens, corpus.prepared.vocabulary)
    return Task(batch, tokens, truth, ~known & ~whole[tokens.document_of_word])


def features(tokens: DocumentTokens, vocabulary: pa.Array) -> KeywordBatch:
    """Make the features of words whose documents are the whole corpus."""
    keys = stem_keys(vocabulary.to_pylist())[tokens.term]
    own = tokens.document_of_word
    folds = tokens.fold[own]
    rows = count_candidates(keys, folds, tokens.looked_at[own], tokens.y)
    elsewhere = Whole.of(rows, True).elsewhere(keys, folds)
    return build_batch(tokens, elsewhere, tokens.n_documents, label_rates(*rows.totals))


# The methods.


def corpus_model(factor: float | None = 1.0, sd: float = 0.0, **more) -> Callable[[Task], Answer]:
    """The corpus model, given the rate times a factor; None: given no rate."""

    def run(task: Task) -> Answer:
        rate = None if factor is None else min(0.9, factor * task.rate)
        model = CorpusProbit(keyword_rate=rate, keyword_rate_sd=sd, **more)
        done = fit(model, [task.batch])
        q = done.q
        note = f"{done.iterations} passes, kappa {q.exponent:.2f}, rate x{q.rate / task.rate:.2f}"
        return model.probabilities(q, task.batch, None), True, note

    return run


def logistic(task: Task) -> Answer:
    """Logistic regression of what is known, calibrated by the true rate."""
    x = task.batch.x[:, 1:]
    sd = x.std(0)
    x = (x - x.mean(0)) / np.where(sd > 1e-9, sd, 1.0)
    s = LogisticRegression(max_iter=1000).fit(x, task.batch.y).decision_function(x)
    open_ = ~task.batch.complete[task.batch.document_of_word]
    c = task.batch.y[open_].sum() / max(task.truth[open_].sum(), 1)
    return np.minimum((1.0 - c) / c * np.exp(s), 1.0 + 1e-9 * s), True, ""


def feature(name: str) -> Callable[[Task], Answer]:
    """One of the features as a score."""
    return lambda task: (task.batch.x[:, FEATURE_NAMES.index(name)], False, "")


FORMS: dict[str, Callable[[Task], Answer]] = {
    "corpus": corpus_model(),
    "corpus, rate not given": corpus_model(None),
    "corpus, rate x1.5 with sd .4": corpus_model(1.5, 0.4),
    "corpus, rate /1.5 with sd .4": corpus_model(1.0 / 1.5, 0.4),
    "corpus, rate x1.5 as a fact": corpus_model(1.5),
    "logistic regression": logistic,
    "TF-IDF": feature("log_tf_idf"),
    "TextRank": feature("log_textrank"),
}


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


# Figures.


def figures(task: Task, answer: Answer) -> dict[str, float]:
    """Return everything that the tables show."""
    hidden = int(task.truth[task.scored].sum())
    return ranked(answer, task.scored, task.truth, task.batch.offsets, hidden, LEVELS)


def ranked(
    answer: Answer, scored: np.ndarray, truth: np.ndarray, offsets: np.ndarray, hidden: int,
    levels: Sequence[float],
) -> dict[str, float]:  # fmt: skip
    """Return the figures of a ranking of candidates, ``hidden`` of which are to be found."""
    score, calibrated, _ = answer
    s, true = np.clip(score[scored], 0.0, 1.0) if calibrated else score[scored], truth[scored]
    offsets, none = np.concatenate([[0], np.cumsum(scored)])[offsets], np.zeros(len(s), bool)
    share = min(hidden / len(s), 1.0)
    found = {"Fdoc": f_of(select_share(score[scored], none, offsets, share), true, hidden)}
    best = np.zeros(len(s), bool)
    best[np.argsort(-score[scored], kind="stable")[:hidden]] = True
    found["Fcorp"] = f_of(best, true, hidden)
    found["AP"] = float(average_precision_score(true, score[scored]))
    if not calibrated:
        return found
    place = np.minimum((s * 10).astype(int), 9)
    found["ECE"] = float(sum(abs((s - true)[place == b].sum()) for b in range(10)) / len(s))
    order = np.argsort(-s, kind="stable")
    expected = np.cumsum(1.0 - s[order]) / np.arange(1, len(s) + 1)
    for level in levels:
        size = int(np.sum(expected <= level))
        right = int(true[order[:size]].sum())
        found |= {f"n{level:g}": size, f"false{level:g}": size - right}
        found[f"F{level:g}"] = 2.0 * right / max(size + hidden, 1)
    return found


def f_of(selected: np.ndarray, true: np.ndarray, hidden: int) -> float:
    """F of a selection among ``hidden`` things to find, those that are no candidates too."""
    return float(2.0 * (selected & true).sum() / max(selected.sum() + hidden, 1))


def row(found: Sequence[dict[str, float]]) -> str:
    """Return one line of a table: means, and false shares pooled over the draws."""
    cells = [np.mean([f[name] for f in found]) for name in ("Fdoc", "Fcorp", "AP")]
    shown = [short(cell) for cell in cells]
    if "ECE" not in found[0]:
        return " | ".join([*shown, "", "", ""])
    shown.append(short(np.mean([f["ECE"] for f in found])))
    false = (
        sum(f[f"false{x:g}"] for f in found) / max(sum(f[f"n{x:g}"] for f in found), 1)
        for x in LEVELS
    )
    shown.append(" / ".join(map(short, false)))
    shown.append(" / ".join(short(np.mean([f[f"F{x:g}"] for f in found])) for x in LEVELS))
    return " | ".join(shown)


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)


HEAD = (
    "| | F doc | F corpus | AP | ECE | false at .05 / .1 / .3 | F at .05 / .1 / .3 | |\n"
    + "|---" * 8
    + "|"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all forms on all corpora and write Markdown to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the Parquet files")
    parser.add_argument("--corpora", default=",".join(LANGUAGES))
    parser.add_argument("--schemes", default="share")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--documents", type=int, default=None, help="the first N of each corpus")
    parser.add_argument("--forms", default=";".join(FORMS), help="separated by ;")
    parser.add_argument("--yake", action="store_true", help="run YAKE too")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    everything: dict[tuple[str, str], list[dict[str, float]]] = {}
    with threadpool_limits(1):
        for name in options.corpora.split(","):
            corpus = load(name, options.data, options.documents)
            forms = {form: FORMS[form] for form in options.forms.split(";")}
            if options.yake:
                vocabulary, tokens = corpus.prepared.vocabulary, corpus.prepared.tokens
                stems = vocabulary.take(pa.array(tokens.term)).to_pylist()
                rows = candidate_rows(stems, tokens.offsets)
                of_yake = by_yake(corpus.texts, language_of(name), 1, rows)
                forms["YAKE"] = lambda task, score=of_yake: (score, False, "")
            for scheme in options.schemes.split(","):
                tasks = [draw(corpus, scheme, seed) for seed in seeds]
                first = tasks[0]
                sys.stdout.write(
                    f"\n## {name}, {scheme}\n\n{first.batch.n_documents} documents, "
                    f"{first.batch.n_words / first.batch.n_documents:.1f} words each, "
                    f"{first.rate:.1%} keywords, {first.batch.y.sum()} known\n\n{HEAD}\n"
                )
                for form, run in forms.items():
                    begin = time.process_time()
                    answers = [run(task) for task in tasks]
                    seconds = (time.process_time() - begin) / len(tasks)
                    found = [figures(t, a) for t, a in zip(tasks, answers, strict=True)]
                    everything.setdefault((scheme, form), []).extend(found)
                    sys.stdout.write(
                        f"| {form} | {row(found)} | {answers[0][2]}; {seconds:.2f} s |\n"
                    )
                    sys.stdout.flush()
    for scheme in options.schemes.split(","):
        sys.stdout.write(f"\n## All corpora, {scheme}\n\n{HEAD}\n")
        for (of, form), found in everything.items():
            if of == scheme:
                sys.stdout.write(f"| {form} | {row(found)} | |\n")


if __name__ == "__main__":
    main()
