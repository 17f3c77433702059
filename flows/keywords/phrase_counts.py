"""In how many documents a phrase is a candidate, and in how many it is known.

A table has one row for each phrase and fold that has it, sorted; a phrase is a number
(`vbmodels.keywords.phrases.keys`). Tables of partitions add. A phrase of one document that is
known nowhere is left out of the sum: it counts like one that no other document has.

A candidate's features need three numbers of it: in how many documents of the corpus it stands,
and of those of other folds than its document's, how many have it and in how many it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.features import N_FOLDS, label_rates
from vbmodels.keywords.phrases.features import Elsewhere
from vbmodels.keywords.phrases.keys import KeyArray

PHRASE_COUNTS = pa.schema(
    [
        pa.field("phrase", pa.uint64(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("documents", pa.int32(), nullable=False),
        pa.field("labels", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Rows:
    """Rows of `PHRASE_COUNTS` as arrays [K]."""

    phrase: KeyArray
    fold: IntArray
    documents: IntArray
    labels: IntArray

    @classmethod
    def of(cls, table: pa.Table) -> Rows:
        """Return a table's columns."""
        return cls(*(table[name].to_numpy() for name in PHRASE_COUNTS.names))

    @property
    def table(self) -> pa.Table:
        """The rows as a table."""
        columns = (self.phrase, self.fold, self.documents, self.labels)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, PHRASE_COUNTS, strict=True)]
        return pa.table(arrays, schema=PHRASE_COUNTS)

    def taken(self, rows: IntArray | BoolArray | slice) -> Rows:
        """Return some of the rows."""
        return Rows(self.phrase[rows], self.fold[rows], self.documents[rows], self.labels[rows])

    def between(self, low: int, high: int) -> Rows:
        """Return the rows, sorted by phrase, with low <= phrase < high."""
        first = int(np.searchsorted(self.phrase, np.uint64(low)))
        last = len(self.phrase)
        if high < 1 << 64:
            last = int(np.searchsorted(self.phrase, np.uint64(high)))
        return self.taken(slice(first, last))

    @property
    def totals(self) -> IntArray:
        """Sums [2, N_FOLDS] of documents and labels in every fold."""
        sums = [np.bincount(self.fold, c, N_FOLDS) for c in (self.documents, self.labels)]
        return np.array(sums).astype(np.int64)

    @property
    def ends(self) -> IntArray:
        """Places [T + 1] of sorted rows where a new phrase begins, and their number."""
        new = np.ones(len(self.phrase) + 1, bool)
        new[1:-1] = self.phrase[1:] != self.phrase[:-1]
        return np.flatnonzero(new) if len(self.phrase) else np.zeros(1, np.int64)


def count_phrases(phrases: KeyArray, folds: IntArray, known: BoolArray) -> pa.Table:
    """Count one partition: phrase, fold and label [M] of every candidate."""
    ones: Any = np.ones(len(phrases), np.int32)  # as narrow as the table's columns
    return added([Rows(phrases, folds.astype(np.int8), ones, known.astype(np.int32))]).table


def added(parts: list[Rows]) -> Rows:
    """Add rows of equal phrase and fold; sorted."""
    if not parts:
        return Rows.of(PHRASE_COUNTS.empty_table())
    names = ("phrase", "fold", "documents", "labels")
    rows = Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    if not len(rows.phrase):
        return rows
    order = np.lexsort((rows.fold, rows.phrase))
    rows = rows.taken(order)
    new = np.ones(len(order), bool)
    new[1:] = (rows.phrase[1:] != rows.phrase[:-1]) | (rows.fold[1:] != rows.fold[:-1])
    at = np.flatnonzero(new)
    sums = (np.add.reduceat(c, at, dtype=np.int32) for c in (rows.documents, rows.labels))
    return Rows(rows.phrase[at], rows.fold[at], *sums)


@dataclass(frozen=True)
class Whole:
    """Sums over the corpus of a range of phrases, without those that tell no other document.

    Attributes
    ----------
    rows
        Sorted by phrase and fold.
    phrase, documents, labels
        [T] the distinct phrases, and their sums over all folds.
    """

    rows: Rows
    phrase: KeyArray
    documents: IntArray
    labels: IntArray

    @classmethod
    def of(cls, rows: Rows) -> Whole:
        """Return the sums of sorted rows, phrases of one document known nowhere left out."""
        ends = rows.ends
        at = ends[:-1]
        if not len(at):
            none = np.zeros(0, np.int64)
            return cls(rows, rows.phrase, none, none)
        documents = np.add.reduceat(rows.documents, at, dtype=np.int64)
        labels = np.add.reduceat(rows.labels, at, dtype=np.int64)
        stays = (documents > 1) | (labels > 0)
        kept = rows.taken(np.repeat(stays, np.diff(ends)))
        return cls(kept, rows.phrase[at[stays]], documents[stays], labels[stays])

    @cached_property
    def _by_fold(self) -> list[Rows]:
        """The rows of every fold: each partition asks for them."""
        return [self.rows.taken(self.rows.fold == fold) for fold in range(N_FOLDS)]

    def elsewhere(self, phrases: KeyArray, folds: IntArray) -> Elsewhere:
        """Return what the corpus tells of phrases [M] of documents of these folds [M]."""
        total = [np.zeros(len(phrases), np.int64) for _ in range(2)]
        own = [np.zeros(len(phrases), np.int64) for _ in range(2)]
        if len(self.phrase):
            place, ours = _places(self.phrase, phrases)
            for target, values in zip(total, (self.documents, self.labels), strict=True):
                target[ours] = values[place[ours]]
            for fold in range(N_FOLDS):
                here, mine = np.flatnonzero(folds == fold), self._by_fold[fold]
                if not (len(here) and len(mine.phrase)):
                    continue
                place, ours = _places(mine.phrase, phrases[here])
                for target, values in zip(own, (mine.documents, mine.labels), strict=True):
                    target[here[ours]] = values[place[ours]]
        return Elsewhere(total[0], total[0] - own[0], total[1] - own[1])


def _places(names: KeyArray, wanted: KeyArray) -> tuple[IntArray, BoolArray]:
    """Return where each wanted phrase is in sorted names, and whether it is."""
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return place, names[place] == wanted


def rates_of(totals: IntArray) -> FloatArray:
    """Return the label rates [N_FOLDS + 1] of sums [2, N_FOLDS]; see `label_rates`."""
    return label_rates(totals[0], totals[1])
