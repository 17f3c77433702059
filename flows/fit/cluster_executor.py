"""The executor on a Dask cluster, whose workers may be lost: it rolls back and goes on.

Each worker has one holder, one of Dask's actors. A request goes to all of them, and the sweeps
since the last checkpoint are logged. After a worker dies, stops, hangs or cannot be reached,
`ClusterExecutor._with_recovery` drops its holder; the other workers' holders take its partitions
and the checkpoint's local states and run the local steps of the log, and the request is repeated.
A sweep is a function of its request, so the bits are the same.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple
from weakref import WeakSet, finalize

from distributed import KilledWorker, get_worker, secede

from flows import storage
from flows.faults import MEMORY_ADVICE
from flows.fit.executor import Executor, OnProgress
from flows.fit.holder import Answer, Holder, PartitionMemoryError, Sweep
from flows.fit.job import ClusterError, ClusterLost, Job
from flows.fit.tree import place
from vbmodels.core.algorithm import Rebuilding

log = logging.getLogger(__name__)

POLL = 0.5  # seconds between two looks at who is there
NO_WORKERS = 120.0  # seconds without any worker until a run gives up
START = 120.0  # seconds in which a worker makes a holder
REACH = 5.0  # seconds in which a worker answers a message
SILENCE = 30.0  # seconds without a heartbeat until a worker counts as lost, or so few
SHORTEST = 10.0  # where calls are so short that no kernel holds Python's lock for longer;
# doubled with each failure of a request, for a kernel that does
UNKNOWN, LEAST, TIMES = 600.0, 60.0, 10.0  # seconds in which a holder finishes a partition or its
# answer: at first; then max(LEAST, TIMES x the longest answer); doubled with each that is late
FAILURES, BLAME = 8, 3  # in a row of one request: until it gives up, until partitions are tried
HEAVY = 64 * 2**20  # bytes of logged global parameters from which on a checkpoint is due
LONG = 10  # sweeps that are logged whatever their bytes
_OF_ITS_OWN = (PartitionMemoryError, storage.StorageError)  # what a worker may meet and no other
PIECES = 64  # calls in which a worker applies a function to its partitions


SHOWN = {"keep": "checkpoint", "map": "score"}  # methods of a holder by other names than theirs


class Worker(NamedTuple):
    """A worker whose heart beats."""

    threads: int
    memory: int  # bytes that it may use; 0 where nothing limits it
    paused: bool = False  # whether it takes no new work, for lack of memory
    progress: Any = None  # how far its holders are: not stuck where that changes


class Lost(Exception):
    """An answer will not come; `died` where the worker is gone that worked on it."""

    def __init__(self, why: str, workers: set[str], died: bool, error: Any = None) -> None:
        super().__init__(why, workers, died, error)  # all, so that a copy can be made
        self.why, self.workers, self.died, self.error = why, workers, died, error


class Hosted(Holder):
    """A holder on a worker of Dask, whose heartbeats say how far it is."""

    def __init__(self, job: Job, threads: int, token: str) -> None:
        worker = get_worker()
        super().__init__(job, threads, limit=worker.memory_manager.memory_limit)
        self.token, self.address, self.dropped = token, worker.address, threading.Event()
        finalize(self, self.dropped.set)
        HOSTED.add(self)
        worker.metrics.update(METRICS)


HOSTED: WeakSet[Hosted] = WeakSet()


def _here(worker: Any) -> list[Hosted]:
    return [holder for holder in list(HOSTED) if holder.address == worker.address]


METRICS: dict[str, Callable[[Any], Any]] = {
    "vbflows": lambda worker: "; ".join(holder.doing for holder in _here(worker)),
    "vbflows done": lambda worker: sum(holder.done for holder in _here(worker)),
    "vbflows partitions": lambda worker: sum(holder.size for holder in _here(worker)),
}
"""What heartbeats say of a worker's holders: columns of Dask's page Workers, read here, too."""


def make_holder(job: Job, threads: int, token: str, _imported: object) -> Holder:
    """Return a holder, in a worker of Dask."""
    _keep_freed_memory()
    return Hosted(job, threads, token)


def stay(token: str) -> None:
    """Be a task as long as this worker has a holder, and take no thread that others may use.

    Actors do not count as work: a cluster that adapts would end their worker as idle, and a
    scheduler with an idle timeout itself.
    """
    worker = get_worker()
    secede()
    while ends := [holder.dropped for holder in _here(worker) if holder.token == token]:
        ends[0].wait()


@cache
def _keep_freed_memory() -> None:
    """Let the memory of one temporary array serve the next: sweeps of 1 MB take half the CPU.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_, which ends glibc's own adjustment of the size
    from which arrays are mapped one by one (mallopt(3)): each then costs its page faults.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest that there is
        libc.mallopt(-1, 2**26)  # M_TRIM_THRESHOLD


