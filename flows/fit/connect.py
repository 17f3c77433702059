"""Workers started here, or a cluster found: connections to Dask, each with its end."""

from __future__ import annotations

import logging
import os
import signal
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any
from weakref import WeakSet

import dask
import distributed.utils
from distributed import Client, LocalCluster, Nanny, Status
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.faults import first_line
from flows.fit import preload
from flows.fit.cluster import AWAY, OTHERS, Cluster, loaded_modules
from flows.fit.cluster_executor import NO_WORKERS, POLL
from flows.fit.job import ClusterError, ClusterLost

log = logging.getLogger(__name__)

CONNECT = AWAY  # seconds until an address counts as wrong
START = 60.0  # seconds until a local worker that does not come up is ended, and another started
# Of a cluster that is started here. A worker bounds what it holds itself; a pause, which
# Dask would make at 80 % of its memory, has no end when that is all in use. Nothing is served
# by HTTP, which any user of the machine could read, so nobody would see a profile; and taking
# one can stop a process of Python 3.11 for good (CPython's issue 106883).
LOCAL = {
    "distributed.deploy.lost-worker-timeout": "60s",  # 15 s are too few on a busy machine
    "distributed.scheduler.http.routes": [],
    "distributed.scheduler.worker-ttl": "45s",
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.http.routes": [],
}
METHOD = "distributed.worker.multiprocessing-method"
MEMORY_SHARE = 0.8  # of the machine's memory, for all local workers
NOISY = ("distributed", "tornado", "asyncio")  # loggers; the last shows what Dask left to it
SEND_INTERVAL = 0.001  # seconds between two messages of the client; Dask's 10 ms delay tasks


def over(client: Client, name: str) -> Cluster:
    """Return the cluster of a client that its owner opened and will close, once it is checked."""
    cluster = Cluster(client, name)
    _await_workers(cluster, "start some")
    cluster.check()
    return cluster


@contextmanager
def connect(
    workers: int | None = None, scheduler: str | None = None, memory_limit: str | None = None
) -> Iterator[Cluster]:
    """Start local worker processes, or connect to a running cluster and check it.

    A scheduler's address is ``tcp://host:port`` or ``tls://host:port``, with certificates from
    Dask's configuration. ``memory_limit`` is of one local worker, such as ``4 GiB``; by default its
    share of the machine's. Raises `ClusterError` if the address is wrong, there are no workers, or
    their versions or packages differ.
    """
    started, remedy = _running(scheduler), f"start some with: dask worker {scheduler}"
    if workers is not None:
        started, remedy = (
            _started(workers, memory_limit),
            "use fewer, or fit without --workers: the machine is too busy or short of memory",
        )
    with nullcontext() if _debugging() else _quiet(), started as cluster:
        _await_workers(cluster, remedy, workers or 1)
        cluster.check()
        yield cluster


@contextmanager
def _started(workers: int, memory_limit: str | None) -> Iterator[Cluster]:
    limit = memory_limit or int(MEMORY_LIMIT * MEMORY_SHARE / workers)
    with dask.config.set(LOCAL), ExitStack() as ends:  # all the time: Dask reads some at losses
        try:
            folder = dask.config.get("temporary-directory")
            scratch = tempfile.TemporaryDirectory(None, "vbflows-", folder, True)
            ends.enter_context(dask.config.set({METHOD: _preload()}))
            local = _Local(limit, ends.enter_context(scratch))
            ends.callback(local.end)
            client = _Client(local, timeout=START, set_as_default=False)
        except (RuntimeError, OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"cannot start a Dask scheduler in this process: {first_line(error)}; look at "
                "Dask's configuration (DASK_CONFIG), or fit without --workers"
            ) from error
        ends.callback(_close, client)
        local.scale(workers)
        yield Cluster(client, f"{workers} local workers", local)


def _preload() -> str:
    """Have what workers are forked from, if no run has started it, import what is loaded here.

    Return how workers start: where the path of TMPDIR is too long for that process's socket, each
    imports all itself.
    """
    distributed.utils._forkserver_preload_set = True  # else Dask imports pandas, here too
    try:
        preload.start(*loaded_modules())
    except OSError:
        return "spawn"
    return "forkserver"


