"""The keyword methods of the VBSS paper and their rivals, on abstracts and papers.

Of every document's keyword words, 5 chosen at random are given to the methods. Candidate
words are those of the evaluation file. Gold words that the reader drops (single letters) count
as missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yake
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_recall_fscore_support

from benchmarks.keywords import features
from flows.keywords.input.documents import prepare
from reproduce.keyword_documents import fit_documents, ss, take_documents
from reproduce.vbss_as_printed import PrintedVBSS
from reproduce.vbss_bss import BSS, bss
from reproduce.vbss_gibbs import gibbs, sample_documents
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.graph import textrank
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss import coordinate_ascent as coordinate
from vbmodels.keywords.vbss.model import VBSS
from vbmodels.text.words import TextOptions

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "keywords"
OBSERVED = 5
COMPLETE = 20
LEVELS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)
SHARES = {"abstracts": (0.28, 0.65), "papers": (0.07, 0.28)}


@dataclass(frozen=True)
class Corpus:
    """Documents as the product takes them, their gold words, and how they are read."""

    name: str
    table: pa.Table
    gold: list[set[str]]
    texts: list[str]
    words: list[list[str]]
    options: TextOptions


@dataclass(frozen=True)
class Task:
    """One draw of the observed words: the batch, whether each word is gold, what is scored."""

    corpus: Corpus
    batch: KeywordBatch
    stems: list[str]
    truth: np.ndarray
    n_gold: int
    scored: np.ndarray
    ingest_seconds: float


def load(name: str, folder: Path, n_documents: int | None) -> Corpus:
    """Read one evaluation set; abstracts bring their text, tags and sentences."""
    file = {"abstracts": "hulth_eval", "papers": "semeval_eval"}[name]
    rows = pq.read_table(folder / f"{file}.parquet").to_pylist()[:n_documents]
    options = TextOptions(stem="none", stop_words=False, min_count=1)
    columns = {"doc_id": [row["doc_id"] for row in rows], "tokens": [r["tokens"] for r in rows]}
    texts = [" ".join(row["tokens"]) for row in rows]
    if name == "abstracts":
        full = {r["doc_id"]: r for r in pq.read_table(folder / "hulth.parquet").to_pylist()}
        source = [full[row["doc_id"]] for row in rows]
        columns["tokens"] = [row["tokens"] for row in source]
        columns["sentence"] = [row["sentence"] for row in source]
        columns["pos"] = [
            # The candidates are those of the evaluation file: any other word gets no tag.
            [p if t.lower() in kept else "X" for t, p in zip(s["tokens"], s["pos"], strict=True)]
            for s, kept in zip(source, (set(row["tokens"]) for row in rows), strict=True)
        ]
        texts = [row["text"] for row in source]
    gold = [set(row["gold"]) for row in rows]
    return Corpus(name, pa.table(columns), gold, texts, [r["tokens"] for r in rows], options)


def draw(corpus: Corpus, seed: int, complete: int = 0, observed: int = OBSERVED) -> Task:
    """Choose the observed words, and ``complete`` documents that show all of their keywords."""
    rng = np.random.default_rng(seed)
    known = []
    for gold, words in zip(corpus.gold, corpus.words, strict=True):
        found = sorted(gold & set(words))
        chosen = rng.choice(found, min(observed, len(found)), replace=False)
        known.append([str(w) for w in chosen])
    whole = np.zeros(len(known), dtype=bool)
    if complete:
        whole[rng.choice(len(known), complete, replace=False)] = True
    for d in np.flatnonzero(whole):
        known[d] = sorted(corpus.gold[d])
    table = corpus.table.append_column("keywords", pa.array(known, pa.list_(pa.string())))
    table = table.append_column("complete", pa.array(whole))
    begin = time.process_time()
    prepared = prepare(table, corpus.options, False)
    batch = features(prepared.tokens, prepared.vocabulary)
    seconds = time.process_time() - begin
    stems = prepared.vocabulary.take(pa.array(prepared.tokens.term)).to_pylist()
    document = batch.document_of_word
    truth = np.array([s in corpus.gold[d] for s, d in zip(stems, document, strict=True)])
    n_gold = sum(len(g) for g, skip in zip(corpus.gold, whole, strict=True) if not skip)
    return Task(corpus, batch, stems, truth, n_gold, ~whole[document], seconds)


# The methods: each takes a task and returns scores.


def corpus_model(task: Task) -> np.ndarray:
    """The corpus model; the rate of the whole set unless there are complete documents."""
    rate = None if task.batch.complete.any() else float(task.truth.mean())
    model = CorpusProbit(keyword_rate=rate)
    return model.probabilities(fit(model, [task.batch]).q, task.batch, None)


def logistic(task: Task) -> np.ndarray:
    """Ordinary logistic regression of y on the same features: every other word a negative."""
    x = task.batch.x[:, 1:]
    sd = x.std(0)
    x = (x - x.mean(0)) / np.where(sd > 1e-9, sd, 1.0)
    fitted = LogisticRegression(max_iter=500).fit(x, task.batch.y)
    return np.asarray(fitted.decision_function(x))


def per_document(form: coordinate.Form) -> Callable[[Task], np.ndarray]:
    def run(task: Task) -> np.ndarray:
        return fit_documents(task.batch, VBSS(form=form), max_sweeps=300).probability

    return run


def as_printed(task: Task) -> np.ndarray:
    return fit_documents(task.batch, PrintedVBSS(), max_sweeps=300).probability


def full_by_gibbs(task: Task) -> np.ndarray:
    sampler = partial(gibbs, model=VBSS(), chains=2, draws=500, warmup=500)
    return sample_documents(task.batch, sampler, np.random.default_rng(0))[0]


def bss_by_gibbs(task: Task) -> np.ndarray:
    sampler = partial(bss, model=BSS(), chains=2, draws=500, warmup=500)
    return sample_documents(task.batch, sampler, np.random.default_rng(0))[0]


def by_graph(score: Callable[..., np.ndarray]) -> Callable[[Task], np.ndarray]:
    def run(task: Task) -> np.ndarray:
        return np.concatenate([score(y, a) for y, a in task.batch.documents()])

    return run


def tf_idf(task: Task) -> np.ndarray:
    """TfidfVectorizer of scikit-learn on the candidate words."""
    vectoriser = TfidfVectorizer(analyzer=_lower)
    matrix = vectoriser.fit_transform(task.corpus.words[: task.batch.n_documents]).tocsr()
    column = [vectoriser.vocabulary_.get(stem, -1) for stem in task.stems]
    score = np.asarray(matrix[task.batch.document_of_word, column]).ravel()
    return np.where(np.array(column) < 0, -np.inf, score)


def _lower(words: Sequence[str]) -> list[str]:
    return [word.lower() for word in words]


def by_yake(task: Task) -> np.ndarray:
    """YAKE on the text (papers: on their stems), single words, no deduplication."""
    extractor = yake.KeywordExtractor(n=1, top=100_000, dedupLim=1.0)
    score = np.full(task.batch.n_words, -np.inf)
    for d in range(task.batch.n_documents):
        found = dict(extractor.extract_keywords(task.corpus.texts[d]))
        found = {word.lower(): value for word, value in found.items()}
        rows = task.batch.words(d)
        score[rows] = [-found.get(stem, np.inf) for stem in task.stems[rows]]
    return score


@dataclass(frozen=True)
class Form:
    """A method: how it is run, and on what."""

    run: Callable[[Task], np.ndarray]
    probability: bool = False
    complete: int = 0
    uses_labels: bool = True
    part: int = 0  # a sampler's run: the first 1/part of the sample, one seed


FORMS = {
    "corpus": Form(corpus_model, probability=True),
    "logistic regression, same features": Form(logistic),
    "full": Form(per_document("full"), probability=True),
    "mean_field": Form(per_document("mean_field"), probability=True),
    "as_printed": Form(as_printed, probability=True),
    "full, Gibbs": Form(full_by_gibbs, probability=True, part=10),
    "BSS, Gibbs": Form(bss_by_gibbs, probability=True, part=10),
    "full, on the same documents": Form(per_document("full"), probability=True, part=10),
    "ss": Form(by_graph(lambda y, a: ss(a, y))),
    "textrank": Form(by_graph(lambda y, a: textrank(a)), uses_labels=False),
    "TF-IDF (scikit-learn)": Form(tf_idf, uses_labels=False),
    "YAKE (PyPI)": Form(by_yake, uses_labels=False),
}


# Figures.


def figures(task: Task, selected: np.ndarray) -> tuple[float, float, float, float]:
    """Precision, recall, F (micro), and the share of false ones among the selected."""
    chosen, truth = selected[task.scored], task.truth[task.scored]
    lost = task.n_gold - int(truth.sum())
    y_true = np.concatenate([truth, np.ones(lost, dtype=bool)])
    y_pred = np.concatenate([chosen, np.zeros(lost, dtype=bool)])
    p, r, f, _ = precision_recall_fscore_support(
        y_true, y_pred, average="binary", zero_division=0.0
    )
    return float(p), float(r), float(f), float(1.0 - p)


def sample(task: Task, n: int) -> Task:
    """Keep the first ``n`` documents, with the features of the whole corpus."""
    if n >= task.batch.n_documents:
        return task
    batch = take_documents(task.batch, 0, n)
    w = batch.n_words
    gold = sum(len(g) for g in task.corpus.gold[:n])
    return replace(
        task,
        batch=batch,
        stems=task.stems[:w],
        truth=task.truth[:w],
        n_gold=gold,
        scored=task.scored[:w],
    )


def short(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".", 1)
