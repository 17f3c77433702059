"""The drift alarm: are tonight's rows like those of the nights before?

All nights are told by one posterior that has learnt from none of them, the reference. So while
rows are exchangeable the nights are samples of one distribution, whatever the reference is worth,
and their means differ by chance alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import stdtr

from vbmodels.core.state import FloatArray

LEVEL = 0.005
"""Chance of a false alarm in a night, at most; half of what is promised, for tails are heavy."""
LEAST = 20
"""Units of a night below which nothing is said: their mean is not yet near a Normal."""


@dataclass(frozen=True)
class Night:
    """One night's units under the reference.

    Attributes
    ----------
    units
        n.
    mean, variance
        Of their log densities, in nats; the variance with n - 1.
    """

    units: int
    mean: float
    variance: float

    @classmethod
    def of(cls, parts: Sequence[FloatArray]) -> Self:
        """Return the summary of all units, given by partition."""
        values = np.concatenate([np.asarray(part, float) for part in parts])
        if len(values) < 2:
            return cls(len(values), float(values.sum()), 0.0)
        return cls(len(values), float(values.mean()), float(values.var(ddof=1)))


@dataclass(frozen=True)
class Drift:
    """How far a night lies from those before it.

    Attributes
    ----------
    expected
        Mean log density that is expected of the night, nats a unit.
    difference
        What it has beyond that.
    sd
        Standard deviation of the difference while nothing drifts.
    p
        Chance of a difference as large, two-sided; that of Student's t.
    """

    expected: float
    difference: float
    sd: float
    p: float

    @property
    def alarm(self) -> bool:
        """Whether chance does not explain it."""
        return self.p < LEVEL


def drift(nights: Sequence[Night], tonight: Night) -> Drift | None:
    """Compare a night with those before; None where there are too few units to tell.

    Night i has mean m_i with variance v_i = s_i^2 / n_i + tau^2, where tau^2 is what nights
    differ by beyond their rows (DerSimonian and Laird 1986; rows of one night often share more
    than rows of two). Then

        mu = sum_i m_i / v_i / sum_i 1 / v_i,      Var(m - mu) = v + 1 / sum_i 1 / v_i,

    with Satterthwaite's degrees of freedom.
    """
    nights = [night for night in nights if night.units >= LEAST]
    if not nights or tonight.units < LEAST:
        return None
    own = np.array([night.variance / night.units for night in nights])
    mean = np.array([night.mean for night in nights])
    free = np.array([night.units - 1.0 for night in nights])
    least = np.finfo(float).eps * (1.0 + float(np.abs(mean).max())) ** 2
    own, at = np.maximum(own, least), max(tonight.variance / tonight.units, least)
    between = _between(mean, own)
    weight = 1.0 / (own + between)
    expected = float(weight @ mean / weight.sum())
    share = weight / weight.sum()
    parts = [(at, tonight.units - 1.0), *zip(share**2 * own, free, strict=True)]
    if between > 0.0:
        parts.append((between * (1.0 + float(share @ share)), len(nights) - 1.0))
    variance = float(sum(part for part, _ in parts))
    freedom = variance**2 / float(sum(part**2 / df for part, df in parts))
    difference, sd = tonight.mean - expected, float(np.sqrt(variance))
    return Drift(expected, difference, sd, 2.0 * float(stdtr(freedom, -abs(difference) / sd)))


def _between(mean: FloatArray, own: FloatArray) -> float:
    """DerSimonian and Laird's tau^2, no less than 0: (Q - (m - 1)) / (W - sum w^2 / W)."""
    if len(mean) < 2:
        return 0.0
    weight = 1.0 / own
    total = float(weight.sum())
    centre = float(weight @ mean) / total
    spread = float(weight @ (mean - centre) ** 2)
    room = total - float(weight @ weight) / total
    return max(0.0, (spread - (len(mean) - 1)) / room)
