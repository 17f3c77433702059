"""In how many documents a phrase is a candidate, and in how many it is known.

A table has one row for each phrase and fold that has it, sorted; a phrase is a number
(`vbmodels.keywords.phrases.keys`). Tables of partitions add. A phrase of one document that is
known nowhere is left out of the sum: it counts like one that no other document has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.keywords.features import N_FOLDS, label_rates
from vbmodels.keywords.phrases.keys import KeyArray

PHRASE_COUNTS = pa.schema(
    [
        pa.field("phrase", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)
MOST_ROWS = 2_000_000
"""Rows of all partitions that are added up at once."""

_Columns = tuple[KeyArray, IntArray, IntArray, IntArray]


@dataclass(frozen=True)
class PhraseCounts(State):
    """The counts of all partitions: rows [K] sorted by phrase and fold, and sums over all rows.

    ``totals`` [2, N_FOLDS] are those of documents and labels, phrases left out included.
    """

    phrase: KeyArray
    fold: IntArray
    documents: IntArray
    labels: IntArray
    totals: IntArray

    @property
    def rates(self) -> IntArray:
        """Label rates [N_FOLDS + 1]; `vbmodels.keywords.features.label_rates`."""
        rates: IntArray = label_rates(self.totals[0], self.totals[1])
        return rates

    def lookup(self, phrases: KeyArray) -> tuple[IntArray, IntArray]:
        """Return documents and labels [M, N_FOLDS] of phrases; zeros where there are none."""
        names, place = np.unique(phrases, return_inverse=True)
        documents, labels = (np.zeros((len(names), N_FOLDS), np.int64) for _ in range(2))
        if len(names) and len(self.phrase):
            row = np.minimum(np.searchsorted(names, self.phrase), len(names) - 1)
            ours = names[row] == self.phrase
            row, fold = row[ours], self.fold[ours]
            documents[row, fold] = self.documents[ours]
            labels[row, fold] = self.labels[ours]
        return documents[place], labels[place]


def count_phrases(phrases: KeyArray, folds: IntArray, known: BoolArray) -> pa.Table:
    """Count one partition: phrase, fold and label [M] of every candidate."""
    ones = np.ones(len(phrases), np.int64)
    columns = _added(phrases, folds, ones, known.astype(np.int64))
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, PHRASE_COUNTS, strict=True)],
        schema=PHRASE_COUNTS,
    )


def reduce_phrases(
    tables: Sequence[Callable[[], pa.Table]], rows: int, *, most_rows: int = MOST_ROWS
) -> PhraseCounts:
    """Add the counts of all partitions, a range of phrases at a time.

    Sums are whole numbers, so neither order nor number of partitions matters. Memory is that of
    ``most_rows`` rows, one table, and what stays.

    Parameters
    ----------
    tables
        What reads each partition's table.
    rows
        Rows of all of them.
    """
    pieces = max(1, math.ceil(rows / most_rows))
    cuts = [(i << 64) // pieces for i in range(pieces + 1)]
    totals = np.zeros((2, N_FOLDS), np.int64)
    kept: list[_Columns] = []
    for low, high in pairwise(cuts):
        inside = partial(_between, low=low, high=high)
        parts = [inside(read()) for read in tables]
        columns = (np.concatenate(c) for c in zip(*parts, strict=True)) if parts else _nothing()
        phrase, fold, documents, labels = _added(*columns)
        for row, values in enumerate((documents, labels)):
            totals[row] += np.bincount(fold, values, N_FOLDS).astype(np.int64)
        new = np.append(True, phrase[1:] != phrase[:-1])[: len(phrase)]
        number = np.cumsum(new) - 1
        worth = np.bincount(number, documents) > 1 if len(phrase) else np.zeros(0, bool)
        worth |= np.bincount(number, labels) > 0 if len(phrase) else worth
        stays = worth[number]
        kept.append((phrase[stays], fold[stays], documents[stays], labels[stays]))
    phrase, fold, documents, labels = (np.concatenate(c) for c in zip(*kept, strict=True))
    return PhraseCounts(phrase, fold, documents, labels, totals)


def _nothing() -> _Columns:
    none = np.zeros(0, np.int64)
    return np.zeros(0, np.uint64), none, none, none


def _between(table: pa.Table, low: int, high: int) -> _Columns:
    """Return the columns of a sorted table's rows with low <= phrase < high."""
    phrase = table["phrase"].to_numpy()
    first = int(np.searchsorted(phrase, np.uint64(low)))
    last = len(phrase) if high >> 64 else int(np.searchsorted(phrase, np.uint64(high)))
    rows = slice(first, last)
    fold, documents, labels = (
        table[name].to_numpy()[rows].astype(np.int64) for name in ("fold", "documents", "labels")
    )
    return phrase[rows], fold, documents, labels


def _added(phrase: KeyArray, fold: IntArray, documents: IntArray, labels: IntArray) -> _Columns:
    """Add the rows of equal phrase and fold, sorted."""
    order = np.lexsort((fold, phrase))
    phrase, fold, documents, labels = (a[order] for a in (phrase, fold, documents, labels))
    if not len(phrase):
        return phrase, fold, documents, labels
    new = np.append(True, (phrase[1:] != phrase[:-1]) | (fold[1:] != fold[:-1]))
    at = np.flatnonzero(new)
    return phrase[at], fold[at], np.add.reduceat(documents, at), np.add.reduceat(labels, at)
