"""A job on Dask: the only user of Dask.

The cost of a sweep follows the number of tasks, so an evaluation is a few plain tasks,
one to four blocks of partitions a worker, with explicit keys. The job travels inside the
first task that a worker gets and stays in its memory; a worker without it says so and is
asked again. The global parameters are files in the run's store, as arrays with a checksum,
and a task holds their URL: nothing that is read from storage is unpickled.
Blocks prefer the worker that has their data, but any worker can do any block, and a late
one is asked for again elsewhere: the first result wins. Futures are never chained and are
released after each evaluation, so the scheduler's memory stays flat.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import dask
from dask.utils import parse_bytes
from distributed import Client, Future, KilledWorker, LocalCluster, get_worker
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.block import Job, Order, PartitionMemoryError, joined
from flows.executor import Executor, Heard
from flows.handshake import (
    ClusterError,
    check_versions,
    first_line,
    refuse_other_environment,
)
from flows.placement import Placement
from flows.storage import delete, join
from flows.worker import Done, JobUnknown, call_after, environment, work_on

R = TypeVar("R")

log = logging.getLogger(__name__)

CONNECT = 6.0  # seconds until an address counts as wrong, or a lost scheduler as gone
# Of a cluster that is started here. A worker bounds what it holds itself; a pause, which
# Dask would make at 80 % of its memory, has no end when that is all in use.
LOCAL = {
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
}
_CERTIFICATES = (
    "tls_ca_file",
    *(
        f"tls_{side}_{part}"
        for side in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    ),
)
NO_WORKERS = 60.0  # seconds without any worker until a run gives up
POLL = 0.5  # seconds between two looks at what is late
DEATHS = 2  # times that a block may lose all workers until it counts as deadly
MEMORY_SHARE = 0.8  # of the machine's memory, for all local workers
CALL_RETRIES = 2
REMEMBERED = 8  # attempts that ended last
SEND_INTERVAL = 0.001  # seconds between two messages of the client


class Cluster:
    """A connection to a cluster; made by `connect`."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self._seen: dict[str, dict[str, Any]] = {}
        self._looked = float("-inf")
        self._ended: list[str] = []  # attempts whose data no worker needs any more

    def ended(self, attempt: str) -> None:
        """Let workers drop what they hold of an attempt when they next work."""
        self._ended = [*self._ended[1 - REMEMBERED :], attempt]

    def executor(self, job: Job) -> OnDask:
        """Return an executor of a job on this cluster."""
        return OnDask(job, self)

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Run one function on some worker; from several threads, several at once.

        A worker that dies is replaced by another; what the function raises arrives
        unchanged.

        Raises
        ------
        ClusterError
            If the scheduler is gone, or the function kills one worker after the other.
        """
        future = self._submitted(function, args)
        while True:
            try:
                result: R = future.result(timeout=4 * POLL)
            except TimeoutError:
                if future.status == "error":
                    raise
                self.check()
            except CancelledError:
                self.check()
                future = self._submitted(function, args)
            except KilledWorker as error:
                raise ClusterError(
                    f"workers of {self.name} died one after the other while preparing data, "
                    "most likely for lack of memory; use more partitions or give workers more "
                    "memory"
                ) from error
            else:
                return result

    def _submitted(self, function: Callable[..., Any], args: Sequence[Any]) -> Future:
        name = getattr(function, "__name__", "call").strip("_<>")
        return self.client.submit(
            call_after, frozenset(self._ended), function, *args,
            key=f"vbflows-{name}-{uuid.uuid4().hex}", retries=CALL_RETRIES,
        )  # fmt: skip

    def workers(self, fresh: bool = False) -> dict[str, dict[str, Any]]:
        """Return the workers by address, not older than a second."""
        if fresh or time.monotonic() - self._looked > 1.0:
            self.check()
            try:
                found = self.client.scheduler_info(n_workers=-1)["workers"]
            except (OSError, KeyError, TimeoutError) as error:
                raise self.lost() from error
            self._seen = {address: dict(info) for address, info in sorted(found.items())}
            self._looked = time.monotonic()
        return self._seen

    def check(self) -> None:
        """Raise `ClusterError` if the scheduler is gone; wait for it if it may come back."""
        deadline = time.monotonic() + CONNECT
        while self.client.status == "connecting" and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.client.status != "running":
            raise self.lost()

    def lost(self) -> ClusterError:
        """Return the error of a scheduler that is gone."""
        return ClusterError(
            f"the scheduler of {self.name} went away; start a cluster and go on with --resume"
        )


@contextmanager
def connect(
    workers: int | None = None, scheduler: str | None = None, memory_limit: str | None = None
) -> Iterator[Cluster]:
    """Start local worker processes, or connect to a running cluster and check it.

    Parameters
    ----------
    workers
        Number of worker processes to start on this machine.
    scheduler
        ``tcp://host:port`` or ``tls://host:port``; the certificates of TLS come from Dask's
        configuration.
    memory_limit
        Memory of one local worker, such as ``4 GiB``; by default its share of the machine's.

    Raises
    ------
    ClusterError
        If the address is wrong, there are no workers, or their versions or packages differ.
    """
    if (workers is None) == (scheduler is None):
        raise ClusterError("expected either a number of workers or a scheduler's address")
    started = _started(workers, memory_limit) if workers is not None else _running(scheduler)
    with _quiet(), started as client:
        # A sweep waits for its orders to be sent, and a client sends at most once in 10 ms.
        client.scheduler_comm.interval = SEND_INTERVAL
        name = f"{workers} local workers" if workers is not None else f"the cluster at {scheduler}"
        cluster = Cluster(client, name)
        if not cluster.workers(fresh=True):
            raise ClusterError(
                f"{name} has no workers; start some with: dask worker {scheduler or ''}".strip()
            )
        check_versions(cluster)
        yield cluster


@contextmanager
def _started(workers: int, memory_limit: str | None) -> Iterator[Client]:
    if workers < 1:
        raise ClusterError(f"expected at least one worker, got {workers}")
    limit = int(MEMORY_LIMIT * MEMORY_SHARE / workers)
    if memory_limit is not None:
        try:
            limit = parse_bytes(memory_limit)
        except ValueError as error:
            raise ClusterError(
                f"the memory limit {memory_limit!r} is no size; write one such as 4 GiB"
            ) from error
    try:
        cluster = _local(workers, limit)
    except (RuntimeError, OSError, ValueError) as error:
        raise ClusterError(
            f"cannot start {workers} workers on this machine: {first_line(error)}; look at Dask's "
            "configuration (DASK_CONFIG), or fit without --workers"
        ) from error
    try:
        client = _Connecting(cluster, timeout=CONNECT, set_as_default=False)
        try:
            yield client
        finally:
            _close(client)
    finally:
        cluster.close(timeout=10)


def _local(workers: int, limit: int) -> LocalCluster:
    """Start processes that only this machine can reach, whatever is configured for others."""
    with dask.config.set(LOCAL):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tcp://",
            # Named, as what is left out comes from the configuration: certificates of a cluster.
            security=Security(require_encryption=False, **dict.fromkeys(_CERTIFICATES)),
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.WARNING if _debugging() else logging.CRITICAL,
            memory_limit=limit,
        )


@contextmanager
def _running(address: str | None) -> Iterator[Client]:
    if not address or not address.startswith(("tcp://", "tls://")):
        raise ClusterError(
            f"expected a scheduler's address such as tcp://host:8786 or tls://host:8786, "
            f"found {address!r}"
        )
    try:
        client = _connected(address)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"no scheduler answers at {address}; check the address and that the cluster runs"
        ) from error
    except (TypeError, ValueError, RuntimeError) as error:
        if "ssl_context" in str(error):
            raise ClusterError(
                f"{address} needs certificates: name them in Dask's configuration "
                "(distributed.comm.tls.ca-file, .client.cert and .client.key)"
            ) from error
        raise ClusterError(f"cannot connect to {address}: {first_line(error)}") from error
    try:
        yield client
    finally:
        _close(client)


class _Connecting(Client):
    """Dask's client, closed at once if it cannot start.

    One that is left open is closed by the garbage collector, and where that happens while
    another client starts in the same thread, Dask waits for its own lock for ever.
    """

    def start(self, **kwargs: Any) -> None:
        try:
            super().start(**kwargs)
        except BaseException:
            _close(self)
            raise


def _connected(address: str) -> Client:
    """Connect within a time: Dask's own limit does not hold for a port that says nothing."""
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def attempt() -> None:
        try:
            outcome.put(_Connecting(address, timeout=CONNECT, set_as_default=False))
        except BaseException as error:  # carried over to the waiting thread
            outcome.put(error)

    threading.Thread(target=attempt, name="vbflows-connect", daemon=True).start()
    try:
        found = outcome.get(timeout=CONNECT + 2.0)
    except queue.Empty:
        raise TimeoutError(f"{address} says nothing") from None
    if isinstance(found, BaseException):
        raise found
    return found


