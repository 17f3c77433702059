"""Where a run computes: in this process, on local workers, or on a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flows.fit.executor import Executor, InProcess, OnProgress, in_threads
from flows.fit.job import Job
from flows.settings import ComputeSettings

if TYPE_CHECKING:
    from flows.fit.cluster import Cluster

R = TypeVar("R")
Compute: TypeAlias = "LocalCompute | Cluster"


class LocalCompute:
    """This process, with so many threads."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.size = 0  # workers

    def each(
        self, function: Callable[..., R], items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
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
        yield LocalCompute(threads)
        return
    from flows.fit.connect import connect

    with connect(settings.workers, settings.scheduler, settings.memory_limit) as cluster:
        yield cluster
