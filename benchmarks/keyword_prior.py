"""Keywords of corpora that the prior has not seen: no labels, 20 complete documents, 28 % known.

    python -m benchmarks.keyword_prior [--data FOLDER] [--corpora hulth,kdd,...] [--documents 250]
                                       [--schemes none,whole,share] [--seed 0] [--yake]
    python -m benchmarks.keyword_prior --make vbmodels/keywords/prior.json

``--make`` learns the prior that the product ships, from the first 250 documents of each corpus.
Otherwise each of these has a prior of the others, and any other corpus the shipped one. Known
phrases are drawn from the gold phrases that are candidates:

    none    nobody has labelled anything        whole   20 documents are complete, no other is
    share   each with probability .28           three   three of each of 120 documents

Scored are the candidates that are not known, of documents that are not complete. F is
corpus-wide, of as many as there are gold phrases to find, those that are no candidates too; P@10
is of each document's ten best; ECE in ten bins; "factor" is that between the expected and the
realised precision of these; "expected" and "realised" are the precision of what the product
selects, "selected" of a document, "covered" how often the range in the headline holds it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, calibration_error, head, row
from benchmarks.keywords import by_yake, candidate_rows, without_labels
from benchmarks.prior_learning import (
    LabelledCorpus,
    ReadCorpus,
    learn_keyword_prior,
    learn_prior,
    read_corpus,
    text_of,
    whole_corpus,
)
from vbmodels.core.fit import fit
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.estimators.documents import Corpus
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.selection import Histogram, most_new, number_of, select_above
from vbmodels.keywords.features import FEATURE_NAMES
from vbmodels.keywords.learnt_prior import (
    MARKED,
    SOME,
    LearntPrior,
    keyphrases_model,
    shipped,
    words_model,
)
from vbmodels.keywords.options import DAMPING, WINDOW
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.keywords.selection import without_parts, word_ranks
from vbmodels.text.candidates import Spans

SOURCE = "LIAAD/KeywordExtractor-Datasets"
KINDS = {
    **dict.fromkeys(("hulth", "semeval2017", "110pt", "wikinews_fr"), MARKED),
    **dict.fromkeys(("kdd", "www", "pak2018", "semeval2010", "theses100", "fao30"), SOME),
}
"""The corpora of the shipped prior, and the kind of their lists."""
HELD_BACK = {
    **dict.fromkeys(("nguyen2007", "citeulike180", "wos", "scopus", "readmes"), SOME),
    "kpcrowd": MARKED,
}
"""Corpora that no prior is made from: theirs is the shipped one."""
SCHEMES = ("none", "whole", "share")
LANGUAGES = {"wikinews_fr": "french", "110pt": "portuguese", "pak2018": "polish"}


def load(name: str, folder: Path, most: int) -> LabelledCorpus:
    """Read a corpus from a table of doc_id, text and gold."""
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()[:most]
    gold = "gold_phrases" if "gold_phrases" in rows[0] else "gold"
    return LabelledCorpus(
        name,
        [one["text"] for one in rows],
        [list(one[gold]) for one in rows],
        kind={**KINDS, **HELD_BACK}[name],
        source=SOURCE,
        licence="the source states none; no text is kept",
    )


@dataclass(frozen=True)
class Candidates:
    """Words or phrases of a draw: which are keywords, which are scored, which are known."""

    truth: BoolArray
    scored: BoolArray
    known: BoolArray
    offsets: IntArray
    absent: int = 0  # keyphrases to find that are no candidates
    spans: Spans | None = None  # of phrases


@dataclass(frozen=True)
class Task:
    """One draw of the known phrases."""

    batch: PhraseBatch
    words: Candidates
    phrases: Candidates
    per_document: float


def draw(read: ReadCorpus, scheme: str, seed: int) -> Task:
    """Draw the known phrases and make the features."""
    rng = np.random.default_rng([seed, 5])
    tokens, spans, marks = read.part.read.tokens, read.part.read.spans, read.part.read.marks
    truth, n = read.phrases, tokens.n_documents
    found = np.bincount(spans.document, truth, n).astype(int)
    absent = np.maximum(read.listed - found, 0)
    whole, unlabelled, known = np.zeros(n, bool), np.zeros(n, bool), np.zeros(len(truth), bool)
    listed_absent = np.zeros(n, int)
    if scheme == "none":
        unlabelled[:] = True
    elif scheme == "whole":
        whole[rng.choice(n, min(20, n // 2), replace=False)] = True
        unlabelled, known, listed_absent = ~whole, truth & whole[spans.document], absent * whole
    elif scheme == "share":
        known, listed_absent = truth & (rng.random(len(truth)) < 0.28), rng.binomial(absent, 0.28)
    else:
        some = np.zeros(n, bool)
        some[rng.choice(n, min(120, n // 2), replace=False)] = True
        order = np.lexsort((rng.random(len(truth)), ~truth, spans.document))
        rank = np.arange(len(truth)) - np.repeat(spans.offsets[:-1], np.diff(spans.offsets))
        three = np.minimum(3, found + absent)
        there = rng.hypergeometric(found, absent, three)
        known[order] = rank < there[spans.document]
        known &= truth & some[spans.document]
        unlabelled, listed_absent = ~some, (three - there) * some
    seen = np.zeros(tokens.n_words, bool)
    seen[spans.words[known][spans.words[known] >= 0]] = True
    seen |= read.words & whole[tokens.document_of_word]
    tokens = replace(tokens, y=seen, complete=whole, unlabelled=unlabelled)
    listed = np.bincount(spans.document, known, n).astype(int) + listed_absent
    marks = replace(marks, y=known, listed=listed)
    several = int((spans.size[known] > 1).sum())
    drawn = replace(
        read.part.read, tokens=tokens, marks=marks, known=int(known.sum()), several=several
    )
    part = replace(read.part, read=drawn)
    batch = part.batch(Corpus.of([part], True), WINDOW, DAMPING)
    offsets = np.zeros(n + 1, int)
    offsets[batch.document + 1] = np.diff(batch.offsets)
    hidden = int((absent * ~whole - listed_absent * ~whole).sum())
    scored = ~seen & ~whole[tokens.document_of_word], ~known & ~whole[spans.document]
    return Task(
        batch,
        Candidates(read.words, scored[0], batch.words.y, batch.words.offsets),
        Candidates(truth, scored[1], batch.y, np.cumsum(offsets), hidden, spans),
        float(read.listed.mean()),
    )


@dataclass(frozen=True)
class Scores:
    """Probabilities, or scores [M], of the candidates; of a model those by node [K, M] too.

    ``number`` is how many keyphrases a document has, at most, in a selection.
    """

    score: FloatArray
    nodes: FloatArray | None = None
    number: int | None = None


def answers(task: Task, words: CorpusProbit, phrases: Keyphrases) -> tuple[Scores, Scores]:
    """Fit words and phrases."""
    q = fit(words, [task.batch.words]).q
    nodes = words.by_node(q, task.batch.words, fitted=True)
    of_words = Scores(np.where(task.batch.words.y, 1.0, q.weights @ nodes), nodes)
    whole = fit(phrases, [task.batch]).q
    units, scores = phrases.phrases_and_scores(whole, task.batch)
    nodes = phrases.phrases.by_node(whole.phrases, units, fitted=True, extra=scores)
    number = number_of(whole.phrases, phrases.per_document)
    r = np.where(units.y, 1.0, whole.phrases.weights @ nodes)
    return of_words, Scores(r, nodes, number)


def figures(scores: Scores, of: Candidates) -> dict[str, float]:
    """Return everything that the tables show."""
    score, at = scores.score, of.scored
    s, true = score[at], of.truth[at]
    inside = np.concatenate([[0], np.cumsum(at)])[of.offsets]
    hidden = int(true.sum()) + of.absent
    best = np.argsort(-s, kind="stable")[:hidden]
    found = {"F": 2.0 * true[best].sum() / (len(best) + hidden)}
    ten = word_ranks(s, inside) <= 10
    document = np.repeat(np.arange(len(inside) - 1), np.diff(inside))
    size = np.bincount(document[ten])
    hits = np.bincount(document[ten], true[ten])
    has = size > 0
    found["P@10"] = float((hits[has] / (10 if of.absent else size[has])).mean())
    if scores.nodes is None:
        return found
    found["ECE"] = calibration_error(s, true)
    found["factor"] = float(np.exp(abs(np.log(s[ten].mean() / max(true[ten].mean(), 1e-9)))))
    most = None if scores.number is None else most_new(scores.number, of.known, of.offsets)
    least = Histogram.of(score, ~at, of.offsets, most).least_by_f()
    chosen = select_above(score, ~at, of.offsets, least, most)
    if of.spans is not None:
        chosen = without_parts(chosen, of.known, score, of.spans)
    chosen = chosen[at]
    found["best F"] = 2.0 * true[chosen].sum() / (chosen.sum() + hidden)
    if chosen.any():
        found["expected"], found["realised"] = s[chosen].mean(), true[chosen].mean()
        found["selected"] = chosen.sum() / (len(inside) - 1)
        each = scores.nodes[:, at][:, chosen].mean(axis=1)
        found["covered"] = float(each.min() <= found["realised"] <= each.max())
    return found


def rivals(task: Task) -> dict[str, tuple[Scores, Scores]]:
    """Return the scores of words and phrases of methods without labels."""
    words = task.batch.words.features

    def word(name: str) -> FloatArray:
        return words[:, FEATURE_NAMES.index(name)]

    of_words = {
        "TF-IDF": word("log_tf_idf"),
        "TF-IDF x position": word("log_tf_idf") - word("first_position"),
        "TextRank": word("log_textrank"),
    }
    of_phrases = without_labels(task.batch)
    return {name: (Scores(of_words[name]), Scores(of_phrases[name])) for name in of_words}


def yake_scores(corpus: LabelledCorpus, read: ReadCorpus, size: int) -> FloatArray:
    """Return YAKE's scores of words or, of a size above one, of phrases."""
    part = read.part.read
    keys, offsets = part.spans.key.tolist(), part.spans.offsets
    if size == 1:
        keys, offsets = [part.vocabulary[i] for i in part.tokens.term], part.tokens.offsets
    texts = [corpus.texts[number] for number in read.part.documents.tolist()]
    language = LANGUAGES.get(corpus.name, "english")
    return by_yake(texts, language, size, candidate_rows(keys, offsets))


