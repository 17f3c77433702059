"""Dask: starting workers here or finding a cluster, and the seam to it. Its only user.

What is decided about a cluster is in `flows.engine.calls` and `flows.engine.on_cluster`.
"""

from __future__ import annotations

import logging
import os
import queue
import ssl
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import Client, Future, KilledWorker, LocalCluster, Status, get_worker
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.engine.block import Job, Order
from flows.engine.calls import AWAY, Cluster
from flows.engine.handshake import ClusterError, check_versions, first_line
from flows.engine.seam import (
    Deadly,
    Lost,
    Mailbox,
    Outcome,
    Raised,
    Result,
    Sent,
    Task,
    Unreachable,
)
from flows.engine.worker import Done, JobUnknown, LogNeeded, held, settle, work_on

__all__ = ["Cluster", "ClusterError", "OverDask", "connect", "over"]

CONNECT = AWAY  # seconds until an address counts as wrong
SILENCE = 60.0  # seconds until a scheduler that does not answer counts as gone
# Seconds that fetching a result is tried; in between, whether it is still there is looked at.
FETCH = (2.0, 4.0, 8.0, 16.0, 32.0)
START = 120.0  # seconds until a worker that does not come up is given up, and another started
# Of a cluster that is started here. A worker bounds what it holds itself; a pause, which
# Dask would make at 80 % of its memory, has no end when that is all in use. Nothing is served
# by HTTP, which any user of the machine could read.
LOCAL = {
    "distributed.deploy.lost-worker-timeout": "60s",  # 15 s are too few on a busy machine
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.nanny.http.routes": [],
}
MEMORY_SHARE = 0.8  # of the machine's memory, for all local workers
RETRIES = 2  # of a task that raises
SEND_INTERVAL = 0.001  # seconds between two messages of the client
UNDERWAY = ("released", "waiting", "queued", "processing")  # the scheduler's words


