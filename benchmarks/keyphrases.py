"""Keyphrases of five corpora: calibrated phrases and their rivals, by document and corpus-wide.

    python -m benchmarks.keyphrases [--data FOLDER] [--corpora hulth,kdd,...] [--seeds 0,1]
                                    [--schemes share,one,...] [--documents N] [--yake]
    python -m benchmarks.keyphrases --lists [--corpora ...] [--seeds 0,1,2] [--documents N]

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

With ``--lists`` the estimator is given lists, drawn from all gold phrases, candidates or not, with
a prior of the other corpora. What is not listed, of documents that are not complete, is scored:

    28 %       each gold phrase is listed with probability .28
    whole      20 documents list all of theirs, of the others nobody has looked for any

"expected" and "real" are the precision of what the product selects, and of all above .5.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.keyword_corpora import (
    LANGUAGES,
    SHARED,
    by_yake,
    candidate_rows,
    f_of,
    features,
    language_of,
    ranked,
    short,
)
from benchmarks.keyword_prior import KINDS, others
from benchmarks.keyword_prior import LANGUAGES as LANGUAGES_READ
from benchmarks.keyword_prior import load as load_corpus
from benchmarks.labelled_corpora import LabelledCorpus, ReadCorpus, read_corpus, whole_corpus
from flows.keywords.input.documents import Prepared, prepare
from flows.keywords.input.shards import rows_of
from vbmodels.core.fit import fit
from vbmodels.estimators.keywords import KeywordExtractor
from vbmodels.keywords.candidate_counts import Whole, count_candidates
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.keywords.features import FEATURE_NAMES, label_rates
from vbmodels.keywords.learnt_prior import LearntPrior
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.features import PHRASE_FEATURES, build_phrases
from vbmodels.keywords.phrases.model import Keyphrases, PhraseGlobal
from vbmodels.text.candidates import Spans, find_spans, stem_keys
from vbmodels.text.words import Normaliser, TextOptions

SCHEMES = ("share", "tenth", "thirty", "one", "complete")
LEVELS = (0.1, 0.3, 0.5)


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


def figures(task: Task, answer: Answer) -> dict[str, float]:
    """Return everything that the tables show."""
    score, calibrated, _ = answer
    at, offsets = task.scored, task.spans.offsets
    found = ranked(answer, at, task.truth, offsets, task.hidden, LEVELS)
    if calibrated:
        every = np.clip(score, 0.0, 1.0 - 1e-12)
        least = Histogram.of(every, ~at, offsets).least_by_f()
        chosen = select_above(every, ~at, offsets, least) & at
        found["best F"] = f_of(chosen[at], task.truth[at], task.hidden)
    return found


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


def listed(
    corpus: LabelledCorpus, case: str, number: bool, seed: int, prior: LearntPrior
) -> dict[str, float]:
    """Give the estimator lists, and return the figures of what is not listed."""
    rng = np.random.default_rng([seed, 7])
    gold = [list(dict.fromkeys(term.lower() for term in one)) for one in corpus.keywords]
    size = len(gold)
    whole = np.zeros(size, bool)
    if case == "whole":
        whole[rng.choice(size, min(20, size // 2), replace=False)] = True
        lists = [one if all_of_it else None for one, all_of_it in zip(gold, whole, strict=True)]
    else:
        lists = [[term for term in one if rng.random() < 0.28] for one in gold]
    mean = float(np.mean([len(one) for one in gold])) if number else None
    language = LANGUAGES_READ.get(corpus.name, "english")
    found = KeywordExtractor(language=language, prior=prior, keyphrases=mean, n_partitions=1)
    found.fit(corpus.texts, lists, complete=whole, ids=[str(d) for d in range(size)])
    read = read_corpus(corpus)
    spans, numbers = read.part.read.spans, read.part.documents
    rows = read.phrases
    truth = set(zip(numbers[spans.document[rows]].tolist(), spans.key[rows].tolist(), strict=True))
    every = found._fitted  # with the numbers of the candidates
    document, key = np.array(every["document"]), every["key"].tolist()
    at = ~every["observed"] & ~whole[document]
    true = np.array([pair in truth for pair in zip(document.tolist(), key, strict=True)])[at]
    r, chosen, own = every["probability"][at], every["selected"][at], document[at]
    order = np.lexsort((-r, own))
    place = np.arange(len(order)) - np.searchsorted(own[order], own[order])
    ten = order[place < 10]
    hidden = sum(
        len(one) - len(known or ())
        for one, known, all_of_it in zip(gold, lists, whole, strict=True)
        if not all_of_it
    )
    sure, bins = r > 0.5, np.minimum((r * 10).astype(int), 9)
    return {
        "selected": float(chosen.sum()),
        "expected": float(r[chosen].sum()),
        "real": float(true[chosen].sum()),
        "sure": float(sure.sum()),
        "sure expected": float(r[sure].sum()),
        "sure real": float(true[sure].sum()),
        "ECE": sum(abs((r - true)[bins == b].sum()) for b in range(10)) / len(r),
        "P@10": float(true[ten].sum() / (10 * (~whole).sum())),
        "F": float(2 * true[chosen].sum() / (chosen.sum() + hidden)),
        "rate": float(found.keyword_rate_ / true_rate(read, ~whole)),
    }


def true_rate(read: ReadCorpus, documents: np.ndarray) -> float:
    """Return the share of keyphrases among the candidates of some documents."""
    of = documents[read.part.documents[read.part.read.spans.document]]
    return float(read.phrases[of].mean())


LISTED = (
    "| | selected: expected / real | above .5: n, expected / real | ECE | P@10 | F | rate |\n"
    "|---|---|---|---|---|---|---|"
)


def show_lists(options: argparse.Namespace, seeds: Sequence[int]) -> None:
    """Write the tables of lists."""
    names = options.corpora.split(",")
    learnt = {name: whole_corpus(load_corpus(name, options.data, 250)) for name in KINDS}
    priors = {name: others(name, learnt) for name in names}
    corpora = {n: load_corpus(n, options.data, options.documents) for n in names}
    for case, number in product(("28 %", "whole"), (False, True)):
        given = "the true number given" if number else "no number given"
        sys.stdout.write(f"\n## {case}, {given}\n\n{LISTED}\n")
        each = []
        for name in names:
            draws = [listed(corpora[name], case, number, seed, priors[name]) for seed in seeds]
            total = {key: sum(one[key] for one in draws) for key in draws[0]}
            mean = {key: value / len(draws) for key, value in total.items()}
            pairs = [("selected", "expected", "real"), ("sure", "sure expected", "sure real")]
            (e, t), (se, st) = (
                [short(total[key] / max(total[of], 1)) for key in keys] for of, *keys in pairs
            )
            each.append((total["expected"] - total["real"]) / max(total["selected"], 1))
            cells = [short(mean[key]) for key in ("ECE", "P@10", "F")]
            sure = f"{mean['sure']:.0f}, {se} / {st}"
            line = [name, f"{e} / {t}", sure, *cells, f"x{mean['rate']:.2f}"]
            sys.stdout.write(f"| {' | '.join(line)} |\n")
            sys.stdout.flush()
        sys.stdout.write(f"\nFarthest: {max(map(abs, each)):.3f}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all forms on all corpora and write Markdown to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the Parquet files")
    parser.add_argument("--corpora", default=",".join(LANGUAGES))
    parser.add_argument("--schemes", default="share")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--documents", type=int, default=None, help="the first N of each corpus")
    parser.add_argument("--yake", action="store_true", help="run YAKE too")
    parser.add_argument("--lists", action="store_true", help="give the estimator lists")
    parser.add_argument("--no-tags", action="store_true", help="English without parts of speech")
    parser.add_argument("--no-stems", action="store_true", help="as a language without a stemmer")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    everything: dict[tuple[str, str], list[dict[str, float]]] = {}
    if options.lists:
        with threadpool_limits(1):
            show_lists(options, seeds)
        return
    with threadpool_limits(1):
        for name in options.corpora.split(","):
            text = TextOptions(
                language=language_of(name),
                tag=not options.no_tags,
                stem="none" if options.no_stems else "auto",
            )
            corpus = load(name, options.data, options.documents, text)
            yake = None
            if options.yake:
                rows = candidate_rows(corpus.spans.key.tolist(), corpus.spans.offsets)
                yake = by_yake(corpus.texts, language_of(name), 4, rows)
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
                made = [answers(task, scheme, yake) for task in tasks]
                for form in made[0]:
                    found = [figures(t, a[form]) for t, a in zip(tasks, made, strict=True)]
                    everything.setdefault((scheme, form), []).extend(found)
                    said = " / ".join(a[form][2] for a in made).strip(" /")
                    sys.stdout.write(f"| {form} | {row(found)} | {said} |\n")
                    sys.stdout.flush()
    for scheme in options.schemes.split(","):
        sys.stdout.write(f"\n## All corpora, {scheme}\n\n{HEAD}\n")
        for (of, form), found in everything.items():
            if of == scheme:
                sys.stdout.write(f"| {form} | {row(found)} | |\n")


if __name__ == "__main__":
    main()
