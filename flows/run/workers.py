"""How many workers or threads a run takes by itself, where that is left to it.

Workers take `START` seconds to come up, in which this process would have done as much. So n of
them are worth it where the run's forecast C, in CPU seconds, has C - C / n > START. The forecast is
coarse (rows times what a row takes, by `flows.family.Forecasts`): a wrong choice costs some seconds
where the run is short, and cores where it is longer than it looks.

Where a family's work is in kernels that release Python's lock, threads of this process do it: they
start at once, load nothing anew, and share what is kept in memory.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence

from flows.data.partition import Part
from flows.engine.cache import available_memory
from flows.family import Cost, Forecasts
from flows.run.events import Line
from flows.run.running import Run
from flows.settings import AUTO, ComputeSettings

START = 6.0
"""Seconds until local workers compute: their processes, imports and the handshake."""

SHORT = 1.0
"""CPU seconds below which one thread does."""

MEMORY = 2**30
"""Bytes of the machine's memory for each worker."""


def settled(
    run: Run, compute: ComputeSettings, parts: Sequence[Part]
) -> tuple[ComputeSettings, int]:
    """Return compute settings with a number of workers, or none, in the place of ``auto``.

    And how many threads this process has where it computes.

    Parameters
    ----------
    parts
        The partitions that are to be read.
    """
    if compute.workers != AUTO:
        return compute, 1
    cost = _cost(run)
    seconds = forecast(run, parts)
    about = f"about {seconds:,.0f} s of CPU: "
    here = compute.model_copy(update={"workers": None})
    if cost.in_kernels:
        threads = at_most(len(parts)) if seconds > SHORT else 1
        if threads > 1:
            run.events.tell(
                Line(f"{about}{threads} threads of this process; --workers 0 keeps to one")
            )
        return here, threads
    count = number(seconds, len(parts))
    if count == 1:
        return here, 1
    run.events.tell(
        Line(f"{about}{count} local workers are started; --workers 0 keeps to this process")
    )
    return compute.model_copy(update={"workers": count}), 1


def forecast(run: Run, parts: Sequence[Part]) -> float:
    """Return about how many CPU seconds a run takes; 0 where its family does not know."""
    cost = _cost(run)
    fit = cost.fit if run.fitted is None else 0.0
    return (fit + cost.rest) * sum(part.rows for part in parts)


def _cost(run: Run) -> Cost:
    return run.family.cost(run.settings) if isinstance(run.family, Forecasts) else Cost(0.0, 0.0)


def at_most(parts: int, cores: int | None = None) -> int:
    """Return how many partitions this machine, or so many cores, can do at once."""
    return max(1, min(len(os.sched_getaffinity(0)) if cores is None else cores, parts))


def number(seconds: float, parts: int, cores: int | None = None, memory: int | None = None) -> int:
    """Return how many workers make a run shortest; 1 stands for this process.

    Parameters
    ----------
    seconds
        CPU seconds of the run.
    parts
        Its partitions.
    cores, memory
        What there is; by default of this process.

    Examples
    --------
    >>> number(5.0, 100, 16, 2**36), number(60.0, 100, 16, 2**36), number(60.0, 3, 16, 2**36)
    (1, 16, 3)
    """
    if multiprocessing.current_process().daemon:
        return 1  # Python lets such a process start no others
    memory = available_memory() if memory is None else memory
    most = max(1, min(at_most(parts, cores), memory // MEMORY))
    return most if seconds - seconds / most > START else 1
