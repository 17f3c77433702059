"""Ascent whose every step is guarded: leaps, Newton's steps, and short ones where those fall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from vbmodels.core.cavi import evaluated
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.squarem import SquaremCursor, _extrapolate, _grown


def guarded(model: Any, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Climb from ``cursor``, without end: `squarem` for steps that may fall.

    ``model.global_step(q, stats)`` is bold; where its objective falls or is no number,
    ``global_step(q, stats, careful=True)`` is taken instead, and where even that falls by
    rounding, the point stays. So the objective never falls.
    """
    at = cursor if isinstance(cursor, SquaremCursor) else SquaremCursor(**vars(cursor))
    while True:
        yield Step.at(at)
        ahead = model.global_step(at.q, at.stats)
        number, stride = at.number + 1, at.stride
        if at.before is not None:
            trial, length = _extrapolate(model, at.before, at.q, ahead, at.stride)
            if trial is not None:
                leapt = evaluated(model, reduce, trial, number, number - 1)
                if _holds(leapt, at):
                    at = SquaremCursor(**vars(leapt), stride=_grown(stride, length))
                    continue
                number += 1
            stride = _grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        before = at.q if at.before is None else None
        swept = _next(model, reduce, at, ahead, number)
        at = SquaremCursor(**vars(swept), before=before, stride=stride)


def _next(model: Any, reduce: Reduce, at: SquaremCursor, ahead: Any, number: int) -> Cursor:
    """Return the first of the bold step, parts of it, the careful one and a stay that holds.

    Parts are those of ``model.parts``: a careful step may be far shorter.
    """
    swept = evaluated(model, reduce, ahead, number, number - 1)
    for part in model.parts:
        if _holds(swept, at):
            break
        number += 1
        here = model.to_vector(at.q)
        short = model.from_vector(ahead, here + part * (model.to_vector(ahead) - here))
        swept = evaluated(model, reduce, short, number, number - 1)
    if not _holds(swept, at):
        number += 1
        careful = model.global_step(at.q, at.stats, careful=True)
        swept = evaluated(model, reduce, careful, number, number - 1)
    if not _holds(swept, at):
        number += 1
        swept = evaluated(model, reduce, at.q, number, number - 1)
    return swept


def _holds(swept: Cursor, at: Cursor) -> bool:
    return math.isfinite(swept.elbo) and swept.elbo >= at.elbo
