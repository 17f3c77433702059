"""Coordinate ascent, the same for every model, which knows no cluster."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from vbmodels.core.algorithm import Algorithm, Request, Save, Show, Sweep
from vbmodels.core.protocol import Drawing, Model
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
