"""Real and random documents as labels and graphs, for the tests of keyword models."""

import numpy as np
import pyarrow.parquet as pq

from vbmodels.keywords.graph import cooccurrences


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
