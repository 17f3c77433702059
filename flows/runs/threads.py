"""How many threads of this process a run takes where no workers are requested."""

from __future__ import annotations

import os

from flows.family import Threaded
from flows.runs.context import Run
from flows.runs.incremental import new_parts

START = 5.0
"""CPU seconds that a worker takes until it has imported what it needs, on a machine of 2026."""

MANY = 5000
"""Rows from which on a run takes threads: chosen so that small runs keep one, not measured."""


def choose_threads(run: Run) -> int:
    """Return the number of threads: one a core and partition where kernels release Python's lock.

    Partitions that are taken up from an earlier run are not counted.
    """
    if run.options.workers is not None or run.options.scheduler is not None:
        return 1
    if not isinstance(run.family, Threaded) or not run.family.threads(run.settings):
        return 1
    parts = new_parts(run)
    return at_most(len(parts)) if sum(part.rows for part in parts) >= MANY else 1


def advice(run: Run) -> str | None:
    """Say of little work on workers that one process would be faster; None of more."""
    rows, workers = sum(part.rows for part in run.parts), run.options.workers
    if workers is None or rows >= MANY:
        return None
    return (
        f"{rows:,} rows: one process (without --workers) is faster; starting {workers} workers "
        f"takes some {START * workers:.0f} CPU seconds"
    )


def at_most(parts: int) -> int:
    """Return how many partitions the cores of this process can do at once."""
    return max(1, min(len(os.sched_getaffinity(0)), parts))
