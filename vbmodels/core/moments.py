"""Weighted first and second moments of rows, merged over partitions without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, Stats

CONSTANT = 1e-9
"""A column whose standard deviation is this share of its size or less counts as constant."""


@dataclass(frozen=True)
class Moments(Stats, kind="core.Moments"):
    """Weight, mean and centred scatter of rows x [P].

    Raw sums of squares lose the digits that the mean eats up; the scatter about the mean
    of each part does not, and two parts merge exactly (Chan, Golub and LeVeque 1979):
    S = S_1 + S_2 + (v_1 v_2 / v) (mean_1 - mean_2)(mean_1 - mean_2)'.

    Parameters
    ----------
    weight
        v, the sum of the rows' weights.
    mean
        [P] weighted mean; zero where the weight is zero.
    scatter
        [P, P] sum of weight (x - mean)(x - mean)'.
    """

    weight: float
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, rows: NDArray[np.floating[Any]], weights: FloatArray | None = None) -> Self:
        """Return the moments of rows [N, P] with weights [N] (1 by default), in float64."""
        total = float(len(rows)) if weights is None else float(weights.sum())
        if total <= 0.0:
            p = rows.shape[1]
            return cls(0.0, np.zeros(p), np.zeros((p, p)))
        if weights is None:
            mean = rows.sum(axis=0, dtype=float) / total
            centred = rows - mean
            return cls(total, mean, centred.T @ centred)
        mean = weights @ rows / total
        centred = rows - mean
        return cls(total, mean, (centred * weights[:, None]).T @ centred)

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        if self.mean.shape != other.mean.shape:
            raise ValueError(
                "moments of two partitions differ in their number of columns: "
                f"{len(self.mean)} and {len(other.mean)}"
            )
        total = self.weight + other.weight
        if total <= 0.0:
            return self
        share = other.weight / total
        step = other.mean - self.mean
        between = self.weight * share * np.outer(step, step)
        return type(self)(total, self.mean + share * step, self.scatter + other.scatter + between)

    def scaled(self, by: float) -> Self:
        """Return the moments as if every row had ``by`` times its weight."""
        return type(self)(self.weight * by, self.mean, self.scatter * by)

    def about(self, centre: FloatArray) -> FloatArray:
        """Return the scatter [P, P] about another centre."""
        step = self.mean - centre
        return self.scatter + self.weight * np.outer(step, step)

    def sd(self) -> FloatArray:
        """Return each column's standard deviation [P], infinite for a constant column.

        Divided by it, a constant column is zero: it is dropped without a special case. What
        counts as constant does not depend on the column's unit.
        """
        if self.weight <= 0.0:
            return np.full(len(self.mean), np.inf)
        sd = np.sqrt(np.maximum(np.diag(self.scatter), 0.0) / self.weight)
        # Above, not from: a column of zeros has no size, and is constant too.
        return np.where(sd > CONSTANT * np.hypot(self.mean, sd), sd, np.inf)
