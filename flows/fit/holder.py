"""What one worker does of a fit: it holds partitions with their local states, and sums over them.

A holder knows no cluster: this process calls it directly, on Dask it is an actor. What it answers
is a function of the job and of what it was given, so that any other holder of the same partitions
answers with the same bits.
"""

from __future__ import annotations

import contextvars
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from weakref import WeakValueDictionary, finalize

import numpy as np
import psutil

from flows.data import storage
from flows.data.states import read_state, state_of
from flows.faults import ComputeError, RunError
from flows.fit.job import Job, digest_of, local_url, one_thread
from flows.fit.tree import Subtree, cover
from vbmodels.core.in_process import tree_sum
from vbmodels.core.protocol import Rebuilding
from vbmodels.core.state import State, aligned, nbytes, to_bytes

# A sweep, or a part of one: global parameters, number, warm start, group, groups.
Sweep = tuple[Any, int, int | None, int, int]

LINES = 100  # most log lines that come with one answer
_lines = contextvars.ContextVar[list[tuple[int, str]] | None]("lines", default=None)


class PartitionMemoryError(ComputeError):
    """A partition does not fit into a worker's memory; one sentence for the user."""


class DamagedCheckpoint(Exception):
    """A checkpoint is incomplete or changed; the one before may do."""


@dataclass(frozen=True)
class Answer:
    """What a holder returns, or the error that its own work raised."""

    value: Any
    error: Exception | None
    lines: tuple[tuple[int, str], ...]  # of the log: level, text
    done: int  # see `Holder`


class Part:
    """A partition's data; an attempt's holders that follow one another in a process share them."""

    known: ClassVar[WeakValueDictionary[str, Part]] = WeakValueDictionary()

    def __init__(self, url: str, kind: type[State]) -> None:
        content = storage.read_bytes(url)
        self.batch, self.digest = aligned(state_of(content, kind, url)), digest_of(content)
        self.size = nbytes(self.batch)


