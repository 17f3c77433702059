"""The keyword methods of the VBSS paper and their rivals, on abstracts and papers.

Of every document's keyword words, 5 chosen at random are given to the methods. Candidate
words are those of the evaluation file. Gold words that the reader drops (single letters) count
as missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yake
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.keywords import features
from flows.keywords.input.documents import prepare
from reproduce.keyword_documents import documents, fit_documents, ss, take_documents, textrank
from reproduce.vbss_as_printed import PrintedVBSS
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.model import VBSS
from vbmodels.text.words import TextOptions

OPTIONS = TextOptions(stem="none", stop_words=False, min_count=1)


@dataclass(frozen=True)
class Corpus:
    """Documents as the product takes them, their gold words, and their candidate words."""

    table: pa.Table
    gold: list[set[str]]
    texts: list[str]
    words: list[list[str]]


@dataclass(frozen=True)
class Task:
    """One draw of the observed words: the batch, whether each word is gold, what is scored."""

    corpus: Corpus
    batch: KeywordBatch
    stems: list[str]
    truth: np.ndarray
    n_gold: int
    scored: np.ndarray

    def first(self, n: int) -> Task:
        """Return the first ``n`` documents, with the features of the whole corpus."""
        batch = take_documents(self.batch, 0, n)
        return replace(
            self,
            batch=batch,
            stems=self.stems[: batch.n_words],
            truth=self.truth[: batch.n_words],
            scored=self.scored[: batch.n_words],
            n_gold=sum(map(len, self.corpus.gold[:n])),
        )

    def figures(self, selected: np.ndarray) -> tuple[float, float, float]:
        """Return precision, recall and F (micro) of the selected words."""
        chosen = selected[self.scored]
        hits = int((chosen & self.truth[self.scored]).sum())
        size = int(chosen.sum())
        return hits / max(size, 1), hits / self.n_gold, 2.0 * hits / (size + self.n_gold)


def load(name: str, data: Path, n_documents: int | None) -> Corpus:
    """Read one evaluation set; abstracts bring their text, tags and sentences."""
    file = {"abstracts": "hulth_eval", "papers": "semeval_eval"}[name]
    rows = pq.read_table(data / f"keywords/{file}.parquet").to_pylist()[:n_documents]
    columns = {"doc_id": [row["doc_id"] for row in rows], "tokens": [r["tokens"] for r in rows]}
    texts = [" ".join(row["tokens"]) for row in rows]
    if name == "abstracts":
        read = pq.read_table(data / "keywords/hulth.parquet").to_pylist()
        full = {row["doc_id"]: row for row in read}
        source = [full[row["doc_id"]] for row in rows]
        texts = [row["text"] for row in source]
        columns |= {name: [row[name] for row in source] for name in ("tokens", "sentence")}
        columns["pos"] = [
            # The candidates are those of the evaluation file: any other word gets no tag.
            [p if t.lower() in kept else "X" for t, p in zip(s["tokens"], s["pos"], strict=True)]
            for s, kept in zip(source, (set(row["tokens"]) for row in rows), strict=True)
        ]
    gold = [set(row["gold"]) for row in rows]
    return Corpus(pa.table(columns), gold, texts, [r["tokens"] for r in rows])


def draw(corpus: Corpus, seed: int, observed: int = 5) -> Task:
    """Choose the observed words."""
    rng = np.random.default_rng(seed)
    known = []
    for gold, words in zip(corpus.gold, corpus.words, strict=True):
        found = sorted(gold & set(words))
        chosen = rng.choice(found, min(observed, len(found)), replace=False)
        known.append([str(w) for w in chosen])
    table = corpus.table.append_column("keywords", pa.array(known, pa.list_(pa.string())))
    prepared = prepare(table, OPTIONS, False)
    batch = features(prepared.tokens, prepared.vocabulary)
    stems = prepared.vocabulary.take(pa.array(prepared.tokens.term)).to_pylist()
    document = batch.document_of_word
    truth = np.array([s in corpus.gold[d] for s, d in zip(stems, document, strict=True)])
    return Task(corpus, batch, stems, truth, sum(map(len, corpus.gold)), np.ones(len(truth), bool))


# The methods: each takes a task and returns scores.


def corpus_model(task: Task) -> np.ndarray:
    """The corpus model with the rate of the whole set."""
    model = CorpusProbit(keyword_rate=float(task.truth.mean()))
    return model.probabilities(fit(model, [task.batch]).q, task.batch, None)


def logistic(task: Task) -> np.ndarray:
    """Ordinary logistic regression of y on the same features: every other word a negative."""
    x = task.batch.x[:, 1:]
    sd = x.std(0)
    x = (x - x.mean(0)) / np.where(sd > 1e-9, sd, 1.0)
    fitted = LogisticRegression(max_iter=500).fit(x, task.batch.y)
    return np.asarray(fitted.decision_function(x))


def per_document(model: VBSS) -> Callable[[Task], np.ndarray]:
    """Fit a form of VBSS to each document."""
    return lambda task: fit_documents(task.batch, model, max_sweeps=300).probability


def by_graph(score: Callable[..., np.ndarray]) -> Callable[[Task], np.ndarray]:
    """Score each document's graph."""
    return lambda task: np.concatenate([score(y, a) for y, a in documents(task.batch)])


def tf_idf(task: Task) -> np.ndarray:
    """TfidfVectorizer of scikit-learn on the candidate words."""
    vectoriser = TfidfVectorizer(analyzer=lambda words: [word.lower() for word in words])
    matrix = vectoriser.fit_transform(task.corpus.words[: task.batch.n_documents]).tocsr()
    column = [vectoriser.vocabulary_.get(stem, -1) for stem in task.stems]
    score = np.asarray(matrix[task.batch.document_of_word, column]).ravel()
    return np.where(np.array(column) < 0, -np.inf, score)


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


METHODS: dict[str, Callable[[Task], np.ndarray]] = {
    "ours corpus": corpus_model,
    "ours full": per_document(VBSS()),
    "ours mean_field": per_document(VBSS(form="mean_field")),
    "ours as_printed": per_document(PrintedVBSS()),
    "rival logistic": logistic,
    "rival SS": by_graph(lambda y, a: ss(a, y)),
    "rival TextRank": by_graph(lambda y, a: textrank(a)),
    "rival TF-IDF": tf_idf,
    "rival YAKE": by_yake,
}
"""Ours return probabilities."""
WITHOUT_LABELS = ("rival TextRank", "rival TF-IDF", "rival YAKE")
