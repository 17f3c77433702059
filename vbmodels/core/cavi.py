"""Coordinate ascent for every model: plain (`cavi`), of draws (`draw`), accelerated (`squarem`).

An algorithm knows no cluster; see `vbmodels.core.algorithm`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np

from vbmodels.core.algorithm import (
    Accelerable,
    Algorithm,
    Drawing,
    Model,
    Request,
    Save,
    Show,
    Sweep,
)
from vbmodels.core.state import aligned


def evaluate(
    model: Model, q: Any, again: bool = False
) -> Generator[Request, Any, tuple[Any, Any, float]]:
    """Evaluate parameters by a `Sweep`; return them, the statistics, and the bound.

    All is aligned, so that a fit has the same bits before and after it was stored.
    """
    q = aligned(q)
    stats = yield Sweep(model.without_draws(q) if isinstance(model, Drawing) else q, again)
    return q, stats, float(model.elbo(q, stats))


def cavi(model: Model, q: Any, moves: int | None = None) -> Algorithm:
    """Coordinate ascent, without end or, with ``moves``, of so many global steps.

    The bound is read at the parameters that the statistics were made with, before they
    move, so it costs no pass of its own.
    """
    done = 0
    while True:
        q, done = yield Save((q, done))
        q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo, by_trace=moves is None)
        if done == moves:
            return q
        q, done = model.global_step(q, stats), done + 1


def draw(model: Model, q: Any, is_last: Callable[[Any], bool]) -> Algorithm:
    """Sweeps whose objective wanders, as that of draws does, until ``is_last(q)``."""
    while True:
        q = yield Save(q)
        q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo, by_trace=False)
        if is_last(q):
            return q
        q = model.global_step(q, stats)


LONGEST = 4.0
"""Longest stride of the first leap."""


Step = Callable[[Any, Any, Any, float, Any, bool], Algorithm]
"""From a model, a point with its statistics and bound, and the point ahead, to the next point."""


def _plain(model: Any, q: Any, stats: Any, elbo: float, ahead: Any, again: bool) -> Algorithm:
    return (yield from evaluate(model, ahead, again))


def squarem(
    model: Any, q: Any, stats: Any = None, elbo: float = -math.inf, step: Step = _plain
) -> Algorithm:
    """SQUAREM (Varadhan and Roland 2008, scheme S3) guarded by the bound.

    From theta0 take two plain steps to theta1 and theta2; with r = theta1 - theta0 and
    v = (theta2 - theta1) - r, try theta0 - 2 a r + a^2 v at a = -|r|/|v|, no longer than
    the present stride. The trial holds if its bound is finite and not below the bound at
    theta1, else theta2 does: the bound never falls. Only accepted points are shown, so
    iteration numbers (sweeps) may skip.

    The model must be `Accelerable`. ``stats`` and ``elbo`` are of ``q``, where they are known;
    ``step`` takes the plain steps.
    """
    stride = LONGEST
    while True:
        q, stats, elbo, stride = yield Save((q, stats, elbo, stride))
        if stats is None:
            q, stats, elbo = yield from evaluate(model, q)
        yield Show(q, elbo)
        before = q
        ahead = model.global_step(q, stats)
        q, stats, elbo = yield from step(model, q, stats, elbo, ahead, False)
        yield Show(q, elbo)
        ahead = model.global_step(q, stats)
        trial, length = extrapolate(model, before, q, ahead, stride, step is not _plain)
        if trial is not None:
            leapt = yield from evaluate(model, trial)
            if math.isfinite(leapt[2]) and leapt[2] >= elbo:
                (q, stats, elbo), stride = leapt, grown(stride, length)
                continue
        # At stride 1 the trial is theta2 itself: there is nothing to guard, and room to grow.
        stride = grown(stride, length) if length == 1.0 else max(1.0, stride / 4.0)
        q, stats, elbo = yield from step(model, q, stats, elbo, ahead, trial is not None)


def monotone_squarem(model: Any, q: Any, stats: Any = None, elbo: float = -math.inf) -> Algorithm:
    """Run `squarem` for a model whose global step may lower the bound.

    ``model.global_step(q, stats)`` is bold; where its objective falls or is no number,
    ``global_step(q, stats, careful=True)`` is taken instead, and where even that falls by
    rounding, the point stays. So the objective never falls.
    """
    return squarem(model, q, stats, elbo, _not_lower)


def _not_lower(model: Any, q: Any, stats: Any, elbo: float, ahead: Any, again: bool) -> Algorithm:
    """Return the first of the bold step, parts of it, the careful one and a stay that holds."""
    for trial in _trials(model, q, stats, ahead):
        outcome = yield from evaluate(model, trial)
        if math.isfinite(outcome[2]) and outcome[2] >= elbo:
            break
    return outcome


def _trials(model: Any, q: Any, stats: Any, ahead: Any) -> Iterator[Any]:
    """Yield what may hold; of ``model.parts``, since a careful step may be far shorter."""
    yield ahead
    for part in model.parts:
        here = model.to_vector(q)
        yield model.from_vector(ahead, here + part * (model.to_vector(ahead) - here))
    yield model.global_step(q, stats, careful=True)
    yield q


def grown(stride: float, length: float) -> float:
    """Return the longest stride after one that held."""
    return 4.0 * stride if length >= stride else stride


def extrapolate(
    model: Accelerable, before: Any, q: Any, ahead: Any, stride: float, bold: bool
) -> tuple[Any, float]:
    """Return the trial and its stride; None where that is theta2 or runs out of numbers.

    After ``bold`` steps, which may overshoot, a coordinate that turned back stays at its theta2:
    there is nothing to extrapolate, and it alone would keep the stride of all the others short.
    """
    theta0, theta1, theta2 = (model.to_vector(x) for x in (before, q, ahead))
    r, s = theta1 - theta0, theta2 - theta1
    onward = r * s > 0.0 if bold else np.ones(len(r), dtype=bool)
    norm = float(np.linalg.norm((s - r)[onward]))
    length = min(max(float(np.linalg.norm(r[onward])) / norm, 1.0), stride) if norm > 0 else 1.0
    vector = np.where(onward, theta0 + 2.0 * length * r + length**2 * (s - r), theta2)
    if length == 1.0 or not np.isfinite(vector).all():
        return None, length
    return model.from_vector(ahead, vector), length
