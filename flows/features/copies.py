"""Rows that are exact copies of another row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.features.simpler_models import RowSample
from vbmodels.core.state import FloatArray, IntArray

# Different rows that are compared in pairs; of more, so many.
MOST_COMPARED = 2000
# Columns below which rows agree without being copies.
LEAST_COLUMNS = 5


@dataclass(frozen=True)
class Copies:
    """Rows of a sample that are exact copies of an earlier one.

    Attributes
    ----------
    rows, copies
        Rows of the sample, and those of them that are copies.
    pairs, by_chance
        Pairs of equal rows, and how many there would be where none is copied, judged by the pairs
        that differ in one column and in two.
    """

    rows: int
    copies: int
    pairs: float
    by_chance: float

    @property
    def too_many(self) -> bool:
        """Whether there are clearly more equal rows than chance makes."""
        return self.pairs > 2.0 * (self.by_chance + self.by_chance**0.5)


def find_copies(samples: Sequence[RowSample]) -> Copies | None:
    """Return the copies among sampled rows; None where there are too few columns to say so.

    Where a pair of rows agrees in each of D columns by chance, the numbers c of pairs that agree in
    k of them obey Newton's inequality: c_D <= c_(D-1)^2 / c_(D-2) * (D - 1) / (2 D).
    """
    codes = np.concatenate([one.codes for one in samples])
    columns = codes.shape[1]
    if columns < LEAST_COLUMNS:
        return None
    codes, at = np.unique(codes, axis=0, return_inverse=True)
    rows = np.concatenate([one.rows for one in samples])
    count = np.bincount(at.ravel(), rows, len(codes)).astype(np.float64)
    step = -(-len(codes) // MOST_COMPARED)
    near, far = _nearly_equal(codes[::step].astype(np.int64), count[::step])
    equal = count[::step]
    return Copies(
        rows=int(count.sum()),
        copies=int(count.sum()) - len(codes),
        pairs=float((equal * (equal - 1.0)).sum() / 2.0),
        by_chance=near**2 / max(far, 1.0) * (columns - 1.0) / (2.0 * columns),
    )


def _nearly_equal(codes: IntArray, count: FloatArray) -> tuple[float, float]:
    """Return the pairs of rows that differ in one column, and in two."""
    differing = np.zeros((len(codes), len(codes)), np.int16)
    for column in codes.T:
        differing += column[:, None] != column
    weight = np.outer(count, count)
    one, two = (float(weight[differing == k].sum() / 2.0) for k in (1, 2))
    return one, two
