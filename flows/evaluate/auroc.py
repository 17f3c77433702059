"""The area under the ROC curve, and how far it may be off on so many positives and negatives."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.optimize import brentq

from vbmodels.core.state import FloatArray, IntArray

_Z = 1.959964
_END = 1e-12  # off 0, 1 and the area itself: at 0 and 1 the variance is none


def auroc(label: IntArray, score: FloatArray) -> float:
    """Return the area under the ROC curve of scores [n] for labels of 0 and 1.

    >>> auroc(np.array([0, 1, 1]), np.array([0.2, 0.2, 0.9]))
    0.75
    """
    _, where = np.unique(score, return_inverse=True)
    positive = np.bincount(where, label == 1)
    return auroc_of_counts(np.bincount(where) - positive, positive)


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

    def beyond(t: float) -> float:
        n = (positives + negatives) / 2.0 - 1.0
        spread = 1.0 + n * (1.0 - t) / (2.0 - t) + n * t / (1.0 + t)
        variance = t * (1.0 - t) * spread / (positives * negatives)
        return abs(auroc - t) - _Z * sqrt(variance)

    low = 0.0 if auroc <= 0.0 else float(brentq(beyond, _END, auroc - _END))
    high = 1.0 if auroc >= 1.0 else float(brentq(beyond, auroc + _END, 1.0 - _END))
    return low, high
