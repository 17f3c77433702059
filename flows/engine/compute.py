"""Where a run computes: in this process, on local workers, or on a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from flows.engine.executor import Executor, InProcess, OnProgress
from flows.engine.fit import Job
from flows.engine.threads import in_threads
from flows.settings import ComputeSettings

R = TypeVar("R")


class Calls(Protocol):
    """The calls of one stage, which end together."""

    @property
    def at_once(self) -> int | None:
        """How many keep all workers busy; None where it is this process that works."""

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Run one function; several calls at once, from threads, are fine."""

    def abandon(self) -> None:
        """Stop waiting for those that have begun: another of the stage failed."""


class Compute(Protocol):
    """Runs functions on partitions, and fits."""

    def calls(self) -> Calls:
        """Return the calls of one stage."""

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Run a function on every tuple of arguments; what it or `on_progress` raises ends all."""

    def executor(self, job: Job) -> Executor:
        """Return what carries out a fit."""


class Here:
    """This process, with so many threads."""

    at_once = None

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Call it."""
        return function(*args)

    def calls(self) -> Here:
        """Return itself: what has begun here ends here."""
        return self

    def abandon(self) -> None:
        """Let what has begun come to its end."""

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Call it on one after the other, or on several at once; results in order."""
        return in_threads([partial(function, *item) for item in items], self.threads, on_progress)

    def executor(self, job: Job) -> Executor:
        """Return the in-process executor."""
        return InProcess(job, threads=self.threads)


@contextmanager
def computing(settings: ComputeSettings, threads: int = 1) -> Iterator[Compute]:
    """Provide what the settings ask for, and release it at the end.

    This process, where it computes, has so many threads.
    """
    if settings.workers is None and settings.scheduler is None:
        yield Here(threads)
        return
    from flows.engine import dask as cluster

    with cluster.connect(settings.workers, settings.scheduler, settings.memory_limit) as found:
        yield found


def each_of(compute: Compute, on_progress: OnProgress | None = None) -> Callable[..., list[Any]]:
    """Return a function that applies another one to items: on workers, several at once.

    `on_progress` is called after every item; what it, or an item, raises ends the rest.
    """

    def each(function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        return compute.each(function, [(item, *args) for item in items], on_progress)

    return each
