"""How many workers or threads a run takes by itself, where that is left to it.

A run whose forecast is C CPU seconds takes, by n workers or threads,

    this process    C
    threads         C (l + (1 - l) / n),  l the share that holds Python's lock
    workers         START + C / n

and that of the least is taken. Threads start at once, load nothing anew, and share what is kept in
memory; workers do not wait for one lock. The forecast is coarse (rows times what a row takes, by
`flows.family.Forecasts`): a wrong choice costs some seconds where the run is short, and cores where
it is longer than it looks.
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

START = 12.0
"""Seconds that local workers cost: 6 until they compute (processes, imports, the handshake), as
many again for what each loads and keeps on its own and for the way to them (benchmarks/scale.md:
two workers take 13 to 15 CPU seconds more than one process)."""

WORTH = 0.9
"""Threads are taken where they leave at most this share of the time: less is not theirs to promise,
and idle waits for a lock cost CPU."""

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
    workers, threads = number(seconds, cost, len(parts))
    if workers:
        run.events.tell(
            Line(f"{about}{workers} local workers are started; --workers 0 keeps to this process")
        )
        return compute.model_copy(update={"workers": workers}), 1
    if threads > 1:
        run.events.tell(Line(f"{about}{threads} threads of this process; --workers 0 keeps to one"))
    return here, threads


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


def number(
    seconds: float, cost: Cost, parts: int, cores: int | None = None, memory: int | None = None
) -> tuple[int, int]:
    """Return how many workers, or 0, and how many threads make a run shortest.

    Parameters
    ----------
    seconds
        CPU seconds of the run.
    cost
        What says how well threads and workers share them.
    parts
        Its partitions.
    cores, memory
        What there is; by default of this process.

    Examples
    --------
    >>> slow = Cost(1.0, 1.0)
    >>> number(5.0, slow, 100, 16, 2**36), number(60.0, slow, 100, 16, 2**36)
    ((0, 1), (16, 1))
    >>> compiled = Cost(1.0, 1.0, locked=0.0)
    >>> number(0.5, compiled, 100, 16, 2**36), number(60.0, compiled, 100, 16, 2**36)
    ((0, 1), (0, 16))
    """
    threads = at_most(parts, cores) if seconds > SHORT else 1
    by_threads = seconds * (cost.locked + (1.0 - cost.locked) / threads)
    most = most_workers(parts, cores, memory) if cost.workers else 1
    if most > 1 and START + seconds / most < by_threads:
        return most, 1
    return 0, threads if by_threads < seconds * WORTH else 1


def most_workers(parts: int, cores: int | None = None, memory: int | None = None) -> int:
    """Return how many workers this machine has cores and memory for; 1 where it starts none."""
    if multiprocessing.current_process().daemon:
        return 1  # Python lets such a process start no others
    memory = available_memory() if memory is None else memory
    return max(1, min(at_most(parts, cores), memory // MEMORY))
