"""Executors: they run a model's local steps on every partition, and sum the statistics."""

from __future__ import annotations

import ctypes
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any, TypeVar

from flows.fit.holder import Holder, Sweep
from flows.fit.job import Job, one_thread
from flows.fit.tree import finish
from vbmodels.core.algorithm import Rebuilding
from vbmodels.core.state import aligned

R = TypeVar("R")

OnProgress = Callable[[int, int], None]  # called with how many of how many are done


class Executor(ABC):
    """A `Reduce` over holders: `InProcess` here, `ClusterExecutor` on workers of Dask."""

    heavy = False  # whether so much is logged since the last checkpoint that another is due
    ahead = ""  # what the dashboard says behind the number of a sweep

    def __init__(self, job: Job) -> None:
        if not job.partitions:
            raise ValueError("there is nothing to fit: expected at least one partition")
        self.job, self.partitions = job, len(job.partitions)

    @abstractmethod
    def _call_all(self, method: str, *args: Any) -> list[Any]:
        """Call a method of every `Holder`; return what each returns."""

    @abstractmethod
    def restore(self, number: int | None, local_digests: Sequence[str]) -> None:
        """Take the local states of a checkpoint, by their digests; raise `DamagedCheckpoint`."""

    @abstractmethod
    def map(
        self,
        function: Callable[..., Any],
        q: Any,
        number: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Return ``function(model, q, batch, local, index)`` of each partition, in order.

        The local states are those of sweep ``number``, None without one. Results should be small;
        a function writes large ones through `flows.storage` itself. What ``on_progress``
        raises ends the work.
        """

    @abstractmethod
    def close(self) -> None:
        """Release what the executor holds."""

    def digests(self) -> list[str]:
        """Return the digest of every partition's data."""
        digests = merged(self._call_all("digests"))
        return [digests[i] for i in range(self.partitions)]

    def observe(self) -> Any:
        """Return the sum of the statistics that are needed before the first sweep."""
        return self._sum(self._call_all("observe"))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `vbmodels.core.algorithm.Reduce`."""
        return self._sum(self._sweep((q, number, warm)))

    def _sum(self, sums: Sequence[Mapping[Any, Any]]) -> Any:
        return aligned(finish(merged(sums), 0, self.partitions))

    def _sweep(self, sweep: Sweep) -> list[Any]:
        return [sums for sums, _ in self._call_all("sweep", *sweep)]

    def keep(self, number: int) -> list[str]:
        """Write the local states of a sweep into its checkpoint; return their digests, if any."""
        if isinstance(self.job.model, Rebuilding):
            return []
        digests = merged(self._call_all("keep", number))
        return [digests.get(i, "") for i in range(self.partitions)] if digests else []


class InProcess(Executor):
    """The executor in this process: one holder, which is called.

    Its data take at most ``memory`` bytes, and it works on so many partitions at once.
    """

    def __init__(self, job: Job, memory: int | None = None, threads: int = 1) -> None:
        super().__init__(job)
        self.memory, self.threads = memory, threads
        self.restore(None, ())

    def restore(self, number: int | None, local_digests: Sequence[str]) -> None:
        """Take the local states of a checkpoint."""
        self.holder = Holder(self.job, self.threads, self.memory)
        digests: dict[int, str | None] = dict.fromkeys(range(self.partitions))
        self.holder.take(digests, number, dict(enumerate(local_digests)), ())

    def map(
        self,
        function: Callable[..., Any],
        q: Any,
        number: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Call a function on each partition."""
        call = partial(self.holder.map, function, q, number)
        with one_thread():
            calls = [partial(call, [i]) for i in range(self.partitions)]
            return list(merged(in_threads(calls, self.threads, on_progress)).values())

    def close(self) -> None:
        """Forget data and local states, and give their memory back where glibc keeps it."""
        self.holder.close()
        self.restore(None, ())
        if platform.libc_ver()[0] == "glibc":
            ctypes.CDLL(None).malloc_trim(0)

    def _call_all(self, method: str, *args: Any) -> list[Any]:
        with one_thread():
            return [getattr(self.holder, method)(*args)]


def merged(mappings: Sequence[Mapping[Any, Any]]) -> dict[Any, Any]:
    """Return all pairs of some mappings."""
    return {key: value for mapping in mappings for key, value in mapping.items()}


def in_threads(
    calls: Sequence[Callable[[], R]], threads: int, on_progress: OnProgress | None = None
) -> list[R]:
    """Make all calls, so many at once, and return their results in the calls' order.

    ``on_progress`` is called in this thread after each. What it or a call raises is raised when
    the calls that have begun have ended: no others begin.
    """
    progress = on_progress or (lambda done, total: None)
    if threads == 1 or len(calls) == 1:
        results = []
        for call in calls:
            results.append(call())
            progress(len(results), len(calls))
        return results
    with ThreadPoolExecutor(threads, thread_name_prefix="vbflows") as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(done, len(calls))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
