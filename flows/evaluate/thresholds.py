"""What each threshold of a probability misses, and what it calls falsely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flows.evaluate.estimate import Estimate, count_rows, share_of
from vbmodels.core.state import FloatArray, IntArray

AT = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98,
    0.99, 0.999,
)  # fmt: skip
"""Thresholds that are looked at."""
ALWAYS = 0.05, 0.1, 0.2, 0.5, 0.8
"""Those that are shown though they call what the one before calls."""


@dataclass(frozen=True)
class Threshold:
    """Rows that are called positive from a probability on.

    Attributes
    ----------
    at
        The probability.
    cost
        How many false alarms a miss costs where this threshold is the best.
    missed, alarms
        Positives below it, and others from it on.
    miss_share, alarm_share
        Their shares of the positives and of the others; rows of a group are drawn together.
    matters
        Whether it is one of `ALWAYS`, the highest that misses none, or the lowest without a false
        alarm.
    """

    at: float
    cost: float
    missed: int
    alarms: int
    miss_share: Estimate
    alarm_share: Estimate
    matters: bool


def thresholds_of(
    truth: FloatArray, p: FloatArray, group: IntArray, weight: FloatArray | float = 1.0
) -> tuple[Threshold, ...]:
    """Return the thresholds that differ, for labels of 0 and 1 [n], of both of which are some."""
    positive, rows = truth == 1, np.ones(truth.size) * weight
    listed: list[Threshold] = []
    for level in AT:
        misses, alarms = p[positive] < level, p[~positive] >= level
        counts = count_rows(misses, rows[positive]), count_rows(alarms, rows[~positive])
        if listed and level not in ALWAYS and counts == (listed[-1].missed, listed[-1].alarms):
            continue
        shares = (
            share_of(misses, group[positive], rows[positive]),
            share_of(alarms, group[~positive], rows[~positive]),
        )
        listed.append(Threshold(level, 1.0 / level - 1.0, *counts, *shares, level in ALWAYS))
    ends = _ends(listed)
    return tuple(Threshold(**{**vars(t), "matters": t.matters or t.at in ends}) for t in listed)


def _ends(thresholds: Sequence[Threshold]) -> list[float]:
    """Return the highest that misses none and the lowest without a false alarm.

    One that calls what one of `ALWAYS` calls is left out.
    """
    usual = [(t.missed, t.alarms) for t in thresholds if t.matters]
    ends = [t for t in thresholds if t.missed == 0][-1:]
    ends += [t for t in thresholds if t.alarms == 0][:1]
    return [t.at for t in ends if (t.missed, t.alarms) not in usual]


def called_at(p: FloatArray) -> IntArray:
    """Return how many probabilities [n] are at least each of `AT`."""
    return np.asarray((p[:, None] >= np.array(AT)).sum(axis=0))
