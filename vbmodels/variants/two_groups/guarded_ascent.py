"""Ascent whose every step is guarded: leaps, Newton's steps, and short ones where those fall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from vbmodels.core.algorithm import Algorithm, Save, Show
from vbmodels.core.cavi import evaluate
from vbmodels.core.squarem import LONGEST, extrapolate, grown


def guarded(model: Any, q: Any, stats: Any = None, elbo: float = -math.inf) -> Algorithm:
    """Climb without end: `squarem` for steps that may fall; ``stats`` and ``elbo`` are of ``q``.

    ``model.global_step(q, stats)`` is bold; where its objective falls or is no number,
    ``global_step(q, stats, careful=True)`` is taken instead, and where even that falls by
    rounding, the point stays. So the objective never falls.
    """
    stride = LONGEST
    while True:
        q, stats, elbo, stride = yield Save((q, stats, elbo, stride))
        if stats is None:
            q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo)
        before = q
        q, stats, elbo = yield from _held(model, q, stats, elbo, model.global_step(q, stats))
        yield Show(q, elbo)
        ahead = model.global_step(q, stats)
        trial, length = extrapolate(model, before, q, ahead, stride)
        if trial is not None:
            leapt = yield from evaluate(model, trial)
            if math.isfinite(leapt[2]) and leapt[2] >= elbo:
                (q, stats, elbo), stride = leapt, grown(stride, length)
                continue
        stride = grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        q, stats, elbo = yield from _held(model, q, stats, elbo, ahead)


def _held(model: Any, q: Any, stats: Any, elbo: float, ahead: Any) -> Algorithm:
    """Return the first of the bold step, parts of it, the careful one and a stay that holds."""
    for trial in _trials(model, q, stats, ahead):
        found = yield from evaluate(model, trial)
        if math.isfinite(found[2]) and found[2] >= elbo:
            break
    return found


def _trials(model: Any, q: Any, stats: Any, ahead: Any) -> Iterator[Any]:
    """Yield what may hold; of ``model.parts``, since a careful step may be far shorter."""
    yield ahead
    for part in model.parts:
        here = model.to_vector(q)
        yield model.from_vector(ahead, here + part * (model.to_vector(ahead) - here))
    yield model.global_step(q, stats, careful=True)
    yield q
