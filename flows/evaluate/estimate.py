"""A number with its 95 % interval, from rows of which some may belong together."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray

DRAWS = 20_000
"""Bootstrap draws: with 1,000 the end of an interval moves by a sixth of its half over seeds."""
MOST_DRAWN = 300
"""Groups from which on a mean is normal, and its error from the spread of the groups."""
_Z = 1.959964
_LEAST = 1e-300  # sum of units: a draw may have rows at the mean alone


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95 % interval; None where the rows do not say."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def is_above(self) -> bool:
        """Whether the interval is above 0."""
        return self.low is not None and self.low > 0.0


def mean_of(values: FloatArray, group: IntArray, weight: FloatArray | float = 1.0) -> Estimate:
    """Estimate a mean of weighted values [n]; rows of one ``group`` [n] are drawn together.

    >>> mean_of(np.ones(3), np.arange(3))
    Estimate(value=1.0, low=1.0, high=1.0)
    """
    return ratio_of(values * weight, np.ones(values.size) * weight, group)


def ratio_of(values: FloatArray, units: FloatArray, group: IntArray) -> Estimate:
    """Estimate a ratio of the sums of values and of units [n], which are not below 0.

    Rows of one ``group`` [n] are drawn together: of up to `MOST_DRAWN` groups by the bootstrap, of
    more by the normal distribution with the standard error of a ratio of sums over groups.

    >>> ratio_of(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.zeros(2))
    Estimate(value=2.0, low=None, high=None)
    """
    value = float(values.sum() / units.sum())
    _, index = np.unique(group, return_inverse=True)
    size, total = np.bincount(index, units), np.bincount(index, values)
    if size.size < 2:
        return Estimate(value)
    if size.size > MOST_DRAWN:
        half = _Z * standard_error(value + (values - value * units) / units.mean(), group)
        return Estimate(value, value - half, value + half)
    random = np.random.default_rng(0)
    ratios = []
    for _ in range(DRAWS // 1000):
        drawn = random.integers(size.size, size=(1000, size.size))
        ratios.append(total[drawn].sum(axis=1) / np.maximum(size[drawn].sum(axis=1), _LEAST))
    low, high = np.quantile(np.concatenate(ratios), [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def standard_error(values: FloatArray, group: IntArray) -> float:
    """Return the standard error of the mean of values [n] of which groups [n] are drawn."""
    _, index = np.unique(group, return_inverse=True)
    away = np.bincount(index, values - values.mean())
    spread = float(away @ away) * away.size / max(away.size - 1, 1)
    return sqrt(spread) / values.size


def share_of(true: BoolArray, group: IntArray, weight: FloatArray | float = 1.0) -> Estimate:
    """Estimate a share of weighted rows [n] (Wilson 1927).

    They are taken for as many as their weights (Kish 1965) and their groups [n] are worth.

    >>> share = share_of(np.arange(14) > 0, np.arange(14))
    >>> round(share.low, 3), round(share.high, 3)
    (0.685, 0.987)
    """
    rows = np.ones(true.size) * weight
    n = float(rows.sum() ** 2 / (rows @ rows)) / design_effect(true.astype(float), group)
    value = float((true * rows).sum() / rows.sum())
    centre = (value * n + 0.5 * _Z**2) / (n + _Z**2)
    half = _Z * sqrt(value * (1.0 - value) * n + 0.25 * _Z**2) / (n + _Z**2)
    return Estimate(value, max(centre - half, 0.0), min(centre + half, 1.0))


def count_rows(some: BoolArray, weight: FloatArray | float = 1.0) -> int:
    """Count weighted rows [n] that are some; none only where there is none."""
    return round(float((some * weight).sum())) or int(some.any())


def design_effect(values: FloatArray, group: IntArray) -> float:
    """Return how many rows of these groups [n] say as much of a mean as one row of its own.

    At least 1. Where values [n] do not vary, it is Kish's bound: the mean size of the group that a
    row is of.
    """
    _, index = np.unique(group, return_inverse=True)
    size = np.bincount(index)
    alone = float(values.var(ddof=min(1, values.size - 1))) / values.size
    if alone == 0.0:
        return float(size @ size) / values.size
    return max(standard_error(values, group) ** 2 / alone, 1.0)


_END = 1e-12  # off 0, 1 and the area itself: at 0 and 1 the variance is none


def auroc(label: IntArray, score: FloatArray, weight: FloatArray | float = 1.0) -> float:
    """Return the area under the ROC curve of scores [n] of weighted rows for labels of 0 and 1.

    >>> auroc(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9]))
    0.75
    """
    _, where = np.unique(score, return_inverse=True)
    negative, positive = (np.bincount(where, (label == value) * weight) for value in (0, 1))
    return auroc_of_counts(negative, positive)


def auroc_of_counts(negative: FloatArray | IntArray, positive: FloatArray | IntArray) -> float:
    """Return the area from numbers of both labels at rising scores [K]; equal scores count half.

    It is Mann and Whitney's statistic over its largest value.
    """
    below = np.cumsum(negative) - 0.5 * negative
    return float(positive @ below / (positive.sum() * negative.sum()))


def auroc_interval(auroc: float, positives: float, negatives: float) -> tuple[float, float]:
    """Return the 95 % interval of an area under the ROC curve.

    Newcombe (2006, Statistics in Medicine 25, 559-573), method 5: the areas t with
    ``|auroc - t| <= z sqrt(V(t))``, where Hanley and McNeil's variance takes
    ``n = (positives + negatives) / 2 - 1`` for both samples::

        V(t) = t (1 - t) (1 + n (1 - t) / (2 - t) + n t / (1 + t)) / (positives * negatives)

    It is of some width at areas of 0 and 1 also, where a bootstrap is of none.
    """
    from scipy.optimize import brentq  # which every command would load

    def beyond(t: float) -> float:
        n = (positives + negatives) / 2.0 - 1.0
        spread = 1.0 + n * (1.0 - t) / (2.0 - t) + n * t / (1.0 + t)
        variance = t * (1.0 - t) * spread / (positives * negatives)
        return abs(auroc - t) - _Z * sqrt(variance)

    low = 0.0 if auroc <= 0.0 else float(brentq(beyond, _END, auroc - _END))
    high = 1.0 if auroc >= 1.0 else float(brentq(beyond, auroc + _END, 1.0 - _END))
    return low, high
