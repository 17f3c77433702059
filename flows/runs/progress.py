"""How a fit goes: an event after every sweep, with an estimate of those to come."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from flows.events import Sweep
from flows.fit.driver import Progress
from flows.runs.context import Run
from vbmodels.core.convergence import remaining_rise


def sweeps(run: Run) -> Callable[[Progress], None]:
    """Return what passes the sweeps of a run's fit to its listeners."""
    seen: list[float] = []

    def tell(progress: Progress) -> None:
        seen.append(progress.elbo)
        left = sweeps_left(seen, run.settings.tol)
        run.events.tell(
            Sweep(progress.iteration, progress.elbo, progress.rise, left, progress.max_iter)
        )

    return tell


def sweeps_left(trace: Sequence[float], tol: float) -> float | None:
    """Estimate how many sweeps a geometric rise needs to come below the tolerance."""
    if len(trace) < 3:
        return None
    now, before = trace[-1] - trace[-2], trace[-2] - trace[-3]
    rate = now / before if before > 0 else 0.0
    goal = tol * max(1.0, abs(trace[-1]))
    left = remaining_rise(trace)
    if not 0.0 < rate < 1.0 or left <= goal:
        return None
    return math.log(goal / left) / math.log(rate)
