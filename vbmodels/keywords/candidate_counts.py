"""In how many documents a candidate occurs, and in how many it is known.

There is one row for each candidate and fold that has it, sorted; a candidate is a number: of a
word's stem, or of a phrase (`vbmodels.text.candidates`). A fold is a fixed tenth of the
documents. Rows of partitions add. Features need three numbers of a candidate: in how many
documents of the corpus it occurs; and of those of other folds than its document's in which
somebody has looked for keywords, how many have it and in how many it is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.features import Elsewhere
from vbmodels.text.candidates import N_FOLDS, KeyArray


@dataclass(frozen=True)
class Rows:
    """Arrays [K]: candidate and fold, and in how many documents it is.

    Attributes
    ----------
    documents, looked_at, labels
        Documents that have it; those of them in which somebody has looked for keywords; those in
        which it is known.
    """

    key: KeyArray
    fold: IntArray
    documents: IntArray
    looked_at: IntArray
    labels: IntArray

    def taken(self, rows: IntArray | BoolArray | slice) -> Rows:
        """Return some of the rows."""
        return Rows(*(column[rows] for column in vars(self).values()))

    def between(self, low: int, high: int) -> Rows:
        """Return a copy of the rows, sorted by candidate, with low <= key < high.

        A view would keep all that was read in memory.
        """
        first = int(np.searchsorted(self.key, np.uint64(low)))
        last = len(self.key)
        if high < 1 << 64:
            last = int(np.searchsorted(self.key, np.uint64(high)))
        return self.taken(np.arange(first, last))

    @property
    def totals(self) -> IntArray:
        """Sums [2, N_FOLDS] of documents looked at and labels in every fold."""
        sums = [np.bincount(self.fold, c, N_FOLDS) for c in (self.looked_at, self.labels)]
        return np.array(sums).astype(np.int64)

    @property
    def ends(self) -> IntArray:
        """Places [T + 1] of sorted rows where a new candidate begins, and their number."""
        new = np.ones(len(self.key) + 1, bool)
        new[1:-1] = self.key[1:] != self.key[:-1]
        return np.flatnonzero(new) if len(self.key) else np.zeros(1, np.int64)


def count_candidates(
    keys: KeyArray,
    folds: IntArray,
    looked_at: BoolArray,
    known: BoolArray,
    counted: BoolArray | None = None,
) -> Rows:
    """Count one partition.

    Parameters
    ----------
    keys, folds
        [M] number and fold of every candidate.
    looked_at
        [M] whether somebody has looked for the keywords of its document.
    known
        [M] whether it is known.
    counted
        [M] whether its document counts; of others there are rows without a count. None: all do.
    """
    one = np.ones(len(keys), bool) if counted is None else counted
    counts: Any = (c.astype(np.int32) for c in (one, one & looked_at, one & known))  # narrow
    return added([Rows(keys, folds.astype(np.int8), *counts)])


def added(parts: list[Rows]) -> Rows:
    """Add rows of equal candidate and fold; sorted."""
    kinds = (np.uint64, np.int8, np.int32, np.int32, np.int32)
    every = zip(kinds, *(vars(part).values() for part in parts), strict=True)
    rows = Rows(*(np.concatenate([np.zeros(0, kind), *columns]) for kind, *columns in every))
    order = np.lexsort((rows.fold, rows.key))
    rows = rows.taken(order)
    new = np.ones(len(order), bool)
    new[1:] = (rows.key[1:] != rows.key[:-1]) | (rows.fold[1:] != rows.fold[:-1])
    at = np.flatnonzero(new)
    counts = (rows.documents, rows.looked_at, rows.labels)
    sums = (np.add.reduceat(c, at, dtype=np.int32) for c in counts)
    return Rows(rows.key[at], rows.fold[at], *sums)


@dataclass(frozen=True)
class Whole:
    """Sums over the corpus of a range of candidates.

    Attributes
    ----------
    rows
        Sorted by candidate and fold.
    key, documents, looked_at, labels
        [T] the distinct candidates, and their sums over all folds.
    """

    rows: Rows
    key: KeyArray
    documents: IntArray
    looked_at: IntArray
    labels: IntArray

    @classmethod
    def of(cls, rows: Rows, lone: bool) -> Whole:
        """Return the sums of sorted rows.

        ``lone`` keeps candidates of one document that are known nowhere: left out they count like
        those that no document has, which makes no difference to a phrase.
        """
        ends = rows.ends
        at = ends[:-1]
        documents, looked_at, labels = (
            np.add.reduceat(c, at, dtype=np.int64)
            for c in (rows.documents, rows.looked_at, rows.labels)
        )
        stays = (documents > 1) | (labels > 0) | lone
        kept = rows.taken(np.repeat(stays, np.diff(ends)))
        return cls(kept, rows.key[at[stays]], documents[stays], looked_at[stays], labels[stays])

    @cached_property
    def _by_fold(self) -> list[Rows]:
        """The rows of every fold, which every partition needs."""
        return [self.rows.taken(self.rows.fold == fold) for fold in range(N_FOLDS)]

    def elsewhere(self, keys: KeyArray, folds: IntArray) -> Elsewhere:
        """Return what the corpus says of candidates [M] of documents of these folds [M]."""
        total = [np.zeros(len(keys), np.int64) for _ in range(3)]
        own = [np.zeros(len(keys), np.int64) for _ in range(2)]
        if len(self.key):
            place, ours = _places(self.key, keys)
            sums = (self.documents, self.looked_at, self.labels)
            for target, values in zip(total, sums, strict=True):
                target[ours] = values[place[ours]]
            for fold in range(N_FOLDS):
                here, mine = np.flatnonzero(folds == fold), self._by_fold[fold]
                if not (len(here) and len(mine.key)):
                    continue
                place, ours = _places(mine.key, keys[here])
                for target, values in zip(own, (mine.looked_at, mine.labels), strict=True):
                    target[here[ours]] = values[place[ours]]
        return Elsewhere(total[0], total[1] - own[0], total[2] - own[1])


def _places(names: KeyArray, wanted: KeyArray) -> tuple[IntArray, BoolArray]:
    """Return where each wanted candidate is in sorted names, and whether it is."""
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return place, names[place] == wanted
