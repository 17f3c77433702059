"""Landmarks, length scales and ranks of the bags' kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist, pdist

from vbmodels.core.linalg import cholesky
from vbmodels.core.state import FloatArray, IntArray, State

JITTER = 1e-6
"""Added to the diagonal of k(z, z), whose entries are 1."""
KNOTS = 65
MEASURED = 500
"""Most points that a median distance is taken of."""


def single(values: FloatArray, sd: FloatArray | float = 1e150) -> FloatArray:
    """Round to single precision, at any size; means to a thousandth of their sd if that is finer.

    Sums over partitions differ in their last digits; what is made of rounded ones does not.

    >>> single(np.array([1.7e12 + 0.3]), 100.0) - 1.7e12
    array([0.25])
    """
    step = np.minimum(np.frexp(values)[1] - 24, np.frexp(sd)[1] - 10)
    return np.asarray(np.ldexp(np.round(np.ldexp(values, -step)), step))


@dataclass(frozen=True)
class Ranks(State, kind="bags.Ranks"):
    """From numbers to their ranks among a sample, in [0, 1], column by column.

    Attributes
    ----------
    knots, levels
        Quantiles and what they are ranked at, [65, D]. A value that several quantiles have is
        ranked at their middle.
    """

    knots: FloatArray
    levels: FloatArray

    @classmethod
    def of(cls, sample: FloatArray) -> Ranks:
        """Rank among the rows of a sample [n, D]."""
        grid = np.linspace(0.0, 1.0, KNOTS)
        knots = np.quantile(sample, grid, axis=0)
        levels = np.empty_like(knots)
        for d, own in enumerate(knots.T):
            _, first, count = np.unique(own, return_index=True, return_counts=True)
            middle = (grid[first] + grid[first + count - 1]) / 2.0
            levels[:, d] = np.repeat(middle, count)
        return cls(knots, levels)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return ranks of rows [n, D]."""
        out = np.empty(rows.shape)
        for d, first in enumerate(self._firsts):
            out[:, d] = np.interp(rows[:, d], self.knots[first, d], self.levels[first, d])
        return out

    @cached_property
    def _firsts(self) -> list[IntArray]:
        """The first of equal knots, column by column."""
        return [np.unique(knots, return_index=True)[1] for knots in self.knots.T]


def spread_out(points: FloatArray, count: int, rng: np.random.Generator) -> list[int]:
    """Choose rows of ``points`` by the seeding of k-means++ (Arthur and Vassilvitskii 2007).

    There may be fewer than ``count`` where points are equal.
    """
    if not len(points):
        return []
    chosen = [int(rng.integers(len(points)))]
    away = cdist(points, points[chosen], "sqeuclidean")[:, 0]
    while len(chosen) < count and away.max() > 1e-12 * max(1.0, float(away.mean())):
        ends = np.cumsum(away)
        new = np.searchsorted(ends, rng.random() * ends[-1], side="right")
        chosen.append(min(int(new), len(points) - 1))
        away = np.minimum(away, cdist(points, points[chosen[-1:]], "sqeuclidean")[:, 0])
    return chosen


def of_both(
    samples: tuple[FloatArray, ...], count: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Choose about half of ``count`` points from each class's rows; (class, row) of each.

    A class with few rows leaves the rest to the other.
    """
    order = sorted(range(len(samples)), key=lambda y: len(samples[y]))
    chosen: list[tuple[int, int]] = []
    for i, y in enumerate(order):
        share = (count - len(chosen)) // (len(order) - i)
        chosen += [(y, row) for row in spread_out(samples[y], share, rng)]
    return chosen


def typical(points: FloatArray, metric: str) -> float:
    """Return the median distance between points; 1 where all are equal."""
    if len(points) > MEASURED:
        points = points[np.linspace(0, len(points) - 1, MEASURED).astype(int)]
    found = pdist(points, metric)
    found = found[found > 0.0]
    return float(single(np.array([np.median(found)]))[0]) if found.size else 1.0


def rbf(distance: FloatArray, length: float) -> FloatArray:
    """Return exp(-d^2/(2 l^2))."""
    return np.exp(-0.5 * (distance / length) ** 2)


def laplace(distance: FloatArray, length: float) -> FloatArray:
    """Return exp(-d/l)."""
    return np.exp(-distance / length)


def factor_of(kernel: FloatArray) -> FloatArray:
    """Return L, L L' = k(z, z) with the jitter."""
    return cholesky(kernel + JITTER * np.eye(len(kernel)), "the kernel matrix of the landmarks")
