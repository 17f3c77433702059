"""What runs inside a worker process: one task, with its log lines and its environment."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy

import vbmodels
from flows.data import storage
from flows.engine.block import Job, LogMissing, Order, one_thread
from flows.engine.cache import Cache, available_memory

R = TypeVar("R")

CACHE_SHARE = 0.4  # of a worker's memory limit
LINES = 100  # most log lines returned with one result
JOBS = 4  # remembered at once
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's numbers for mallopt
LARGEST_KEPT = 32 * 2**20  # bytes; glibc takes no more, and comes to as much by itself

_local = threading.local()


@dataclass(frozen=True)
class Done:
    """A block's result, with where and in what it was made."""

    value: Any
    worker: str
    seconds: float
    lines: tuple[tuple[int, str], ...]  # level, text
    environment: dict[str, str]


@dataclass(frozen=True)
class JobUnknown:
    """The answer of a worker that was not given the job of an order, or has forgotten it."""

    worker: str


@dataclass(frozen=True)
class LogNeeded:
    """The answer of a worker that must replay sweeps whose global parameters it was not given."""

    worker: str


class _Collector(logging.Handler):
    """Keeps the records of the thread that is at work on a block."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = getattr(_local, "lines", None)
        if lines is not None and len(lines) < LINES:
            lines.append((record.levelno, record.getMessage()))


class Holdings:
    """What one worker process holds between tasks: jobs, and its cache."""

    def __init__(self) -> None:
        self.jobs: OrderedDict[str, Job] = OrderedDict()  # by attempt
        self._cache: Cache | None = None
        self._lock = threading.Lock()

    def job(self, attempt: str, given: Job | None) -> Job | None:
        """Return the job of an attempt, remembering the one given; None if it is not known."""
        with self._lock:
            if given is not None:
                self.jobs[attempt] = given
            if attempt in self.jobs:
                self.jobs.move_to_end(attempt)
            while len(self.jobs) > JOBS:
                self.jobs.popitem(last=False)
            return self.jobs.get(attempt)

    def cache(self, memory: int | None, folder: str | None) -> Cache:
        """Return the cache, at first made as a fixed share of the worker's memory limit."""
        with self._lock:
            if self._cache is None:
                limit = memory or available_memory()
                self._cache = Cache(int(limit * CACHE_SHARE), limit, folder)
            return self._cache

    def forget(self, attempts: frozenset[str]) -> None:
        """Drop all that is held of some attempts."""
        for attempt in attempts:
            with self._lock:
                self.jobs.pop(attempt, None)
            if self._cache is not None:
                self._cache.forget(attempt)


held = Holdings()  # by this process


def work_on(
    holdings: Holdings,
    job: Job | None,
    order: Order,
    worker: str,
    memory: int | None,
    folder: str | None,
) -> Done | JobUnknown | LogNeeded:
    """Run one block with a worker's cache.

    Parameters
    ----------
    holdings
        What the worker holds.
    job
        The job, or None where the worker was given it before, with an order of the same
        attempt.
    order
        What to do.
    worker
        The worker's address.
    memory
        The worker's memory limit in bytes; None for that of the machine.
    folder
        The worker's local folder.
    """
    started = time.perf_counter()
    known = holdings.job(order.attempt, job)
    if known is None:
        return JobUnknown(worker)
    _local.lines = []
    storage.decoded.release()
    try:
        cache = holdings.cache(memory, folder)
        with one_thread():
            value = order.action(order, known, cache)
    except LogMissing:
        return LogNeeded(worker)
    else:
        lines = [*_local.lines, *((logging.INFO, note) for note in cache.take_notes())]
    finally:
        _local.lines = None
    seconds = time.perf_counter() - started
    return Done(value, worker, seconds, tuple(lines[:LINES]), environment())


@once
def settle() -> None:
    """Make a process that was started for something else a worker of ours."""
    _collect()
    _keep_freed_memory()


def call_after(ended: frozenset[str], function: Callable[..., R], *args: Any) -> R:
    """Call a function once what this process holds of ended attempts is dropped."""
    held.forget(ended)
    return function(*args)


def _collect() -> None:
    """Route log records and warnings of this process to the tasks that made them."""
    handler = _Collector(logging.INFO)
    logging.captureWarnings(True)
    for name in ("flows", "vbmodels", "py.warnings"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


def _keep_freed_memory() -> None:
    """Let the memory of one temporary array serve the next.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_ set, which ends glibc's own adjustment of the
    size from which arrays are mapped and unmapped one by one (mallopt(3)): most of a sweep's
    arrays then cost their page faults each time. The values are those that glibc comes to by
    itself; whoever sets MALLOC_MMAP_THRESHOLD_ has the say.
    """
    if platform.libc_ver()[0] != "glibc" or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
    libc.mallopt(TRIM_THRESHOLD, 2 * LARGEST_KEPT)


@once
def environment() -> dict[str, str]:
    """Return what the last bits of a result may depend on, of this process."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "vbflows": _source(),
        "cpu": _cpu(),
    }


def _source() -> str:
    """Digest of the program's own source: equal version numbers may hide a difference."""
    total = hashlib.sha256()
    for package in (Path(vbmodels.__file__).parent, Path(__file__).parents[1]):
        for path in sorted(package.rglob("*.py")):
            total.update(path.relative_to(package.parent).as_posix().encode())
            total.update(path.read_bytes())
    return total.hexdigest()[:12]


def _cpu() -> str:
    """Name the vector instructions that NumPy uses here."""
    config: Any = np.show_config(mode="dicts")
    return ",".join(config.get("SIMD Extensions", {}).get("found", [])) or platform.machine()
