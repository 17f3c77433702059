"""L-BFGS of the points of a mixture side by side, in coordinates that no column's scale bends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.lbfgs import Ascent
from vbmodels.core.state import FloatArray, State
from vbmodels.experts.candidate import Point, Sums
from vbmodels.experts.rows import Observed

MEMORY = 20
FEW, MANY = 2, 20
"""Rises within the tolerance, in a row, that end a search: where its slope promises no more, and
though it does, as at a kink."""


@dataclass(frozen=True)
class Climbing(State, kind="experts/additive.Climbing"):
    """Where the search of one point stands.

    Attributes
    ----------
    ascent
        The search, in stretched coordinates.
    small
        Rises in a row that were within the tolerance.
    done
        Whether it is over.
    """

    ascent: Ascent
    small: int
    done: bool

    @classmethod
    def first(cls, at: FloatArray, value: float, gradient: FloatArray) -> Climbing:
        """Begin at a point, no further than 1 along the gradient."""
        ascent = Ascent.start(
            at[None], np.array([value]), gradient[None], 0.0, reach=1.0, memory=MEMORY
        )
        return cls(ascent, 0, bool(ascent.done[0]))

    def updated(self, value: float, gradient: FloatArray, tolerance: float) -> Climbing:
        """Take the trial, or shorten the step."""
        before = self.ascent
        ascent = before.updated(np.array([value]), gradient[None], 0.0)
        if np.array_equal(ascent.at, before.at):
            return replace(self, ascent=ascent, done=bool(ascent.done[0]))
        small = self.small + 1 if ascent.value[0] - before.value[0] <= tolerance else 0
        promised = 0.5 * ascent.stride[0] * ascent.slope[0]
        over = small >= (FEW if promised <= tolerance else MANY)
        return Climbing(ascent, small, bool(ascent.done[0] or over))


def begun(points: Sequence[Point], observed: Observed, sums: Sums) -> tuple[Climbing, ...]:
    """Begin a search at every point."""
    found = []
    for point, likelihood, slopes in zip(points, sums.value, sums.gradient, strict=True):
        stretch = point.stretch(observed)
        value, gradient = point.objective(float(likelihood), slopes)
        found.append(Climbing.first(point.vector * stretch, value, gradient / stretch))
    return tuple(found)


def trials(
    points: Sequence[Point], searches: Sequence[Climbing], observed: Observed
) -> tuple[Point, ...]:
    """Return the points that the searches try next; one that is over stays."""
    return tuple(
        p if s.done else p.at(s.ascent.trial[0] / p.stretch(observed))
        for p, s in zip(points, searches, strict=True)
    )


def judged(
    points: tuple[Point, ...],
    searches: tuple[Climbing, ...],
    sums: Sums,
    going: Sequence[int],
    tried: tuple[Sequence[Point], Sums],
    observed: Observed,
    tolerance: float,
) -> tuple[tuple[Point, ...], tuple[Climbing, ...], Sums]:
    """Take each trial of the searches that go on, or shorten its step.

    Parameters
    ----------
    points, searches, sums
        Where the searches stand, and what was found there.
    going
        Which of them were asked.
    tried
        Their trials, and what was found at those.
    tolerance
        A search ends when two rises in a row are at most this, in nats, and the slope promises no
        more: g'H g / 2, the rise to come of a quadratic.
    """
    moved, found = list(points), list(searches)
    value, gradient = sums.value.copy(), list(sums.gradient)
    asked, there = tried
    for j, i in enumerate(going):
        point, slopes = asked[j], there.gradient[j]
        objective, slope = point.objective(float(there.value[j]), slopes)
        after = found[i].updated(objective, slope / point.stretch(observed), tolerance)
        if not np.array_equal(after.ascent.at, found[i].ascent.at):
            moved[i], value[i], gradient[i] = point, float(there.value[j]), slopes
        found[i] = after
    return tuple(moved), tuple(found), replace(sums, value=value, gradient=tuple(gradient))
