"""The loops that a fit may be told to take, by name, and which models can take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flows.engine.block import Job
from vbmodels.core.cavi import cavi
from vbmodels.core.fit import loop_of
from vbmodels.core.memoised import Memoised, NotMemoisable, refuse
from vbmodels.core.protocol import Accelerable, Driven, Loop
from vbmodels.core.squarem import squarem
from vbmodels.core.streaming import Remembered, after

LOOPS: dict[str, Callable[[Job], Loop]] = {
    "cavi": lambda job: cavi,
    "squarem": lambda job: squarem,
    "memoised": lambda job: Memoised(job.rounds),
}


def loop_for(job: Job, remembered: Remembered | None = None) -> Loop:
    """Return the loop of a job: the one that it names, that of its stream, or its model's."""
    if remembered is not None:
        return after(remembered, job.forgetting_factor, job.rounds)
    if job.loop is None:
        return loop_of(job.model)
    if job.loop not in LOOPS:
        raise ValueError(f"expected a loop out of {sorted(LOOPS)}, got {job.loop!r}")
    return LOOPS[job.loop](job)


def why_not(model: Any, loop: str | None) -> str | None:
    """Say why a model cannot take a loop; None where it can."""
    name = type(model).__name__
    if loop == "memoised":
        try:
            refuse(model)
        except NotMemoisable as reason:
            return str(reason)
    elif loop is not None and isinstance(model, Driven):
        return f"{name} has a loop of its own and takes no other"
    elif loop == "squarem" and not isinstance(model, Accelerable):
        return f"{name} has no coordinates to leap in"
    return None