def _close(client: Client) -> None:
    with suppress(TimeoutError, OSError, RuntimeError):
        client.close(timeout=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own log from the terminal: what matters is raised or logged here."""
    if _debugging():
        yield
        return
    names = ["distributed", *logging.root.manager.loggerDict]
    loggers = [logging.getLogger(n) for n in names if n.split(".")[0] == "distributed"]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")
            yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


def _debugging() -> bool:
    return bool(os.environ.get("VBFLOWS_DEBUG"))


def work(order: Order, job: Job | None) -> Done | JobUnknown:
    """Run one block in a Dask worker; see `flows.worker.work_on`."""
    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    return work_on(job, order, worker.address, limit, worker.local_directory)


def _put(done: queue.SimpleQueue[Any], block: _Asked, future: Future) -> None:
    done.put((block, future))


@dataclass
class _Asked:
    """One block of an evaluation: what was asked for, where, and when."""

    position: int
    order: Order
    tries: int = 0
    since: float = 0.0
    worker: str | None = None
    seen: frozenset[str] = frozenset()  # the workers when it was asked for
    deaths: int = 0  # times that all of those were gone
    futures: list[Future] = field(default_factory=list)


class OnDask(Executor):
    """The executor on a cluster.

    Parameters
    ----------
    job
        The job.
    cluster
        The cluster.
    """

    def __init__(self, job: Job, cluster: Cluster) -> None:
        super().__init__(job)
        self.cluster = cluster
        self._informed: set[str] = set()  # workers that have the job
        self.placement = Placement(cluster.workers)
        self._said_cpu = False
        self._serial = 0
        self._spent: list[_Asked] = []
        self._done: queue.SimpleQueue[tuple[_Asked, Future]] = queue.SimpleQueue()

    def prepare(self) -> None:
        """Make room for the global parameters where workers find them."""
        if self._log is not None:
            return
        delete(join(self.job.store, "work"))
        self._log = join(self.job.store, "work", self.attempt)

    def close(self) -> None:
        """Remove what was stored for the workers; the cluster stays."""
        for block in self._spent:
            self._release(block)
        self._spent = []
        self.cluster.ended(self.attempt)
        super().close()

    def blocks(self) -> list[tuple[int, int]]:
        """Return one to four blocks a worker, the fewest that are best balanced."""
        return self.placement.blocks(len(self.job.partitions))

    def pieces(self) -> list[tuple[int, int]]:
        """Return many small blocks a worker."""
        return self.placement.pieces(len(self.job.partitions))

    def run(self, orders: Sequence[Order], heard: Heard | None = None) -> list[Any]:
        """Submit the orders, ask again for what is late or lost, and collect the results."""
        self._serial += 1
        self._done = queue.SimpleQueue()
        asked = [_Asked(i, order) for i, order in enumerate(orders)]
        results: dict[int, Any] = {}
        rounds = self.placement.rounds(len(orders))
        spent, self._spent = self._spent, asked
        self._submit(asked, self.placement.placed(orders))
        # After the new ones: what the client sends next waits for 10 ms.
        for block in spent:
            self._release(block)
        self._collect(asked, results, rounds, heard)
        return [results[i] for i in range(len(orders))]

    def _collect(
        self, asked: list[_Asked], results: dict[int, Any], rounds: int, heard: Heard | None
    ) -> None:
        looked = time.monotonic()
        while len(results) < len(asked):
            for block, future in self._finished():
                if block.position not in results:
                    self._take(block, future, results)
                    if heard is not None and block.position in results:
                        heard(len(results), len(asked))
            if time.monotonic() - looked > POLL:
                looked = time.monotonic()
                self._await_workers()
                for open_ in [b for b in asked if b.position not in results]:
                    self._look_after(open_, results, rounds)

    def _finished(self) -> list[tuple[_Asked, Future]]:
        """Wait a little for the next block to be finished; return all that are."""
        found = []
        with suppress(queue.Empty):
            found.append(self._done.get(timeout=POLL))
            while True:
                found.append(self._done.get_nowait())
        return found

    def _take(self, block: _Asked, future: Future, results: dict[int, Any]) -> None:
        """Take what a future has become: a result, an error, or nothing (then ask again)."""
        if future.status == "finished":
            try:
                done: Done | JobUnknown = future.result(timeout=60)
            except TimeoutError:
                self._submit([block], [None])
                return
            except CancelledError:
                self._resubmit_after_loss(block)
                return
            if isinstance(done, JobUnknown):
                self._informed.discard(done.worker)
                self._submit([block], [None])
                return
            results[block.position] = self._accept(block, done)
        elif future.status == "error":
            self._raise_or_split(block, future.exception(timeout=60), results)
        elif future in block.futures:
            self._resubmit_after_loss(block)

    def _resubmit_after_loss(self, block: _Asked) -> None:
        self.cluster.check()
        self._submit([block], [None])

    def _raise_or_split(self, block: _Asked, error: Any, results: dict[int, Any]) -> None:
        if isinstance(error, KilledWorker):
            self._split(block, results)
            return
        if isinstance(error, PartitionMemoryError):
            raise ClusterError(str(error)) from error
        raise error

    def _split(self, block: _Asked, results: dict[int, Any]) -> None:
        """Find out which partition of a deadly block it is."""
        order = block.order
        self._release(block)
        if order.stop - order.start == 1:
            raise self._deadly(order)
        results[block.position] = self._one_by_one(order)

    def _one_by_one(self, order: Order) -> Any:
        """Run a deadly block's partitions one at a time: one is found out, or all succeed."""
        log.warning(
            f"workers died on partitions {order.start} to {order.stop - 1}; trying them one by one"
        )
        parts = []
        for index in range(order.start, order.stop):
            parts += self._alone(replace(order, start=index, stop=index + 1))
        return joined(parts)

    def _alone(self, order: Order) -> list[Any]:
        """Run one order while those of the sweep go on."""
        done, spent = self._done, self._spent
        self._spent = []
        try:
            return self.run([order])
        finally:
            for block in self._spent:
                self._release(block)
            self._done, self._spent = done, spent

    def _deadly(self, order: Order) -> ClusterError:
        limits = [int(info.get("memory_limit") or 0) for info in self.cluster.workers().values()]
        limit = f"{max(limits) / 2**20:.0f} MB" if any(limits) else "none"
        return ClusterError(
            f"workers die on partition {order.start} ({self.job.partitions[order.start]}), most "
            f"likely out of memory (limit of a worker: {limit}); use more partitions or give "
            "workers more memory"
        )

    def _accept(self, block: _Asked, done: Done) -> Any:
        """Note where a block was done and how long it took; forward its log lines."""
        self._informed.add(done.worker)
        ours = environment()
        refuse_other_environment(self.cluster, f"worker {done.worker}", ours, done.environment)
        if done.environment["cpu"] != ours["cpu"] and not self._said_cpu:
            self._said_cpu = True
            log.warning(
                f"worker {done.worker} has another type of processor than this process: the last "
                "bits of a result may depend on which worker made it"
            )
        for level, line in done.lines:
            log.log(level, f"{done.worker}: {line}")
        self.placement.done(block.order, done.worker, done.seconds)
        return done.value

    def _submit(self, blocks: Sequence[_Asked], workers: Sequence[str | None]) -> None:
        """Ask for blocks in one message: Dask's client sends at most one each 10 ms."""
        present = frozenset(self.cluster.workers())
        preferred: dict[str, list[str]] = {}
        keys = []
        for block, worker in zip(blocks, workers, strict=True):
            order = block.order
            key = (
                f"vbflows-{order.action.__name__}-{self.attempt}-{self._serial}"
                f"-{order.start}-{order.stop}-{block.tries}"
            )
            block.tries += 1
            block.since, block.worker, block.seen = time.monotonic(), worker, present
            keys.append(key)
            if worker is not None:
                preferred[key] = [worker]
        hints: dict[str, Any] = {"retries": 2}
        if len(preferred) == len(keys):
            hints |= {"workers": preferred.get, "allow_other_workers": True}
        with dask.annotate(**hints):
            futures = self.cluster.client.map(
                work,
                [block.order for block in blocks],
                [None if worker in self._informed else self.job for worker in workers],
                key=keys,
            )
        done = self._done
        for block, future in zip(blocks, futures, strict=True):
            block.futures.append(future)
            future.add_done_callback(partial(_put, done, block))

    def _release(self, block: _Asked) -> None:
        for future in block.futures:
            future.release()
        block.futures.clear()

    def _look_after(self, block: _Asked, results: dict[int, Any], rounds: int) -> None:
        """Ask again for a block that is stranded or late; the first result wins."""
        present = set(self.cluster.workers())
        if present and not block.seen & present:
            # Dask leaves a task that prefers a worker unscheduled for good once there was a
            # moment without workers (state "no-worker"), so it is asked for without.
            block.deaths += 1
            if block.deaths > DEATHS:
                self._split(block, results)
            else:
                self._submit([block], [None])
            return
        waited = time.monotonic() - block.since
        if waited < self.placement.patience(block.order, rounds) * 2 ** (block.tries - 1):
            return
        other = self.placement.instead(block.worker, block.position + block.tries)
        log.warning(
            f"partitions {block.order.start} to {block.order.stop - 1} are late after "
            f"{waited:.1f} s on {block.worker or 'a worker'}; asking for them again"
        )
        self._submit([block], [other])

    def _await_workers(self) -> None:
        """Wait while no worker is there; give up after a time."""
        deadline = time.monotonic() + NO_WORKERS
        while not self.cluster.workers():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{self.cluster.name} has had no workers for {NO_WORKERS:.0f} s; start some "
                    "and go on with --resume"
                )
            time.sleep(1.0)