class ClusterExecutor(Executor):
    """See the module; tests replace the calls to Dask, from `workers` to `drop`."""

    def __init__(self, job: Job, cluster: Any) -> None:
        super().__init__(job)
        self.cluster, self.name = cluster, cluster.name
        self.local = cluster.local is not None  # its workers are started here
        self.placed: dict[str, list[int]] = {}  # partitions by worker
        self.rolled = 0  # times that it went back
        self._token = uuid.uuid4().hex  # of its holders
        self._ready = False
        self._workers: dict[str, Worker] = {}
        self._holders: dict[str, Any] = {}  # Dask's futures of holders, by worker
        self._actors: dict[str, Any] = {}  # the holders that are ready,
        self._tasks: dict[str, Any] = {}  # and the tasks that keep their workers
        self._number: int | None = None  # sweep of the checkpoint where a roll back begins,
        self._local_digests: Sequence[str] = ()  # digests of its local states,
        self._log: list[Sweep] = []  # and the sweeps since
        self._digests: dict[int, str] = {}
        self._request: tuple[str, tuple[Any, ...]] | None = None
        self._suspects: set[int] = set()  # partitions of every worker that died of a request
        self._longest: dict[str, float] = {}  # seconds of an answer, by method
        self._failures = self._doubled = 0  # of a request; and of those, late answers
        self._avoided: dict[str, float] = {}  # workers, until some time

    @property
    def heavy(self) -> bool:  # type: ignore[override]
        """Whether so much is logged since the last checkpoint that another is due."""
        return sum(q.nbytes for q, *_ in self._log) > HEAVY

    def restore(self, number: int | None, local_digests: Sequence[str]) -> None:
        """Take the local states of a checkpoint."""
        self._number, self._local_digests, self._log = number, local_digests, []
        self._ready, self._request = False, None
        self._with_recovery(lambda: None)

    def digests(self) -> list[str]:
        """Return the digest of every partition's data, which must not change from here on."""
        digests = super().digests()
        self._digests = dict(enumerate(digests))
        return digests

    def keep(self, number: int) -> list[str]:
        """Write the local states of a sweep; from here on workers that have come are used."""
        local_digests = super().keep(number)
        self._number, self._local_digests, self._log = number, local_digests, []
        self._ready = self._ready and self._able().keys() == self._workers.keys()
        return local_digests

    def map(
        self,
        function: Callable[..., Any],
        q: Any,
        number: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Call a function on each partition, in pieces that are not repeated."""
        results: dict[int, Any] = {}
        self._request = "map", (function, q, number)

        def take(value: dict[int, Any]) -> None:
            results.update(value)
            if on_progress is not None:
                on_progress(len(results), self.partitions)

        def rest() -> None:
            turns = {}
            for address, ids in self.placed.items():
                size = max(self._workers[address].threads, -(-len(ids) // PIECES))
                left = [i for i in ids if i not in results]
                turns[address] = [  # the global parameters go with the first piece
                    (function, None if a else q, number, left[a : a + size])
                    for a in range(0, len(left), size)
                ]
            self._make_calls("map", turns, take)

        self._with_recovery(rest)
        return [results[i] for i in range(self.partitions)]

    def _sweep(self, sweep: Sweep) -> list[Any]:
        _, _, warm = sweep
        if warm is None:
            self._log = []  # of a cold start, to which nothing before it matters
        long = len(self._log) > LONG and self.heavy
        if long and warm is not None:
            self.keep(warm)  # of a loop that shows no steps, or of a fit without checkpoints
        answers = self._call_all("sweep", *sweep)
        carries = any(carries for _, carries in answers) or self._log or self._local_digests
        if carries and not isinstance(self.job.model, Rebuilding):
            self._log.append(sweep)
        return [sums for sums, _ in answers]

    def _call_all(self, method: str, *args: Any) -> list[Any]:
        self._request = method, args

        def request() -> list[Any]:
            values: list[Any] = []
            self._make_calls(method, {address: [args] for address in self.placed}, values.append)
            return values

        return self._with_recovery(request)

    def _with_recovery(self, request: Callable[[], Any]) -> Any:
        """Answer a request, whatever happens to workers meanwhile."""
        self._failures, self._doubled, self._suspects = 0, 0, set()
        self.cluster.connect_again()
        while True:
            try:
                if not self._ready:
                    self._workers = self._await_workers()
                    homes = {i: address for address, ids in self.placed.items() for i in ids}
                    threads = {address: w.threads for address, w in self._workers.items()}
                    self.placed = place(self.partitions, threads, homes)
                    self._make(self.placed)
                    self._ready = True
                return request()
            except Lost as lost:
                failures = self._failures = self._failures + 1
                self.rolled, self._ready = self.rolled + 1, False
                self.drop(lost.workers)
                log.warning(f"{lost.why}; going back to sweep {self._number or 0}")
                if failures == FAILURES or (lost.error and failures == BLAME):
                    raise lost.error or ClusterLost(
                        f"{self.name} failed {failures} times in a row, at last because "
                        f"{lost.why}; {FEWER if self.local else LOGS}"
                    ) from lost
                until = time.monotonic() + 60.0 * failures
                self._avoided.update(dict.fromkeys(lost.workers, until))
                if lost.died:
                    partitions = {i for a in lost.workers for i in self.placed.get(a, ())}
                    self._suspects = (self._suspects & partitions) or partitions
                if failures == BLAME:
                    self._find_deadly()

    def _find_deadly(self) -> None:
        """Try each partition alone, of those that were with every worker that died at work."""
        method, args = self._request or ("digests", ())
        for i in sorted(self._suspects):
            deaths = 0
            for _ in range(FAILURES):
                self._workers = self._await_workers()
                address, worker = next(iter(self._workers.items()))
                try:
                    self._make({address: [i]})
                    call_args = (*args, [i]) if method == "map" else args
                    self._make_calls(method, {address: [call_args]}, lambda value: None)
                    break
                except Lost as lost:
                    self.drop(lost.workers)
                    deaths += lost.died
                    limit = f"{worker.memory / 2**20:.0f} MB" if worker.memory else "none"
                    if deaths == BLAME:
                        raise ClusterError(
                            f"workers die on partition {i} ({self.job.partitions[i]}), most "
                            f"likely out of memory (limit of a worker: {limit}); {MEMORY_ADVICE}"
                        ) from lost

    def _able(self) -> dict[str, Worker]:
        running, now = self.workers(SILENCE), time.monotonic()
        running = {a: w for a, w in running.items() if not w.paused}
        return {a: w for a, w in running.items() if self._avoided.get(a, 0.0) < now} or running

    def _await_workers(self) -> dict[str, Worker]:
        deadline, work = time.monotonic() + NO_WORKERS, None
        while not (workers := self._able()):
            work = work or self.cluster.submit("awake", int)  # so that a cluster starts one
            if time.monotonic() > deadline:
                raise no_workers(self.name, self.local)
            time.sleep(POLL)
        return workers

    def _make(self, placed: Mapping[str, list[int]]) -> None:
        """Make holders, and bring them to now."""
        self.open({address: self._workers[address] for address in placed})
        by_partition, turns = dict(enumerate(self._local_digests)), {}
        for address, ids in placed.items():
            digests = {i: self._digests.get(i) for i in ids}
            local_digests = {i: by_partition[i] for i in ids if i in by_partition}
            turns[address] = [(digests, self._number, local_digests, self._log)]
        self._make_calls("take", turns, lambda value: None)

    def _make_calls(
        self,
        method: str,
        turns: Mapping[str, Sequence[tuple[Any, ...]]],
        take: Callable[[Any], None],
    ) -> None:
        """Call holders with each one's arguments in turn; raise `Lost` once one will not answer."""
        left = {address: list(reversed(calls)) for address, calls in turns.items()}
        open_: dict[Future[Answer], str] = {}
        begun: dict[str, float] = {}
        moved: dict[str, tuple[float, Any]] = {}  # since when it is where
        free, looked = list(left), time.monotonic()
        while free or open_:
            now = time.monotonic()
            calls = {address: left[address].pop() for address in free if left[address]}
            for address, future in self.call(method, calls).items():
                open_[future] = address
                begun[address], moved[address] = now, (now, None)
            ended = wait(open_, timeout=POLL, return_when=FIRST_COMPLETED).done
            free = [open_.pop(future) for future in ended]
            now = time.monotonic()
            for address, future in zip(free, ended, strict=True):
                value = self._value(address, future)
                self._longest[method] = max(self._longest.get(method, 0), now - begun[address])
                take(value)
            if open_ and now - looked > POLL:
                looked = now
                self._look_after(method, set(open_.values()), moved)

    def _look_after(self, method: str, busy: set[str], moved: dict[str, tuple[float, Any]]) -> None:
        """Raise `Lost` where a worker is gone or silent, or finishes no partition in time."""
        longest, now = self._longest.get(method), time.monotonic()
        silence = SILENCE if longest is None else min(SILENCE, max(SHORTEST, 3 * longest))
        here = self.workers(silence * 2**self._failures)
        if gone := busy - here.keys():
            raise Lost(f"{', '.join(sorted(gone))} went away or is silent", gone, died=True)
        limit = UNKNOWN if longest is None else max(LEAST, TIMES * longest)
        limit *= 2**self._doubled
        for address in busy:
            since, before = moved[address]
            if here[address].progress != before:
                moved[address] = now, here[address].progress
            elif now - since > limit:
                self._doubled += 1
                self.restart(address)
                raise Lost(
                    f"{address} did not {method} a partition in {limit:.0f} s",
                    {address},
                    died=False,
                )

    def _value(self, address: str, future: Future[Answer]) -> Any:
        """Return what a holder answered; raise what its own work raised."""
        if (error := future.exception()) is not None:
            raise Lost(f"{address} did not answer: {error!r}", {address}, died=True) from error
        answer = future.result()
        if answer.error is None:
            return answer.value
        error = error_of(address, answer.error)
        if isinstance(error, storage.TransientStorageError):
            raise Lost(str(error), set(), False, error)
        raise error

    def close(self) -> None:
        """Drop all holders; the cluster stays."""
        self._ready = False
        self.drop(list(self._holders))

    def workers(self, silence: float) -> dict[str, Worker]:
        """Return the workers whose heart beat within so many seconds, by address."""
        return self.cluster.workers(silence)

    def open(self, workers: Mapping[str, Worker]) -> None:
        """Make a holder on each of these workers that has none."""
        alive = ("pending", "finished")
        self.drop([a for a, future in self._holders.items() if future.status not in alive])
        for address in workers.keys() - self._holders.keys():
            threads = workers[address].threads
            self._holders[address] = self.cluster.make(
                address, make_holder, self.job, threads, self._token
            )
        deadline = time.monotonic() + START
        while open_ := {a for a in workers if self._holders[a].status == "pending"}:
            gone = open_ - self.cluster.workers(START).keys()  # one that imports may be silent
            if gone or time.monotonic() > deadline:
                lost = gone or open_
                raise Lost(f"{', '.join(sorted(lost))} took no holder", lost, died=False)
            time.sleep(POLL / 20)
        for address in workers.keys() - self._actors.keys():
            self._actors[address] = self._actor(address)
            self.cluster.compare(address)
            self._tasks[address] = self.cluster.submit("fit", stay, self._token, workers=[address])
        self.cluster.client.direct_to_workers = self.cluster.sync(partial(self._reachable, workers))

    def _actor(self, address: str) -> Any:
        try:
            with self.cluster.client.as_current():
                return self._holders[address].result(timeout=REACH)
        except (OSError, TimeoutError, RuntimeError, KilledWorker) as error:
            raise Lost(f"{address} took no holder: {error!r}", {address}, False) from error
        except Exception as error:
            if isinstance(error, ClusterError):
                raise
            raise ClusterError(f"worker {address} cannot fit: {error!r}") from error

    async def _reachable(self, workers: Iterable[str]) -> bool:
        """Whether this process can reach the workers itself; else the scheduler passes on."""
        calls = [asyncio.wait_for(self.cluster.client.rpc(a).identity(), REACH) for a in workers]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return not any(isinstance(answer, BaseException) for answer in answers)

    def call(self, method: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Future[Answer]]:
        """Call a method of holders, by address."""
        loop: Any = self.cluster.client.loop

        async def one(address: str) -> Any:
            doing = self._doing(method, args[address])
            return await self._actors[address].call(doing, method, *args[address])

        return {a: asyncio.run_coroutine_threadsafe(one(a), loop.asyncio_loop) for a in args}

    def _doing(self, method: str, args: tuple[Any, ...]) -> str:
        """Say what a call is for, as the dashboard shows it."""
        return (
            f"sweep {args[1] + 1}{self.ahead}" if method == "sweep" else SHOWN.get(method, method)
        )

    def restart(self, address: str) -> None:
        """End a worker that hangs: it has one thread for all its actors."""
        self.cluster.restart([address])

    def drop(self, workers: Iterable[str]) -> None:
        """Forget holders now: actors are in cycles, which wait for Python's collector."""
        dropped = [
            self._holders.pop(address) for address in list(workers) if address in self._holders
        ]
        dropped += [self._tasks.pop(a) for a in self._tasks.keys() - self._holders.keys()]
        self._actors = {a: actor for a, actor in self._actors.items() if a in self._holders}
        with suppress(Exception):  # of a client that has lost its scheduler
            self.cluster.client.cancel(dropped, force=True)


def error_of(address: str, error: Exception) -> Exception:
    """Return what a worker raised as it is raised here: where it is the worker's, by its name."""
    if isinstance(error, storage.DamagedError | storage.ChangedError):
        return error
    message, url = f"worker {address}: {error}", getattr(error, "url", "")
    if isinstance(error, storage.TransientStorageError):
        return storage.TransientStorageError(message)
    with suppress(storage.StorageError), storage.no_retry():
        if isinstance(error, storage.StorageError) and url and storage.exists(url):
            return ClusterError(
                f"worker {address} cannot read {storage.shown(url)}; this process can: mount it "
                "there too, or use a store that all machines reach"
            )
    if isinstance(error, storage.MissingError):
        return storage.MissingError(message, url)
    return ClusterError(message) if isinstance(error, _OF_ITS_OWN) else error


def no_workers(name: str, local: bool) -> ClusterLost:
    """Return the error of a cluster that has had no worker for too long.

    ``local``: its workers are processes that the run starts itself.
    """
    remedy = FEWER if local else "start some and go on with --resume"
    return ClusterLost(f"{name}: no worker for {NO_WORKERS:.0f} s; {remedy}")


FEWER = "go on with --resume and fewer or no --workers: the machine is too busy or short of memory"
"""What helps where workers of this machine die: they have no logs, and nobody else starts them."""
LOGS = "see the workers' logs (memory?) and go on with --resume"