class Holder:
    """Some partitions of a job: their data, and their last two local states.

    They take at most `memory` bytes, by default half of what this process may use. As a sweep
    reads partitions in a circle, a fixed set of data stays in memory and the others are read when
    their turn comes. Local states come first: they push data out, and are written to a folder
    when they alone are too large. So many threads work on partitions at once.

    ``done`` counts the partitions worked on, which shows that this is not stuck; ``reads``,
    ``spilled`` and ``peak`` partitions read, local states written, and most bytes held.
    """

    def __init__(
        self, job: Job, threads: int = 1, memory: int | None = None, limit: int | None = None,
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.job, self.limit, self.attempt = job, limit or available_memory(), ""
        self.memory = self.limit // 2 if memory is None else memory
        self.done = self.reads = self.spilled = self.peak = 0
        self._folder, self._held = folder, 0
        self._digests: dict[int, str] = {}  # of the partitions, by id
        self._parts: dict[int, Part] = {}  # those in memory
        self._locals: dict[int, dict[int, Any]] = {}  # by partition and sweep; a str is a file
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, "vbflows") if threads > 1 else None
        self._q: Any = None  # of the last `map`

    def call(self, method: str, *args: Any) -> Answer:
        """Call a method; what it raises and logs comes with the answer."""
        lines: list[tuple[int, str]] = []
        token = _lines.set(lines)
        try:
            with one_thread():
                value, error = getattr(self, method)(*args), None
        except Exception as raised:
            value, error = None, raised
        finally:
            _lines.reset(token)
        return Answer(value, error, tuple(lines), self.done)

    def take(
        self, digests: Mapping[int, str | None], number: int | None, kept: Mapping[int, str],
        sweeps: Sequence[Sweep],
    ) -> None:  # fmt: skip
        """Take partitions over: read their local states of a checkpoint, run the sweeps since.

        ``digests`` says what the data must be where that is known, ``kept`` the local states of
        sweep ``number`` in its checkpoint.
        """
        for states in self._locals.values():
            for state in states.values():
                self._forget(state)
        self._digests = {i: digest for i, digest in digests.items() if digest is not None}
        self._locals = {i: {} for i in sorted(digests)}

        def restore(i: int) -> None:
            with self._blamed(i):
                if number is not None and kept.get(i):
                    self._put(i, number, self._kept(i, number, kept[i]))
                if known := Part.known.get(self._key(i)):
                    self._keep_part(i, known)
                for q, at, warm, group, groups in sweeps:
                    if i % groups == group:
                        self._step(aligned(q), i, at, warm)
                        self.done += 1

        list(self._each(self._locals, restore))

    def observe(self) -> dict[Subtree, Any]:
        """Return the sums of the statistics that are needed before the first sweep."""

        def one(i: int) -> Any:
            with self._blamed(i):
                return self.job.model.observe(self._batch(i))

        return self._sums(0, 1, one)

    def digests(self) -> dict[int, str]:
        """Return the digest of every partition's data."""

        def read(i: int) -> None:
            with self._blamed(i):
                self._batch(i)

        list(self._each([i for i in self._locals if i not in self._digests], read))
        return self._digests

    def sweep(
        self, q: Any, number: int, warm: int | None, group: int, groups: int
    ) -> tuple[dict[Subtree, Any], bool]:
        """Run local steps; return the sums of statistics, and whether there are local states."""
        sums = self._sums(group, groups, partial(self._swept, aligned(q), number, warm))
        return sums, any(self._locals[i][number] is not None for i in self._ids(group, groups))

    def keep(self, number: int) -> dict[int, str]:
        """Write the local states of a sweep into its checkpoint; return their digests."""
        digests: dict[int, str] = {}

        def write(i: int) -> None:
            with self._blamed(i):
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

        def one(i: int) -> Any:
            with self._blamed(i):
                local = None if number is None else self._local(i, number, q)
                return function(self.job.model, q, self._batch(i), local, i)

        return dict(zip(ids, self._each(ids, one), strict=True))

    def _kept(self, i: int, number: int, digest: str) -> State:
        """Read a local state of a checkpoint."""
        url = local_url(self.job.store, number, i)
        try:
            content = storage.read_bytes(url)
            if digest_of(content) != digest:
                raise DamagedCheckpoint(f"{url} is not what was written")
            return aligned(state_of(content, State, url))
        except (storage.DamagedError, storage.MissingError) as error:
            raise DamagedCheckpoint(str(error)) from error

    def close(self) -> None:
        """End the threads; what has begun ends first."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _swept(self, q: Any, number: int, warm: int | None, i: int) -> Any:
        with self._blamed(i):
            local = self._step(q, i, number, warm)
            return self.job.model.suff_stats(q, self._batch(i), local)

    def _ids(self, group: int, groups: int) -> list[int]:
        return [i for i in self._locals if i % groups == group]

    def _sums(self, group: int, groups: int, one: Callable[[int], Any]) -> dict[Subtree, Any]:
        held = [i // groups for i in self._ids(group, groups)]
        size = len(range(group, len(self.job.partitions), groups))
        sums = {}
        for low, high in cover(held, 0, size):
            ids = range(group + low * groups, group + high * groups, groups)
            sums[low, high] = tree_sum(self._each(ids, one))
        return sums

    def _each(self, ids: Iterable[int], one: Callable[[int], Any]) -> Iterator[Any]:
        """Work on partitions, one after the other or in threads; results are in their order."""
        if self._pool is None:
            return map(one, ids)
        context = contextvars.copy_context()  # for the log lines of the threads
        return self._pool.map(lambda i: context.copy().run(one, i), ids)

    def _step(self, q: Any, i: int, number: int, warm: int | None) -> Any:
        before = None if warm is None else self._local(i, warm, q)
        local = self.job.model.local_step(q, self._batch(i), before)
        local = None if local is None else aligned(local)
        self._put(i, number, local, keep=warm)
        return local

    def _local(self, i: int, number: int, q: Any = None) -> Any:
        states = self._locals[i]
        if number in states:
            found = states[number]
            return aligned(read_state(found, State)) if isinstance(found, str) else found
        if q is not None and isinstance(self.job.model, Rebuilding):
            model: Any = self.job.model
            self._put(i, number, aligned(model.local_step(q, self._batch(i), None)))
            return self._local(i, number)
        if states:
            raise LookupError(f"partition {i} has no local state of sweep {number}")
        return None  # the model carries nothing from sweep to sweep

    def _put(self, i: int, number: int, local: Any, keep: int | None = None) -> None:
        """Keep a local state, and of the earlier ones only that of sweep `keep`."""
        size = 0 if local is None else nbytes(local)
        with self._lock:
            states = self._locals[i]
            for old in [n for n in states if n != keep or n == number]:
                self._forget(states.pop(old))
            while self._held + size > self.memory and self._parts:
                self._hold(-self._parts.popitem()[1].size)
            if size and self._held + size > self.memory:
                local = self._spill(i, number, local)
            else:
                self._hold(size)
            states[number] = local

    def _spill(self, i: int, number: int, local: State) -> str:
        if not self.spilled:
            self._folder = tempfile.mkdtemp(prefix="vbflows-", dir=self._folder)
            finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.spilled += 1
        path = f"{self._folder}/local-{i}-{number}.npz"
        storage.write_bytes(path, to_bytes(local), durable=False)
        return path

    def _forget(self, local: Any) -> None:
        if isinstance(local, str):
            os.remove(local)
        elif local is not None:
            self._hold(-nbytes(local))

    def _hold(self, size: int) -> None:
        self._held += size
        self.peak = max(self.peak, self._held)

    def _batch(self, i: int) -> Any:
        found = self._parts.get(i)
        if found is None:
            found = Part(self.job.partitions[i], self.job.batch)
            self.reads += 1
            self._keep_part(i, found)
        return found.batch

    def _keep_part(self, i: int, part: Part) -> None:
        """Keep a partition's data if there is room for them."""
        if self._digests.setdefault(i, part.digest) != part.digest:
            raise RunError(
                f"partition {i} ({self.job.partitions[i]}) changed during the fit; leave a run's "
                "files alone while it goes, and fit again"
            )
        with self._lock:
            if i not in self._parts and self._held + part.size <= self.memory:
                self._parts[i] = part
                self._hold(part.size)
                if self.attempt:
                    Part.known[self._key(i)] = part

    def _key(self, i: int) -> str:
        return f"{self.attempt} {i}"

    @contextmanager
    def _blamed(self, i: int) -> Iterator[None]:
        """Work on a partition; say of an error that it came from it."""
        where = f"partition {i} ({self.job.partitions[i]})"
        try:
            yield
            self.done += 1
        except MemoryError as error:
            raise PartitionMemoryError(
                f"{where} does not fit into the memory of a worker (limit "
                f"{self.limit / 2**20:.0f} MB); use more partitions or give workers more memory"
            ) from error
        except np.linalg.LinAlgError as error:
            error.add_note(f"in {where}")
            raise


class _Collector(logging.Handler):
    """Keeps what is logged while a holder answers."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = _lines.get()
        if lines is not None and len(lines) < LINES:
            lines.append((record.levelno, record.getMessage()))


def collect_lines() -> None:
    """Let log records and warnings of this process come with the answers of its holders."""
    logging.captureWarnings(True)
    for logger in map(logging.getLogger, ("flows", "vbmodels", "py.warnings")):
        if not any(isinstance(handler, _Collector) for handler in logger.handlers):
            logger.addHandler(_Collector(logging.INFO))
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)


def available_memory() -> int:
    """Return the bytes that this process may use: the machine's, or its container's limit."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            total = min(total, int(file.read()))
    return total
