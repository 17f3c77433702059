"""Ascent whose every step is guarded: leaps, Newton's steps, and short ones where those fall."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from vbmodels.core.cavi import evaluated
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.squarem import SquaremCursor, _extrapolate, _grown


@dataclass(frozen=True)
class Wanted:
    """A point that a climb asks to be evaluated, as sweep ``number``."""

    q: Any
    number: int


Climb = Generator["SquaremCursor | Wanted", Cursor, None]


def guarded(model: Any, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Climb from ``cursor``, without end: `squarem` for steps that may fall.

    ``model.global_step(q, stats)`` is bold; where its objective falls or is no number,
    ``global_step(q, stats, careful=True)`` is taken instead, and where even that falls by
    rounding, the point stays. So the objective never falls.
    """
    climb = climbing(model, cursor)
    got = next(climb)
    while True:
        if isinstance(got, Wanted):
            got = climb.send(evaluated(model, reduce, got.q, got.number, got.number - 1))
        else:
            yield Step.at(got)
            got = next(climb)


def climbing(model: Any, cursor: Cursor) -> Climb:
    """Do what `guarded` does for whoever evaluates: yield points reached, and points wanted.

    A point that is `Wanted` is to be answered by its cursor; so several climbs can share a sweep.
    """
    at = cursor if isinstance(cursor, SquaremCursor) else SquaremCursor(**vars(cursor))
    while True:
        yield at
        ahead = model.global_step(at.q, at.stats)
        number, stride = at.number + 1, at.stride
        if at.before is not None:
            trial, length = _extrapolate(model, at.before, at.q, ahead, at.stride)
            if trial is not None:
                leapt = yield Wanted(trial, number)
                if math.isfinite(leapt.elbo) and leapt.elbo >= at.elbo:
                    at = SquaremCursor(**vars(leapt), stride=_grown(stride, length))
                    continue
                number += 1
            stride = _grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        before = at.q if at.before is None else None
        swept = yield from _next(model, at, ahead, number)
        at = SquaremCursor(**vars(swept), before=before, stride=stride)


def _next(model: Any, at: SquaremCursor, ahead: Any, number: int) -> Generator[Any, Cursor, Cursor]:
    """Return the first of the bold step, parts of it, the careful one and a stay that holds.

    Parts are those of ``model.parts``: a careful step may be far shorter.
    """
    swept = yield Wanted(ahead, number)
    for part in model.parts:
        if math.isfinite(swept.elbo) and swept.elbo >= at.elbo:
            break
        number += 1
        here = model.to_vector(at.q)
        short = model.from_vector(ahead, here + part * (model.to_vector(ahead) - here))
        swept = yield Wanted(short, number)
    if not (math.isfinite(swept.elbo) and swept.elbo >= at.elbo):
        number += 1
        careful = model.global_step(at.q, at.stats, careful=True)
        swept = yield Wanted(careful, number)
    if not (math.isfinite(swept.elbo) and swept.elbo >= at.elbo):
        number += 1
        swept = yield Wanted(at.q, number)
    return swept