def models(
    prior: LearntPrior | None, kind: str | None = None, number: float | None = None
) -> tuple[CorpusProbit, Keyphrases]:
    """Return the models of words and of phrases."""
    return words_model(prior, kind, None), keyphrases_model(prior, kind, number)


def figures_of(
    corpus: LabelledCorpus, prior: LearntPrior, scheme: str, seed: int, yake: bool
) -> list[dict[str, Any]]:
    """Return the figures of words and phrases by every form and rival."""
    read = read_corpus(corpus)
    task = draw(read, scheme, seed)
    forms = {
        "vague prior": models(None),
        "learnt": models(prior),
        "learnt, kind named": models(prior, corpus.kind),
        "learnt, number named": models(prior, corpus.kind, task.per_document),
    }
    if scheme == "none":
        del forms["vague prior"]
    scores = {form: answers(task, *pair) for form, pair in forms.items()}
    if scheme == "none":
        scores |= rivals(task)
        if yake:
            one, four = (Scores(yake_scores(corpus, read, size)) for size in (1, 4))
            scores["YAKE"] = one, four
    rows = []
    for form, (words, phrases) in scores.items():
        rows.append({"form": form, "unit": "words", **figures(words, task.words)})
        rows.append({"form": form, "unit": "phrases", **figures(phrases, task.phrases)})
    return rows


