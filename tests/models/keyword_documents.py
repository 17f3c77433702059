"""Real and random documents as labels and graphs, for the tests of keyword models."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq


def counts(tokens, window=2):
    """Co-occurrence counts within ``window``, self-loops kept; words in order of appearance."""
    number = {word: i for i, word in enumerate(dict.fromkeys(tokens))}
    at = np.array([number[word] for word in tokens])
    a = np.zeros((len(number), len(number)))
    for gap in range(1, window + 1):
        for i, j in zip(at[:-gap], at[gap:], strict=True):
            a[i, j] += 1.0
            if i != j:
                a[j, i] += 1.0
    return list(number), a


def real_documents(path, seed=0, k=5, limit=None):
    """(y, counts, gold) of each document, k of its gold words observed at random."""
    rng = np.random.default_rng(seed)
    made = []
    for row in pq.read_table(path).slice(0, limit).to_pylist():
        words, a = counts(row["tokens"])
        gold = np.isin(words, row["gold"])
        if gold.sum() < k:
            continue
        y = np.zeros(len(words), dtype=bool)
        y[rng.choice(np.flatnonzero(gold), k, replace=False)] = True
        made.append((y, a, gold))
    return made
