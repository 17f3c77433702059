"""The loop: coordinate ascent, the same for every model, which knows no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vbmodels.core.protocol import (
    Cursor,
    Drawing,
    Judging,
    Loop,
    Model,
    Reduce,
    Starting,
    Step,
)
from vbmodels.core.state import aligned


def start(model: Model, q: Any, reduce: Reduce) -> Cursor:
    """Evaluate the first parameters, from a cold start."""
    return evaluated(model, reduce, q, 0, None)


def evaluated(model: Model, reduce: Reduce, q: Any, number: int, warm: int | None) -> Cursor:
    """Evaluate parameters from the local states of sweep ``warm``; None for a cold start.

    All is aligned, so that a cursor gives the same bits before and after it has been stored.
    """
    q = aligned(q)
    sent = model.without_draws(q) if isinstance(model, Drawing) else q
    stats = aligned(reduce(sent, number=number, warm=warm))
    return Cursor(q, stats, number, float(model.elbo(q, stats)))


def shown(model: Model, cursor: Cursor) -> Step | None:
    """Return the step at a cursor as the model judges it; see `Judging`."""
    return model.shown(cursor) if isinstance(model, Judging) else Step.at(cursor)


def begin(loop: Loop, model: Any, q: Any, reduce: Any) -> Cursor:
    """Return where a loop begins at the first parameters: `start`, or the loop's own."""
    found: Cursor = (
        loop.start(model, q, reduce) if isinstance(loop, Starting) else start(model, q, reduce)
    )
    return found


def cavi(model: Model, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
    """Coordinate ascent from ``cursor``, without end; the first step is the cursor's own.

    The bound is read at the parameters that the statistics were made with, before they
    move, so it costs no pass of its own.
    """
    while True:
        if step := shown(model, cursor):
            yield step
        q = model.global_step(cursor.q, cursor.stats)
        cursor = evaluated(model, reduce, q, cursor.number + 1, cursor.number)
