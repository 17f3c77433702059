"""Coordinate ascent that leaps along its way, guarded by the bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vbmodels.core.cavi import evaluated, shown
from vbmodels.core.protocol import Accelerable, Cursor, Reduce, Step
from vbmodels.core.state import State


@dataclass(frozen=True)
class SquaremCursor(Cursor, kind="core.SquaremCursor"):
    """Position in a cycle of `squarem`: the point before this one, and the longest stride.

    ``before`` is None at the beginning of a cycle.
    """

    before: State | None = None
    stride: float = 4.0


def squarem(model: Any, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """SQUAREM (Varadhan and Roland 2008, scheme S3) guarded by the bound.

    From theta0 take two plain steps to theta1 and theta2; with r = theta1 - theta0 and
    v = (theta2 - theta1) - r, try theta0 - 2 a r + a^2 v at a = -|r|/|v|, no longer than
    the present stride. The trial stands if its bound is finite and not below the bound at
    theta1, else theta2 does: the bound never falls. Only accepted points are yielded, so
    iteration numbers (sweeps) may skip.

    The model must be `Accelerable`.
    """
    at = cursor if isinstance(cursor, SquaremCursor) else SquaremCursor(**vars(cursor))
    while True:
        if step := shown(model, at):
            yield step
        ahead = model.global_step(at.q, at.stats)
        if at.before is None:
            swept = evaluated(model, reduce, ahead, at.number + 1, at.number)
            # No stride begins at a point that is passed in silence: it is of another phase.
            at = SquaremCursor(**vars(swept), before=at.q if step else None, stride=at.stride)
        else:
            at = _second_half(model, reduce, at, ahead)


def _second_half(model: Any, reduce: Reduce, at: SquaremCursor, ahead: Any) -> SquaremCursor:
    trial, length = _extrapolate(model, at.before, at.q, ahead, at.stride)
    number = at.number + 1
    if trial is not None:
        swept = evaluated(model, reduce, trial, number, at.number)
        if math.isfinite(swept.elbo) and swept.elbo >= at.elbo:
            return SquaremCursor(**vars(swept), stride=_grown(at.stride, length))
        number += 1
    swept = evaluated(model, reduce, ahead, number, at.number)
    # At stride 1 the trial is theta2 itself: there is nothing to guard, and room to grow.
    stride = _grown(at.stride, length) if length == 1.0 else max(1.0, at.stride / 4.0)
    return SquaremCursor(**vars(swept), stride=stride)


def _grown(stride: float, length: float) -> float:
    return 4.0 * stride if length >= stride else stride


def _extrapolate(
    model: Accelerable, before: Any, q: Any, ahead: Any, stride: float
) -> tuple[Any, float]:
    """Return the trial and its stride; None where that is theta2 or runs out of numbers."""
    theta0, theta1, theta2 = (model.to_vector(x) for x in (before, q, ahead))
    r = theta1 - theta0
    v = (theta2 - theta1) - r
    norm = float(np.linalg.norm(v))
    length = min(max(float(np.linalg.norm(r)) / norm, 1.0), stride) if norm > 0 else 1.0
    vector = theta0 + 2.0 * length * r + length**2 * v
    if length == 1.0 or not np.isfinite(vector).all():
        return None, length
    return model.from_vector(ahead, vector), length
