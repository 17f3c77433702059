"""What one worker has of a fit: partitions, their local states, and the work on them.

A holder knows no cluster: this process calls it directly, on Dask it is an actor. What it answers
is a function of the job and of what it was given, so that any other holder of the same partitions
answers with the same bits.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import psutil

from flows import storage
from flows.faults import MEMORY_ADVICE, ComputeError, RunError
from flows.fit.job import Job, digest_of, local_url, one_thread
from flows.fit.tree import Subtree, cover
from flows.records.states import state_of
from vbmodels.core.algorithm import Rebuilding
from vbmodels.core.state import State, aligned, to_bytes, tree_sum

Sweep = tuple[Any, int, int | None]  # global parameters, number, warm start

DATA_SHARE = 0.3  # of the memory that a process may use; local states need the rest


class PartitionMemoryError(ComputeError):
    """A partition does not fit into a worker's memory; one sentence for the user."""


class DamagedCheckpoint(Exception):
    """A checkpoint is incomplete or changed; the one before may do."""


class Answer(NamedTuple):
    """What a holder returns, or the error that its own work raised."""

    value: Any
    error: Exception | None


class Holder:
    """Some partitions of a job: their data, and their last two local states.

    The data take at most `memory` bytes: as a sweep reads partitions in a circle, a fixed set of
    them stays in memory, and the others are read when their turn comes. So many threads work on
    partitions at once. `limit` is the memory of the process. ``doing`` is what it was called for
    last, ``done`` counts the partitions of it, of ``size``; ``reads`` those that were read.
    """

    def __init__(
        self, job: Job, threads: int = 1, memory: int | None = None, limit: int | None = None
    ) -> None:
        self.job, self.limit = job, limit or available_memory()
        self.memory = int(self.limit * DATA_SHARE) if memory is None else memory
        self.doing, self.done = "", 0
        self.size = self.reads = self.held = 0
        self._digests: dict[int, str] = {}  # of the partitions, by id
        self._parts: dict[int, tuple[Any, str]] = {}  # those in memory: data, digest
        self._locals: dict[int, dict[int, Any]] = {}  # by partition and sweep
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, "vbflows") if threads > 1 else None
        self._q: Any = None  # of the last `map`

    def call(self, doing: str, method: str, *args: Any) -> Answer:
        """Call a method; what it raises comes with the answer."""
        value, error = None, None
        if doing != self.doing:
            self.doing, self.done = doing, 0
        try:
            with one_thread():
                value = getattr(self, method)(*args)
        except Exception as raised:
            error = raised
            try:
                copy.deepcopy(raised)
            except Exception:  # it cannot be sent
                error = RuntimeError(f"{type(raised).__name__}: {raised}")
        return Answer(value, error)

    def take(
        self,
        digests: Mapping[int, str | None],
        number: int | None,
        local_digests: Mapping[int, str],
        sweeps: Sequence[Sweep],
    ) -> None:
        """Hold these partitions: read their local states of a checkpoint, run the sweeps since.

        ``digests`` says what the data must be where that is known, ``local_digests``
        the local states of sweep ``number`` in its checkpoint.
        """
        self._digests = {i: digest for i, digest in digests.items() if digest is not None}
        self._locals, self.size = {i: {} for i in sorted(digests)}, len(digests)
        for i in self._parts.keys() - digests.keys():
            self.held -= self._parts.pop(i)[0].nbytes
        steps = [(aligned(q), *rest) for q, *rest in sweeps]

        def restore(i: int) -> None:
            if number is not None and local_digests.get(i):
                self._locals[i] = {number: self._read_local(i, number, local_digests[i])}
            for q, sweep, warm in steps:
                self._step(q, sweep, warm, i, sums=False)

        list(self._each(self._locals, restore))

    def observe(self) -> dict[Subtree, Any]:
        """Return the sums of the statistics that are needed before the first sweep."""

        def observe(i: int) -> Any:
            with self._working_on(i):
                return self.job.model.observe(self._batch(i))

        return {tree: tree_sum(self._each(ids, observe)) for tree, ids in self._subtrees()}

    def digests(self) -> dict[int, str]:
        """Return the digest of every partition's data."""

        def read(i: int) -> None:
            with self._working_on(i):
                self._batch(i)

        list(self._each([i for i in self._locals if i not in self._digests], read))
        return self._digests

    def sweep(self, q: Any, number: int, warm: int | None) -> tuple[dict[Subtree, Any], bool]:
        """Run local steps; return the sums of statistics, and whether there are local states."""
        local_step, sums = partial(self._step, aligned(q), number, warm), {}
        for tree, ids in self._subtrees():
            sums[tree] = tree_sum(self._each(ids, local_step))
        return sums, any(states[number] is not None for states in self._locals.values())

    def keep(self, number: int) -> dict[int, str]:
        """Write the local states of a sweep into its checkpoint; return their digests."""
        digests: dict[int, str] = {}

        def write(i: int) -> None:
            with self._working_on(i):
                if (local := self._local(i, number)) is not None:
                    content, url = to_bytes(local), local_url(self.job.store, number, i)
                    # A local state that a loss of power takes is missed by its digest.
                    storage.write_bytes(url, content, durable=False)
                    digests[i] = digest_of(content)

        list(self._each(self._locals, write))
        return digests

    def map(
        self, function: Callable[..., Any], q: Any, number: int | None, ids: Sequence[int]
    ) -> dict[int, Any]:
        """Return ``function(model, q, batch, local, index)``; without q, with the one before."""
        q = self._q = self._q if q is None else aligned(q)

        def call(i: int) -> Any:
            with self._working_on(i):
                local = None if number is None else self._local(i, number, q)
                return function(self.job.model, q, self._batch(i), local, i)

        return dict(zip(ids, self._each(ids, call), strict=True))

    def close(self) -> None:
        """End the threads; what has begun ends first."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _step(self, q: Any, number: int, warm: int | None, i: int, sums: bool = True) -> Any:
        """Run a local step of a partition; return its statistics."""
        with self._working_on(i):
            model, batch = self.job.model, self._batch(i)
            before = None if warm is None else self._local(i, warm, q)
            local = model.local_step(q, batch, before)
            local = None if local is None else aligned(local)
            self._locals[i] = {**({} if warm is None else {warm: before}), number: local}
            return model.suff_stats(q, batch, local) if sums else None

    def _local(self, i: int, number: int, q: Any = None) -> Any:
        states = self._locals[i]
        if number not in states and q is not None and isinstance(self.job.model, Rebuilding):
            model: Any = self.job.model
            self._locals[i] = states = {number: aligned(model.local_step(q, self._batch(i), None))}
        if number not in states and states:
            raise LookupError(f"partition {i} has no local state of sweep {number}")
        return states.get(number)  # none where the model carries nothing from sweep to sweep

    def _read_local(self, i: int, number: int, digest: str) -> State:
        """Read a local state of a checkpoint."""
        url = local_url(self.job.store, number, i)
        try:
            content = storage.read_bytes(url)
            if digest_of(content) != digest:
                raise DamagedCheckpoint(f"{url} is not what was written")
            return aligned(state_of(content, State, url))
        except (storage.DamagedError, storage.MissingError) as error:
            raise DamagedCheckpoint(str(error)) from error

    def _batch(self, i: int) -> Any:
        """Return a partition's data, from memory or from where they are stored."""
        url, part = self.job.partitions[i], self._parts.get(i)
        if part is None:
            content = storage.read_bytes(url)
            part = aligned(state_of(content, self.job.batch, url)), digest_of(content)
            size = part[0].nbytes
            with self._lock:
                self.reads += 1
                if self.held + size <= self.memory:
                    self._parts[i] = part
                    self.held += size
        batch, digest = part
        if self._digests.setdefault(i, digest) != digest:
            raise RunError(
                f"partition {i} ({url}) changed during the fit; leave a run's files alone, and "
                "fit again"
            )
        return batch

    def _subtrees(self) -> Iterator[tuple[Subtree, range]]:
        """Return the subtrees that are held whole, each with its partitions."""
        for low, high in cover(list(self._locals), 0, len(self.job.partitions)):
            yield (low, high), range(low, high)

    def _each(self, ids: Iterable[int], function: Callable[[int], Any]) -> Iterator[Any]:
        """Work on partitions, one after the other or in threads; results are in their order."""
        return map(function, ids) if self._pool is None else self._pool.map(function, ids)

    @contextmanager
    def _working_on(self, i: int) -> Iterator[None]:
        """Count a partition's work; name the partition in an error."""
        where = f"partition {i} ({self.job.partitions[i]})"
        try:
            yield
            self.done += 1
        except MemoryError as error:
            raise PartitionMemoryError(
                f"{where} does not fit into the memory of a worker (limit "
                f"{self.limit / 2**20:.0f} MB); {MEMORY_ADVICE}"
            ) from error
        except np.linalg.LinAlgError as error:
            error.add_note(f"in {where}")
            raise


def available_memory() -> int:
    """Return the bytes that this process may use: the machine's, or its container's limit."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            total = min(total, int(file.read()))
    return total
