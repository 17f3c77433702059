"""Real and random documents as labels, graphs and batches, for the tests of keyword models."""

from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
from scipy.special import ndtri

from reproduce.keyword_documents import take_documents
from vbmodels.keywords.graph import cooccurrences
from vbmodels.keywords.units import KeywordBatch


def batch_of(documents):
    """Build a batch from each document's labels y [n] and co-occurrence counts [n, n].

    It has the intercept as its only feature, which is all that per-document models need.
    """
    edges = [np.nonzero(np.triu(a)) for _, a in documents]
    counts = [a[pairs] for (_, a), pairs in zip(documents, edges, strict=True)]
    y = np.concatenate([y for y, _ in documents])
    n_documents = len(documents)
    return KeywordBatch(
        x=np.ones((len(y), 1)),
        y=y,
        offsets=np.cumsum([0, *(len(y) for y, _ in documents)]),
        fold=np.zeros(n_documents, np.int64),
        complete=np.zeros(n_documents, bool),
        edge_row=np.concatenate([row for row, _ in edges]),
        edge_col=np.concatenate([col for _, col in edges]),
        edge_count=np.concatenate(counts),
        edge_offsets=np.cumsum([0, *map(len, counts)]),
    )


def split_documents(batch, n_parts):
    """Cut a batch into ``n_parts`` runs of documents of almost equal length."""
    cuts = np.linspace(0, batch.n_documents, n_parts + 1).round().astype(int)
    return [take_documents(batch, int(a), int(b)) for a, b in pairwise(cuts)]


def typical_coefficients(n_features, keyword_rate=0.25):
    """Return w [1 + n_features] with slopes that shrink and alternate, like fitted ones."""
    slopes = 0.8 * (-0.6) ** np.arange(n_features)
    spread = np.sqrt(1.0 + slopes @ slopes)
    return np.concatenate([[spread * ndtri(keyword_rate)], slopes])


def adjacency(word, n, **graph):
    """Return A [n, n] of one document with the words 0 to n - 1."""
    row, col, count = cooccurrences(word, **graph)
    a = np.zeros((n, n))
    a[row, col] = a[col, row] = count
    return a


def real_documents(path, seed=0, k=5, limit=None):
    """(y, counts, gold) of each document, k of its gold words observed at random."""
    rng = np.random.default_rng(seed)
    made = []
    for row in pq.read_table(path).slice(0, limit).to_pylist():
        number = {word: i for i, word in enumerate(dict.fromkeys(row["tokens"]))}
        words = list(number)
        a = adjacency(np.array([number[word] for word in row["tokens"]]), len(words))
        gold = np.isin(words, row["gold"])
        if gold.sum() < k:
            continue
        y = np.zeros(len(words), dtype=bool)
        y[rng.choice(np.flatnonzero(gold), k, replace=False)] = True
        made.append((y, a, gold))
    return made