COLUMNS = ["F", "P@10", "ECE", "factor", "best F", "expected", "realised", "selected", "covered"]


def table(found: pd.DataFrame, unit: str) -> str:
    """Return means over the corpora; the factor's is geometric."""
    lines = [head([unit, *COLUMNS, "off, mean and most"])]
    for form, own in found[found["unit"] == unit].groupby("form", sort=False):
        mean = own[COLUMNS].mean()
        mean["factor"] = np.exp(np.log(own["factor"]).mean())
        cells = ["" if np.isnan(value) else f"{value:.3f}".lstrip("0") for value in mean]
        off = (own["expected"] - own["realised"]).abs()
        last = "" if off.isna().all() else f"{off.mean():.3f}, {off.max():.3f}"
        lines.append(row([form, *cells, last]))
    return "\n".join(lines)


def main() -> None:
    """Make the prior, or print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "keywords")
    parser.add_argument("--corpora", default=",".join((*KINDS, *HELD_BACK)))
    parser.add_argument("--documents", type=int, default=250)
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--yake", action="store_true")
    parser.add_argument("--make", type=Path)
    args = parser.parse_args()
    names = [n for n in (*KINDS, *HELD_BACK) if (args.data / f"{n}.parquet").exists()]
    corpora = {name: load(name, args.data, args.documents) for name in names}
    if args.make:
        found = learn_keyword_prior([corpora[name] for name in names if name in KINDS])
        args.make.write_text(text_of(found), encoding="utf-8")
        return
    with threadpool_limits(1):
        chosen_names = [name for name in args.corpora.split(",") if name in corpora]
        priors = {name: shipped() for name in chosen_names}
        unseen = KINDS.keys() & priors.keys()
        whole = {}
        if unseen:
            whole = {name: whole_corpus(corpora[name]) for name in corpora if name in KINDS}
        for name in unseen:
            priors[name] = learn_prior([one for other, one in whole.items() if other != name])
        for scheme in args.schemes.split(","):
            rows = []
            for name in chosen_names:
                began = time.perf_counter()
                rows += figures_of(corpora[name], priors[name], scheme, args.seed, args.yake)
                print(f"{scheme} {name} {time.perf_counter() - began:.0f} s", file=sys.stderr)
            found = pd.DataFrame(rows)
            print(f"\n## {scheme} ({len(chosen_names)} corpora)\n")
            print(table(found, "words"), "\n")
            print(table(found, "phrases"), flush=True)


if __name__ == "__main__":
    main()
