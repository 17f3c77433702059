"""Where a run computes: in this process, on local workers, or on a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from flows.executor import Executor, Heard, InProcess
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


def each_of(compute: Compute, heard: Heard | None = None) -> Callable[..., list[Any]]:
    """Return a function that applies another one to items: on workers, several at once.

    `heard` is called after every item; what it, or an item, raises ends the rest.
    """
    tell = heard or _nobody

    def each(function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        def one(item: Any) -> R:
            return compute.call(function, item, *args)

        if isinstance(compute, Here):
            results = []
            for item in items:
                results.append(one(item))
                tell(len(results), len(items))
            return results
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(one, item) for item in items]
            try:
                for done, future in enumerate(as_completed(futures), start=1):
                    future.result()
                    tell(done, len(items))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [future.result() for future in futures]

    return each


def _nobody(done: int, total: int) -> None:
    """Tell nobody."""
