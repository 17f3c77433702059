"""A Dask cluster as a run uses it: who is there, and tasks for ingest, preparation and results.

Dask schedules the tasks, gives those of a dead worker to others, and replaces local workers. What
it does not promise is added here: every wait has a limit, and an error names its worker.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from distributed import Client, Future, KilledWorker, get_worker

from flows.data import storage
from flows.faults import InputError
from flows.fit.cluster_executor import (
    FEWER,
    LOGS,
    NO_WORKERS,
    POLL,
    SILENCE,
    START,
    ClusterExecutor,
    Worker,
    error_of,
    no_workers,
)
from flows.fit.executor import OnProgress
from flows.fit.job import ClusterError, ClusterLost, Job
from flows.fit.versions import environment, environment_with, refuse_other

log = logging.getLogger(__name__)

R = TypeVar("R")

AWAY = 6.0  # seconds until a scheduler that is away counts as gone
FETCH = 5.0  # seconds that fetching a result is tried, before its worker is looked for again
OTHERS = 20.0  # seconds after the first worker's answer in which the others are waited for
NOT_FOR_WORKERS = (
    *("flows.cli", "flows.entry", "flows.pipelines", "flows.prefect"),
    "flows.fit.fork_environment",  # it is for the process that local workers are forked from
)
RETRIES, LOST, KILLS = 2, 10, 2  # times that a task may raise, be lost, kill three workers


class Cluster:
    """A connection to a cluster; made by `flows.fit.connect.connect`.

    ``name`` is what people call it, ``local`` what keeps up workers that were started here,
    ``reopen`` connects once more to a scheduler that the client had given up.
    """

    def __init__(
        self, client: Client, name: str, local: Any = None,
        reopen: Callable[[], Client] | None = None,
    ) -> None:  # fmt: skip
        self.client, self.name, self.local, self.reopen = client, name, local, reopen
        self._beats: dict[str, tuple[float, float]] = {}  # a worker's heartbeat; when it moved
        self._present: dict[str, dict[str, Any]] = {}
        self._looked = self._restarted = float("-inf")
        self._lock = threading.Lock()
        self._checked: set[str] = set()  # workers that have what this process has
        self._asked: dict[str, tuple[float, Future[Any]]] = {}  # others: since when, for what

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._present)

    def executor(self, job: Job) -> ClusterExecutor:
        """Return an executor of a job on this cluster."""
        return ClusterExecutor(job, self)

    def each(
        self, function: Callable[..., R], items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
    ) -> list[R]:  # fmt: skip
        """Run a function on every tuple of arguments, each as a task on some worker.

        Where it finds that the input is wrong, what has begun ends first: the run is removed next.

        Raises `ClusterError` if the scheduler is gone, there are no workers for a time, or the
        function kills one worker after the other.
        """
        self.connect_again()
        open_ = {i: self._send(function, item) for i, item in enumerate(items)}
        found: dict[int, R] = {}
        losses = [Counter[bool]() for _ in items]
        looked = able = time.monotonic()
        try:
            while open_:
                ended = [i for i, future in open_.items() if future.status != "pending"]
                for i in ended:
                    try:
                        found[i] = open_[i].result(timeout=FETCH)
                    except Exception as error:
                        if self._is_lost(open_[i], error, items[i], losses[i]):
                            open_[i] = self._send(function, items[i])
                        continue
                    del open_[i]
                    if on_progress is not None:
                        on_progress(len(found), len(items))
                if not ended:
                    time.sleep(POLL / 50)
                if (now := time.monotonic()) - looked > POLL:
                    looked, able = now, now if self.workers() else able
                    if self.local is not None:
                        self.restart_silent()
                    else:
                        self._send_elsewhere(function, items, open_)
                    if now - able > NO_WORKERS:
                        raise no_workers(self.name, self.local is not None)
            return [found[i] for i in range(len(items))]
        except InputError:
            self._end(open_.values())
            raise
        finally:
            for future in open_.values():
                future.release()

    def _send(self, function: Callable[..., R], item: tuple[Any, ...], **options: Any) -> Future[R]:
        name = getattr(function, "__name__", "call").strip("_<>")
        sent: Future[R] = self.submit(name, on_worker, function, *item, retries=RETRIES, **options)
        return sent

    def _send_elsewhere(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        open_: dict[int, Future[R]],
    ) -> None:
        """Give tasks of silent workers to others: the work and data of others may be there."""
        silent, others = self._silent(), [*self.workers()]
        if not silent or not others:
            return
        scheduler: Any = self.client.scheduler
        processing = self.sync(scheduler.processing)
        keys = {key for address in silent for key in processing.get(address, ())}
        for i in [i for i, future in open_.items() if future.key in keys]:
            open_[i].release()
            open_[i] = self._send(function, items[i], workers=others, allow_other_workers=True)
            log.warning("worker %s is silent: its task goes to another", ", ".join(silent))

    def _silent(self) -> list[str]:
        now = time.monotonic()
        return [a for a in self._present if now - self._beats[a][1] > SILENCE]

    def _is_lost(
        self, future: Future[Any], error: Exception, item: tuple[Any, ...], losses: Counter[bool]
    ) -> bool:
        """Whether a task is to be sent again; raise what it raised itself."""
        killed = isinstance(error, KilledWorker)
        if future.status == "error" and not killed:
            raise error_of(getattr(error, "worker", ""), error) from error
        if future.status == "pending":
            return False  # its result was lost with a worker, and Dask computes it again
        self.workers()  # raises where the scheduler is gone
        losses[killed] += 1
        if losses[killed] <= (KILLS if killed else LOST):
            return True
        what = _described(item)
        if killed:
            use = "fewer workers (--workers)" if self.local else "larger workers"
            raise ClusterError(
                f"{what}: workers die of it, most likely for lack of memory; use {use}, or begin "
                "again with more partitions (--partitions)"
            ) from error
        remedy = LOGS if self.local is None else FEWER
        raise ClusterLost(f"{what}: {self.name} lost it {LOST} times; {remedy}") from error

    def _end(self, futures: Collection[Future[Any]]) -> None:
        """Drop the tasks that have not begun, and wait for the others."""
        scheduler: Any = self.client.scheduler
        begun = {key for keys in self.sync(scheduler.processing).values() for key in keys}
        for future in futures:
            if future.key not in begun:
                future.release()
        while any(f.key in begun and f.status == "pending" for f in futures):
            time.sleep(POLL)
            if not self.workers():
                return

    def connect_again(self) -> None:
        """Connect to a scheduler that came back: a stage that lost it may be tried again."""
        if self.client.status == "closed" and self.reopen is not None:
            try:
                self.client = self.reopen()
                self._asked.clear()
            except ClusterLost as error:
                raise self._gone() from error

    def sync(self, function: Callable[..., Any], seconds: float = SILENCE, **options: Any) -> Any:
        """Call the scheduler, which may have been stopped: Dask's own calls have no limit."""
        deadline = time.monotonic() + AWAY
        while self.client.status == "connecting" and time.monotonic() < deadline:
            time.sleep(0.1)
        try:
            if self.client.status != "running":
                raise OSError
            return self.client.sync(function, callback_timeout=seconds, **options)
        except (OSError, TimeoutError, KeyError) as error:
            raise self._gone() from error

    def _gone(self) -> ClusterLost:
        remedy = "start a cluster and " if self.local is None else ""
        return ClusterLost(f"the scheduler of {self.name} went away; {remedy}go on with --resume")

    def submit(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Submit a task of its own; return Dask's future."""
        key = f"vbflows-{name}-{uuid.uuid4().hex}"
        try:
            return self.client.submit(function, *args, key=key, pure=False, **options)
        except Exception as error:
            raise error if self.client.status == "running" else self._gone() from error

    def workers(self, silence: float = SILENCE) -> dict[str, Worker]:
        """Return the workers whose heartbeat moved within so many seconds, by this clock."""
        with self._lock:
            if time.monotonic() - self._looked > POLL / 2:
                scheduler: Any = self.client.scheduler
                self._present = self.sync(scheduler.identity, n_workers=-1)["workers"]
                self._looked = time.monotonic()
                for address, info in self._present.items():
                    if self._beats.get(address, (None,))[0] != info["last_seen"]:
                        self._beats[address] = info["last_seen"], self._looked
                if self.local is not None:
                    self.local.mend(len(self._present))
            return {
                address: Worker(
                    info["nthreads"], info["memory_limit"] or 0, info["status"] == "paused"
                )
                for address, info in sorted(self._present.items())
                if self._looked - self._beats[address][1] < silence
                and info["status"] in ("running", "paused")
            }

    def restart(self, addresses: Sequence[str]) -> None:
        """End workers of this run that hang or are stopped; nannies start others."""
        if self.local is None:
            return
        restart = partial(self.client._restart_workers, timeout=10, raise_for_error=False)
        with suppress(ClusterError, RuntimeError, ValueError):
            self.sync(restart, workers=list(addresses))

    def restart_silent(self) -> None:
        """End workers that are silent for long: Dask itself waits for them for minutes."""
        silent, now = self._silent(), time.monotonic()
        if silent and now - self._restarted > SILENCE:
            self._restarted = now
            self.restart(silent)

    def check(self) -> None:
        """Compare the scheduler, which unpickles what tasks name, and all workers with this."""
        if self.local is not None:
            return
        try:
            found = self.sync(partial(self.client._run_on_scheduler, environment), START)
        except ClusterError:
            raise
        except Exception as error:
            found = error
        refuse_other(self.name, "the scheduler", found)
        began, workers = time.monotonic(), list(self.workers())
        if not self.check_workers(workers):
            raise ClusterLost(
                f"no worker of {self.name} ({', '.join(workers[:4])}) has answered within "
                f"{time.monotonic() - began:.0f} s; look at their logs, or restart them"
            )

    def check_workers(self, addresses: Sequence[str]) -> set[str]:
        """Compare workers with this process; return those that answer, or were started here.

        One that imports slowly is waited for.
        """
        if self.local is not None:
            return set(addresses)
        began, limit = time.monotonic(), START
        while True:
            waiting = [a for a in addresses if a not in self._checked and self._asks(a)]
            now = time.monotonic()
            if len(waiting) < len(addresses):
                limit = min(limit, max(OTHERS, 2 * (now - began)))
            if all(now - self._asked[a][0] > limit for a in waiting):
                return self._checked.intersection(addresses)
            time.sleep(POLL / 20)
            self.workers()

    def _asks(self, address: str) -> bool:
        """Whether the answer of a worker is still to come.

        What it has to import may take it long, so that is a task, in a thread: its heart beats
        meanwhile. A function of ours would be imported where its messages arrive.
        """
        if address not in self._present:
            self._asked.pop(address, None)
            return False
        if address not in self._asked:
            here = {"workers": [address], "allow_other_workers": False}
            ours = self.submit("import", import_module, environment.__module__, **here)
            asked = self.submit("environment", environment_with, loaded_modules(), ours, **here)
            self._asked[address] = time.monotonic(), asked
        if self._asked[address][1].status == "pending":
            return True
        _, future = self._asked.pop(address)
        try:
            found = future.result(timeout=FETCH)
        except (OSError, TimeoutError, KilledWorker, CancelledError):
            return False  # it is gone, or its answer is
        except Exception as error:
            found = error
        refuse_other(self.name, f"worker {address}", found)
        self._checked.add(address)
        self._beats[address] = self._beats[address][0], time.monotonic()
        return False


def loaded_modules() -> list[str]:
    """Name what this process has imported of what a worker may need."""
    ours = [name for name in sys.modules if name.startswith(("flows.", "vbmodels."))]
    return [name for name in ours if not name.startswith(NOT_FOR_WORKERS)]


def on_worker(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a task; what it raises has the worker's address."""
    try:
        return function(*args)
    except Exception as error:
        error.worker = get_worker().address  # type: ignore[attr-defined]
        raise
    finally:
        storage.decoded.release()
        storage.small_files.release()


def _described(item: tuple[Any, ...]) -> str:
    """Name the work of a task by its partitions, or by its first argument."""
    first: Any = getattr(item[0], "parts", item[0]) if item else "a task"
    parts: list[Any] = first if isinstance(first, list) and first else [first]
    if all(hasattr(part, "slices") for part in parts):
        ids = ", ".join(str(part.index) for part in parts[:8])
        return f"partition {ids} ({parts[0].slices[0].url})"
    return str(getattr(first, "url", first))[:200]
