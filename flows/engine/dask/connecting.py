"""Workers started here, or a cluster found: connections to Dask, each with its end."""

from __future__ import annotations

import logging
import os
import queue
import ssl
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.system import MEMORY_LIMIT

from flows.engine.calls import AWAY, Cluster
from flows.engine.dask.seam import OverDask
from flows.engine.handshake import ClusterError, check_versions, first_line

CONNECT = AWAY  # seconds until an address counts as wrong
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
SEND_INTERVAL = 0.001  # seconds between two messages of the client


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
        comm: Any = seam.client.scheduler_comm
        comm.interval = SEND_INTERVAL
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