class _Local(LocalCluster):
    """A scheduler here, whose workers are processes that only this run can reach.

    A scheduler and its workers run code for every client, and every user of a machine can connect
    to its loopback: so each side needs a certificate of the run, which is in the memory of
    its processes alone. What would come from the configuration of another cluster is named.
    """

    def __init__(self, limit: int | str, folder: str) -> None:
        self.coming: dict[int, float] = {}  # processes that come up, since when
        self.nannies: WeakSet[Nanny] = WeakSet()  # also of workers that are coming up
        security = Certificates.temporary(
            tls_ciphers=None, tls_min_version=ssl.TLSVersion.TLSv1_3, tls_max_version=None
        )
        super().__init__(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            memory_limit=limit,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            security=security,
            protocol="tls://" if security.require_encryption else "tcp://",
            scheduler_kwargs={"dashboard": False},
            death_timeout=5 * START,
            silence_logs=logging.WARNING if _debugging() else logging.CRITICAL,
            worker_class=self._nanny,
            local_directory=folder,
            env=dict(os.environ),
        )

    def _nanny(self, *args: Any, **options: Any) -> Nanny:
        nanny = Nanny(*args, **options)
        self.nannies.add(nanny)
        return nanny

    def mend(self, present: int) -> None:
        """Replace workers that do not come up, or that Dask gave up."""
        if present >= len(self.worker_spec):
            return
        now = time.monotonic()
        processes = [nanny.process for nanny in list(self.nannies)]
        pids = [p.pid for p in processes if p is not None and p.status == Status.starting]
        self.coming = {pid: self.coming.get(pid, now) for pid in pids if pid}
        _kill(pid for pid, since in self.coming.items() if now - since > START)
        for name, nanny in list(self.workers.items()):
            if nanny.status in (Status.closed, Status.failed):
                self.workers.pop(name, None)
        self.scale(len(self.worker_spec))  # as many as before

    def end(self) -> None:
        """Close it; a process that is stopped would be waited for, by Python too."""
        _kill(nanny.pid for nanny in list(self.nannies) if nanny.pid)
        with suppress(TimeoutError, OSError, RuntimeError, AssertionError):
            self.close(timeout=10)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _await_workers(cluster: Cluster, remedy: str, number: int = 1) -> None:
    """Wait for so many workers, or those that are not much later than the first.

    A cluster may start one once there is work.
    """
    last, first, work = time.monotonic() + NO_WORKERS, None, None
    while len(workers := cluster.workers()) < number and time.monotonic() < last:
        if workers:
            first = first or time.monotonic()
            last = min(last, first + OTHERS)  # others take part from a checkpoint after they come
        elif cluster.local is None and work is None:
            work = cluster.submit("awake", int)
            log.warning(f"{cluster.name} has no workers; waiting up to {NO_WORKERS:.0f} s for some")
        time.sleep(POLL / 5)
    if not workers:
        raise ClusterLost(f"{cluster.name} had no workers for {NO_WORKERS:.0f} s; {remedy}")


@contextmanager
def _running(address: str | None) -> Iterator[Cluster]:
    if not address or not address.startswith(("tcp://", "tls://")):
        raise ClusterError(
            f"expected a scheduler's address such as tcp://host:8786 or tls://host:8786, "
            f"found {address!r}"
        )
    client = _reached(address)
    cluster = Cluster(client, f"the cluster at {address}", reopen=partial(_reached, address))
    try:
        yield cluster
    finally:
        _close(cluster.client)


def _reached(address: str) -> Client:
    """Connect to a scheduler, which may not be there."""
    outcome: Future[Client] = Future()

    def attempt() -> None:
        try:
            outcome.set_result(_Client(address, timeout=CONNECT, set_as_default=False))
        except BaseException as error:  # carried over to the waiting thread
            outcome.set_exception(error)

    try:  # Dask's own limit does not hold for a port that says nothing
        threading.Thread(target=attempt, name="vbflows-connect", daemon=True).start()
        return outcome.result(timeout=CONNECT + 2.0)
    except (OSError, TimeoutError) as error:
        raise ClusterLost(
            f"no scheduler answers at {address}; check the address and that the cluster runs"
        ) from error
    except (TypeError, ValueError, RuntimeError) as error:
        if "ssl_context" in str(error):
            raise ClusterError(
                f"{address} needs certificates: name them in Dask's configuration "
                "(distributed.comm.tls.ca-file, .client.cert and .client.key)"
            ) from error
        raise ClusterError(f"cannot connect to {address}: {first_line(error)}") from error


class _Client(Client):
    """Dask's client, closed at once if it cannot start.

    One that is left open is closed by the garbage collector, and where that happens while
    another client starts in the same thread, Dask waits for its own lock for ever.
    """

    def start(self, **kwargs: Any) -> None:
        isolate(self.connection_args)  # also of a cluster that was found
        try:
            super().start(**kwargs)
        except BaseException:
            _close(self)
            raise
        comm: Any = self.scheduler_comm
        comm.interval = SEND_INTERVAL


def _close(client: Client) -> None:
    with suppress(TimeoutError, OSError, RuntimeError):
        client.close(timeout=2)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own log from the terminal: what matters is raised or logged here."""
    dask_s = [name for name in logging.root.manager.loggerDict if name.startswith(NOISY)]
    loggers = [logging.getLogger(name) for name in dask_s]
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


class Certificates(Security):
    """Certificates of a cluster, whose connections are of `Connection`."""

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """As Dask's, with a context of such connections."""
        return isolate(super().get_connection_args(role))

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """As Dask's, with a context of such connections."""
        return isolate(super().get_listen_args(role))


class Connection(ssl.SSLSocket):
    """A TLS connection that takes its errors from OpenSSL's queue when it is lost.

    OpenSSL keeps the errors of a thread in one queue, which has to be empty before a connection is
    read or written: what is left of another connection is taken for its own error. Newer versions
    (seen in 3.5 and 3.6) leave an error there at a write to a connection that the other side has
    closed, and newer versions of Python (seen in 3.13.5 and 3.14) raise it without emptying the
    queue. Dask serves all connections of a process in one thread: each that is idle would end with
    ``BrokenPipeError``.
    """

    def recv_into(self, *args: Any, **options: Any) -> int:
        """As a socket's, with no error left."""
        with self._clearing():
            return super().recv_into(*args, **options)

    def send(self, *args: Any, **options: Any) -> int:
        """As a socket's, with no error left."""
        with self._clearing():
            return super().send(*args, **options)

    @contextmanager
    def _clearing(self) -> Iterator[None]:
        """Empty the queue, which Python does before it makes a connection (5 microseconds)."""
        try:
            yield
        except ssl.SSLError:  # Python has emptied it
            raise
        except OSError:
            self.context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), bool(self.server_side))
            raise


def isolate(arguments: dict[str, Any]) -> dict[str, Any]:
    """Let connections with these arguments not break others; without TLS they have no context."""
    if arguments.get("ssl_context") is not None:
        arguments["ssl_context"].sslsocket_class = Connection
    return arguments
