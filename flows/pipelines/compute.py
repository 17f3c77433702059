"""Where a run computes: in this process, on local workers, or on a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from flows.executor import Executor, InProcess
from flows.fit import Job
from flows.settings import ComputeSettings

R = TypeVar("R")
_AT_ONCE = 16  # calls that wait for workers


class Compute(Protocol):
    """Runs functions on partitions, and fits."""

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Run one function; several calls at once, from threads, are fine."""

    def executor(self, job: Job) -> Executor:
        """Return what carries out a fit."""


class Here:
    """This process."""

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Call it."""
        return function(*args)

    def executor(self, job: Job) -> Executor:
        """Return the in-process executor."""
        return InProcess(job)


@contextmanager
def computing(settings: ComputeSettings) -> Iterator[Compute]:
    """Provide what the settings ask for, and release it at the end."""
    if settings.workers is None and settings.scheduler is None:
        yield Here()
        return
    from flows import cluster

    with cluster.connect(settings.workers, settings.scheduler, settings.memory_limit) as found:
        yield found


def each_of(compute: Compute) -> Callable[..., list[Any]]:
    """Return a function that applies another one to items: on workers, several at once."""

    def each(function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        def one(item: Any) -> R:
            return compute.call(function, item, *args)

        if isinstance(compute, Here):
            return [one(item) for item in items]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(one, items))

    return each
