"""Where a run computes: in this process, on local workers, or on a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from flows.fit.executor import Calls, Executor, InProcess, OnProgress, Stopped, in_threads
from flows.fit.job import Job
from flows.settings import ComputeSettings

R = TypeVar("R")


class Compute(Protocol):
    """Runs functions on partitions, and fits."""

    def calls(self) -> Calls:
        """Return the calls of one stage."""

    def each(
        self, function: Callable[..., R], items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None, stopped: Stopped = lambda: False,
    ) -> list[R]:  # fmt: skip
        """Run a function on every tuple of arguments; what it or `on_progress` raises ends all."""

    def executor(self, job: Job) -> Executor:
        """Return what carries out a fit."""


class Here:
    """This process, with so many threads."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def calls(self) -> Calls:
        """Return calls that run in the threads that make them."""
        return Calls(self.each, None)

    def each(
        self, function: Callable[..., R], items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None, stopped: Stopped = lambda: False,
    ) -> list[R]:  # fmt: skip
        """Call it on one after the other, or on several at once; results in order."""
        return in_threads([partial(function, *item) for item in items], self.threads, on_progress)

    def executor(self, job: Job) -> Executor:
        """Return the in-process executor."""
        return InProcess(job, threads=self.threads)


@contextmanager
def computing(settings: ComputeSettings, threads: int = 1) -> Iterator[Compute]:
    """Provide the place that the settings name, and release it at the end.

    This process, where it computes, has so many threads.
    """
    if settings.workers is None and settings.scheduler is None:
        yield Here(threads)
        return
    from flows.fit.connect import connect

    with connect(settings.workers, settings.scheduler, settings.memory_limit) as cluster:
        yield cluster


def each_of(compute: Compute, on_progress: OnProgress | None = None) -> Callable[..., list[Any]]:
    """Return a function that applies another one to items: on workers, several at once.

    `on_progress` is called after every item; what it, or an item, raises ends the rest.
    """

    def each(function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        return compute.each(function, [(item, *args) for item in items], on_progress)

    return each
