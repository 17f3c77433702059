"""Sums of raw columns, from which their scale follows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.state import FloatArray

SPARSE = 0.25
"""Rows are kept sparse below this share of cells that are not 0."""


@dataclass(frozen=True)
class ColumnSums:
    """Sums over some rows that add up: count, mean and squared deviations of every column.

    Attributes
    ----------
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
    """

    rows: int
    mean: FloatArray
    deviations: FloatArray
    nonzero: FloatArray
    binary: Any
    least: FloatArray
    most: FloatArray
    prints: tuple[str, ...]
    positive: int
    negative: int

    @classmethod
    def of(cls, x: FloatArray, t: FloatArray) -> ColumnSums:
        """Sum up one partition."""
        mean = x.mean(0)
        prints = tuple(
            hashlib.blake2b(np.ascontiguousarray(column).tobytes(), digest_size=8).hexdigest()
            for column in x.T
        )
        return cls(
            len(x),
            mean,
            ((x - mean) ** 2).sum(0),
            np.count_nonzero(x, axis=0).astype(np.float64),
            ((x == 0.0) | (x == 1.0)).all(0),
            x.min(0),
            x.max(0),
            prints,
            int(np.sum(t > 0)),
            int(np.sum(t < 0)),
        )

    def __add__(self, other: ColumnSums) -> ColumnSums:
        """Add another partition's (Chan, Golub and LeVeque 1983)."""
        rows = self.rows + other.rows
        gap = other.mean - self.mean
        return ColumnSums(
            rows,
            self.mean + gap * other.rows / rows,
            self.deviations + other.deviations + gap**2 * self.rows * other.rows / rows,
            self.nonzero + other.nonzero,
            self.binary & other.binary,
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
            tuple(a + b for a, b in zip(self.prints, other.prints, strict=True)),
            self.positive + other.positive,
            self.negative + other.negative,
        )

    @property
    def constant(self) -> Any:
        """Columns with one value; [D]."""
        return self.least == self.most

    def scaling(self, standardise: bool) -> tuple[FloatArray, FloatArray]:
        """Return what is taken off every column and what it is divided by; [D] each."""
        sd = np.sqrt(self.deviations / self.rows)
        stays = self.binary | self.constant | (sd == 0.0) | (not standardise)
        return np.where(stays, 0.0, self.mean), np.where(stays, 1.0, sd)

    def density(self, centre: FloatArray) -> float:
        """Return the share of cells that are not 0 after scaling."""
        full = np.where(centre != 0.0, self.rows, self.nonzero)
        return float(full.sum() / (self.rows * max(1, full.size)))
