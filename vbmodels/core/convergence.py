"""When a fit has converged: an estimate of the rise that is still to come.

It comes from the last rises (`remaining_rise`), so a slow creep does not pass for convergence.
Where rises shrink ever more slowly, more than that is left.
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 12
SLOWEST = 0.98  # what a window's rise is taken to shrink by where it does not shrink
ROUNDING = 1e-14
SHORTEST = 6  # values: then both looks at them have windows


def has_converged(trace: Sequence[float], tol: float) -> bool:
    """Whether the rise to come was at most ``tol * max(1, |bound|)`` at the last two values."""
    return len(trace) >= SHORTEST and all(
        remaining_rise(trace[:end]) <= tol * max(1.0, abs(trace[-1]))
        for end in (len(trace) - 1, len(trace))
    )


def remaining_rise(trace: Sequence[float]) -> float:
    """Estimate how far the bound still rises, by Aitken's formula for a geometric series.

    The larger of two estimates: the last rise and all that is to come, from the last three
    values; and what is to come after the last value, from the rises over two windows of up to
    `WINDOW` values. Accelerated loops need the second: there a small plain rise comes after
    each leap, and three values alone tell nothing.
    """
    first, second, last = trace[-3:]
    rise, before = last - second, second - first
    rate = rise / before if before > 0 else 0.0
    near = abs(rise) / (1.0 - rate) if 0.0 < rate < 1.0 else abs(rise)
    return max(near, _beyond_window(trace))


def _beyond_window(trace: Sequence[float]) -> float:
    """Estimate the rise after the last value from two windows; 0 where they tell nothing."""
    width = 2 * min(WINDOW // 2, (len(trace) - 1) // 4)  # whole cycles of `squarem`
    if width == 0:
        return 0.0
    first, second, last = trace[-1 - 2 * width], trace[-1 - width], trace[-1]
    rise, before = last - second, second - first
    if before <= 0.0 or rise <= ROUNDING * abs(last):
        return 0.0
    rate = min(rise / before, SLOWEST)
    return rise * rate / (1.0 - rate)