class OverDask:
    """The seam to a cluster behind Dask's client.

    Parameters
    ----------
    client
        Dask's client.
    name
        What people call the cluster.
    local
        The cluster, if it was started here.
    """

    without_workers = "start some and go on with --resume"

    def __init__(self, client: Client, name: str, local: LocalCluster | None = None) -> None:
        self.client, self.name, self.work = client, name, work
        self._local = local
        if local is not None:
            self.without_workers = (
                "the machine is short of memory or too busy to start another: ask for fewer "
                "workers and go on with --resume"
            )

    def now(self) -> float:
        """Return the machine's monotonic time."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def mailbox(self) -> Mailbox:
        """Return a queue."""
        return _Queue()

    def send(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        mailbox: Mailbox,
        tags: Sequence[Any],
    ) -> list[Sent]:
        """Submit the tasks; each that ends is put into the mailbox by Dask's own thread."""
        preferred = {task.key: [task.worker] for task in tasks if task.worker is not None}
        hints: dict[str, Any] = {"retries": RETRIES}
        if len(preferred) == len(tasks):
            hints |= {"workers": preferred.get, "allow_other_workers": True}
        columns = zip(*(task.arguments for task in tasks), strict=True)
        with dask.annotate(**hints):
            futures = self.client.map(function, *columns, key=[task.key for task in tasks])
        sent: list[Sent] = []
        for future, tag in zip(futures, tags, strict=True):
            one = _Sent(future)
            sent.append(one)
            future.add_done_callback(partial(_put, mailbox, tag, one))
        return sent

    def status(self) -> str:
        """Say whether the client is connected."""
        return {"running": "up", "connecting": "away"}.get(self.client.status, "gone")

    def workers(self) -> dict[str, dict[str, Any]]:
        """Ask the scheduler; of a cluster that was started here, replace those that gave up."""
        found = self._asked(self.client.scheduler.identity, n_workers=-1)["workers"]
        if self._local is not None and len(found) < len(self._local.worker_spec):
            self._replace(self._local)
        return {address: dict(info) for address, info in found.items()}

    def underway(self, keys: Sequence[str]) -> list[bool]:
        """Ask the scheduler for the state of tasks."""
        states = self._asked(self.client.scheduler.get_task_status, keys=list(keys))
        return [states.get(key) in UNDERWAY for key in keys]

    def _asked(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """Ask the scheduler, which may have been stopped: Dask's own calls have no limit."""
        try:
            return self.client.sync(question, callback_timeout=SILENCE, **arguments)
        except (OSError, KeyError, TimeoutError) as error:
            raise Unreachable(f"the scheduler of {self.name} does not answer") from error

    def _replace(self, local: LocalCluster) -> None:
        """Start workers in the place of those whose nannies are gone.

        A nanny starts a worker that died once; one that cannot, or takes longer than
        ``lost-worker-timeout``, is closed, and Dask leaves it at that.
        """
        for name, nanny in list(local.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                local.workers.pop(name, None)
        local.scale(len(local.worker_spec))  # as many as before: those that are not there


class _Queue:
    """Dask's threads put, the driver takes."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[tuple[Any, Sent]] = queue.SimpleQueue()

    def take(self, seconds: float) -> list[tuple[Any, Sent]]:
        """Wait for the first; return all."""
        found = []
        with suppress(queue.Empty):
            found.append(self.queue.get(timeout=seconds))
            while True:
                found.append(self.queue.get_nowait())
        return found


class _Sent:
    """A task as one of Dask's futures."""

    def __init__(self, future: Future) -> None:
        self.future = future

    def outcome(self) -> Outcome:
        """Fetch the result, which may go down with its worker meanwhile."""
        for seconds in FETCH:
            if self.future.status not in ("finished", "error"):
                break
            try:
                return Result(self.future.result(timeout=seconds))
            except KilledWorker:
                return Deadly()
            except CancelledError:
                break
            except Exception as error:
                # Of a task that has not failed a broken connection is the way's, not the task's.
                on_the_way = isinstance(error, TimeoutError | OSError)
                if self.future.status == "error" or not on_the_way:
                    return Raised(error)
        return Lost()

    def release(self) -> None:
        """Let Dask forget it."""
        self.future.release()


def _put(mailbox: _Queue, tag: Any, sent: Sent, future: Future) -> None:
    mailbox.queue.put((tag, sent))


def work(order: Order, job: Job | None) -> Done | JobUnknown | LogNeeded:
    """Run one block in a Dask worker; see `flows.engine.worker.work_on`."""
    worker = get_worker()
    settle()
    limit = worker.memory_manager.memory_limit
    return work_on(held, job, order, worker.address, limit, worker.local_directory)


def over(client: Client, name: str) -> Cluster:
    """Return the cluster of a client that someone else opened and will close.

    Raises
    ------
    ClusterError
        If versions or packages differ.
    """
    seam = OverDask(client, name)
    check_versions(seam)
    return Cluster(seam)


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
    with _quiet(), started as seam:
        # A sweep waits for its orders to be sent, and a client sends at most once in 10 ms.
        seam.client.scheduler_comm.interval = SEND_INTERVAL
        if not Cluster(seam).workers(fresh=True):
            start = f"dask worker {scheduler or ''}".strip()
            raise ClusterError(f"{seam.name} has no workers; start some with: {start}")
        check_versions(seam)
        yield Cluster(seam)


@contextmanager
def _started(workers: int, memory_limit: str | None) -> Iterator[OverDask]:
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
    with dask.config.set(LOCAL):  # all the time: Dask reads some when a worker is lost
        try:
            cluster = _local(workers, limit)
        except (RuntimeError, OSError, ValueError) as error:
            raise ClusterError(
                f"cannot start {workers} workers on this machine: {first_line(error)}; look at "
                "Dask's configuration (DASK_CONFIG), or fit without --workers"
            ) from error
        try:
            client = _local_client(cluster)
            try:
                yield OverDask(client, f"{workers} local workers", cluster)
            finally:
                _close(client)
        finally:
            # What does not end in time ends with this process.
            with suppress(TimeoutError, OSError, RuntimeError):
                cluster.close(timeout=10)


def _local_client(cluster: LocalCluster) -> Client:
    try:
        return _Connecting(cluster, timeout=START, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"the scheduler in this process does not answer for {START:.0f} s; the machine is too "
            "busy: ask for fewer workers, or fit without --workers"
        ) from error


def _scratch() -> str:
    """Return a folder for temporary files that no other user can reach, nor has made ready."""
    folder = os.path.join(tempfile.gettempdir(), f"vbflows-{os.getuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    info = os.lstat(folder)
    if stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077:
        return folder
    return tempfile.mkdtemp(prefix="vbflows-")


def _security() -> Security:
    """Return certificates for one run, which exist in the memory of its processes alone.

    Whoever can speak to a scheduler or a worker has it run code, and every user of a machine
    can connect to its loopback: so each side asks for the run's own certificate. What would
    come from the configuration of another cluster is named.
    """
    return Security.temporary(
        tls_ciphers=None, tls_min_version=ssl.TLSVersion.TLSv1_3, tls_max_version=None
    )


def _local(workers: int, limit: int) -> LocalCluster:
    """Start processes that only this run can reach, whatever is configured for others."""
    security = _security()
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tls://" if security.require_encryption else "tcp://",
        security=security,
        scheduler_kwargs={"dashboard": False},
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.WARNING if _debugging() else logging.CRITICAL,
        memory_limit=limit,
        death_timeout=START,
        local_directory=dask.config.get("temporary-directory") or _scratch(),
    )


@contextmanager
def _running(address: str | None) -> Iterator[OverDask]:
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
        yield OverDask(client, f"the cluster at {address}")
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
    names = ["distributed", "tornado", *logging.root.manager.loggerDict]
    loggers = [logging.getLogger(n) for n in names if n.split(".")[0] in ("distributed", "tornado")]
    before = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    shared = logging.getLogger("asyncio")
    shared.addFilter(_not_of_dask)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")
            yield
    finally:
        shared.removeFilter(_not_of_dask)
        for logger, level in before:
            logger.setLevel(level)


def _not_of_dask(record: logging.LogRecord) -> bool:
    """Whether asyncio's line is about others' tasks: Dask leaves some of its own to it.

    One that fetches a result whose worker dies meanwhile ends with an exception that nobody
    takes, and asyncio prints its traceback when it is collected.
    """
    return "distributed" not in record.getMessage()


def _debugging() -> bool:
    return bool(os.environ.get("VBFLOWS_DEBUG"))
