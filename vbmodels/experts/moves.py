"""What each cell of one row adds to its log odds, beyond a usual cell of its column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logit

from vbmodels.core.state import FloatArray


def without_each(own: FloatArray, usual: FloatArray, units: Sequence[Sequence[int]]) -> FloatArray:
    """Return a row's cells [C] with each unit of cells in turn as it is usual, then the row itself.

    [U + 1, C].

    >>> without_each(np.array([1.0, 2.0, 3.0]), np.zeros(3), [[0, 2], [1]]).tolist()
    [[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [1.0, 2.0, 3.0]]
    """
    changed = np.tile(own, (len(units) + 1, 1))
    for row, unit in zip(changed, units, strict=False):
        row[unit] = usual[unit]
    return changed


def moves(probability: FloatArray) -> FloatArray:
    """Return how far each unit moves the log odds, from the probabilities of `without_each`; [U].

    Rounded, so that units that move them alike are.

    >>> moves(np.array([0.5, 0.9, 0.9])).round(1).tolist()
    [2.2, 0.0]
    """
    odds = log_odds(probability)
    return np.asarray(np.round(odds[-1] - odds[:-1], 6) + 0.0)


def log_odds(probability: FloatArray) -> FloatArray:
    """Return the log odds of probabilities, finite at 0 and 1 too."""
    return np.asarray(logit(np.clip(probability, 1e-15, 1.0 - 1e-15)))


def both_ways(moved: FloatArray, most: int, least: float) -> list[int]:
    """Return the largest move up, the largest down, then others, by size; none below ``least``.

    >>> both_ways(np.array([1.0, 2.0, 3.0, -0.5, 0.01]), 3, 0.05)
    [2, 1, 3]
    """
    order = [int(j) for j in np.argsort(-abs(moved), kind="stable") if abs(moved[j]) >= least]
    ends = [j for j in order if moved[j] > 0.0][:1] + [j for j in order if moved[j] < 0.0][:1]
    kept = {*ends, *[j for j in order if j not in ends][: most - len(ends)]}
    return [j for j in order if j in kept]
