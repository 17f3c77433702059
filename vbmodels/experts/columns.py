"""Sums of raw columns, from which their scale follows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vbmodels.core.sampling import GOLDEN
from vbmodels.core.state import FloatArray, IntArray

SPARSE = 0.25
"""Rows are kept sparse below this share of cells that are not 0."""

LARGEST = 1e100
"""Largest size of a scaled cell: sums of squares of larger ones overflow."""

FURTHEST = 6.0
"""Standard deviations beyond which the additive form holds a cell."""


@dataclass(frozen=True)
class ColumnSums:
    """Sums over some rows that add up: count, mean and standard deviation of every column.

    A missing cell, NaN, is in none of them but the last.

    Attributes
    ----------
    sd
        Standard deviation, not its square, which overflows and underflows sooner; [D].
    nonzero
        Number of cells that are not 0; [D].
    binary
        Whether every cell is 0 or 1; [D].
    least, most
        Smallest and largest cell; [D].
    prints
        Digest of each column's cells: equal for columns that are the same.
    positive, negative
        Rows with the label 1, with the label 0, in the fit.
    gaps
        Number of missing cells; [D].
    """

    rows: int
    mean: FloatArray
    sd: FloatArray
    nonzero: FloatArray
    binary: Any
    least: FloatArray
    most: FloatArray
    prints: tuple[str, ...]
    positive: int
    negative: int
    gaps: FloatArray

    @classmethod
    def of(cls, x: FloatArray, t: FloatArray) -> ColumnSums:
        """Sum up one partition."""
        gone = np.isnan(x)
        found = cls._of(np.where(gone, 0.0, x) if gone.any() else x, t)
        for j in np.flatnonzero(gone.any(0)):
            found._mend(int(j), x[~gone[:, j], j : j + 1])
        found.gaps[:] = gone.sum(0)
        return replace(found, prints=_prints(x))

    def _mend(self, j: int, given: FloatArray) -> None:
        """Put the sums of a column's given cells [n, 1] in place of those with gaps."""
        self.mean[j] = self.sd[j] = self.nonzero[j] = 0.0
        self.binary[j], self.least[j], self.most[j] = True, np.inf, -np.inf
        if len(given):
            one = self._of(given, np.zeros(len(given)))
            for name in ("mean", "sd", "nonzero", "binary", "least", "most"):
                getattr(self, name)[j] = getattr(one, name)[0]

    @classmethod
    def _of(cls, x: FloatArray, t: FloatArray) -> ColumnSums:
        # Powers of two change no digit, and keep sums and squares within range.
        power = np.frexp(np.abs(x).max(0))[1]
        unit = np.ldexp(x, -power)
        mean = unit.mean(0)
        return cls(
            len(x),
            np.ldexp(mean, power),
            np.ldexp(np.sqrt(((unit - mean) ** 2).mean(0)), power),
            np.count_nonzero(x, axis=0).astype(np.float64),
            ((x == 0.0) | (x == 1.0)).all(0),
            x.min(0),
            x.max(0),
            (),
            int(np.sum(t > 0)),
            int(np.sum(t < 0)),
            np.zeros(x.shape[1]),
        )

    def __add__(self, other: ColumnSums) -> ColumnSums:
        """Add another partition's (Chan, Golub and LeVeque 1983)."""
        given, others = self.rows - self.gaps, other.rows - other.gaps
        share = others / np.maximum(given + others, 1.0)
        between = np.sqrt(share * (1.0 - share))
        gap = between * other.mean - between * self.mean
        within = np.hypot(np.sqrt(1.0 - share) * self.sd, np.sqrt(share) * other.sd)
        return ColumnSums(
            self.rows + other.rows,
            (1.0 - share) * self.mean + share * other.mean,
            np.hypot(within, gap),
            self.nonzero + other.nonzero,
            self.binary & other.binary,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
            tuple(a + b for a, b in zip(self.prints, other.prints, strict=True)),
            self.positive + other.positive,
            self.negative + other.negative,
            self.gaps + other.gaps,
        )

    @property
    def constant(self) -> Any:
        """Columns with one value, or too little beside it for a standard deviation; [D]."""
        return (self.least == self.most) | (self.sd == 0.0)

    def scaling(self, standardise: bool) -> tuple[FloatArray, FloatArray]:
        """Return what is taken off every column and what it is divided by; [D] each.

        A column with one value is divided by infinity: beside the intercept it says nothing, and
        of other values in new rows nothing was learned.
        """
        stays = self.binary | (not standardise)
        centre = np.where(stays, 0.0, self.mean)
        scale = np.where(stays, 1.0, self.sd)
        return np.where(self.constant, self.least, centre), np.where(self.constant, np.inf, scale)

    def density(self, centre: FloatArray) -> float:
        """Return the share of cells that are not 0 after scaling."""
        full = np.where(centre != 0.0, self.rows, self.nonzero) * ~self.constant
        return float(full.sum() / (self.rows * max(1, full.size)))


def _prints(x: FloatArray) -> tuple[str, ...]:
    return tuple(
        hashlib.blake2b(np.ascontiguousarray(column).tobytes(), digest_size=8).hexdigest()
        for column in x.T
    )


def cell_keys(x: FloatArray) -> IntArray:
    """Return a number from each row's cells, wherever the row stands; [N].

    Copies of a row have the same one; the order of the columns counts.

    >>> one, two = cell_keys(np.array([[1.0, 2.0], [2.0, 1.0]])), cell_keys(np.array([[2.0, 1.0]]))
    >>> bool(one[1] == two[0]), bool(one[0] == one[1])
    (True, False)
    """
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    odd = 2 * np.arange(x.shape[1], dtype=np.uint64) + np.uint64(1)
    with np.errstate(over="ignore"):
        mixed = (bits ^ (bits >> np.uint64(29))) * (odd * GOLDEN)
        total = np.sum(mixed ^ (mixed >> np.uint64(32)), axis=1, dtype=np.uint64)
    return np.asarray(total).astype(np.int64)


def scaled(x: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Return rows x [N, D] on the scale of the fit; columns with an infinite scale become 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: FloatArray = (x - centre) / scale
    result[:, np.isinf(scale)] = 0.0
    return result


def too_large(x: FloatArray) -> tuple[int, int] | None:
    """Return row and column of the first scaled cell that overflows in a fit; None without one."""
    bad = ~(np.abs(x) <= LARGEST)
    if not bad.any():
        return None
    row, column = np.argwhere(bad)[0]
    return int(row), int(column)
