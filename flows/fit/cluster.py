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

from flows import storage
from flows.faults import InputError
from flows.fit.cluster_executor import (
    FEWER,
    LOGS,
    METRICS,
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
from flows.fit.versions import (
    Wanted,
    environment,
    environment_with,
    refuse_other,
    wanted,
)

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
        self,
        client: Client,
        name: str,
        local: Any = None,
        reopen: Callable[[], Client] | None = None,
    ) -> None:
        self.client, self.name, self.local, self.reopen = client, name, local, reopen
        self._beats: dict[str, tuple[float, float]] = {}  # a worker's heartbeat; when it moved
        self._present: dict[str, dict[str, Any]] = {}
        self._looked = float("-inf")
        self._lock = threading.Lock()
        self._imports: dict[str, Future[Any]] = {}  # of each worker, which bring its environment

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._present)

    def executor(self, job: Job) -> ClusterExecutor:
        """Return an executor of a job on this cluster."""
        return ClusterExecutor(job, self)

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Run a function on every tuple of arguments, each as a task on some worker.

        Where it finds that the input is wrong, what has begun ends first: the run is removed next.

        Raises `ClusterError` if the scheduler is gone, there are no workers for a time, or the
        function kills one worker after the other.
        """
        self.connect_again()
        open_ = {i: self._send(function, item) for i, item in enumerate(items)}
        results: dict[int, R] = {}
        losses = [Counter[bool]() for _ in items]
        progress = on_progress or (lambda done, total: None)
        looked = able = time.monotonic()
        try:
            while open_:
                ended = [i for i, future in open_.items() if future.status != "pending"]
                for i in ended:
                    try:
                        results[i] = open_[i].result(timeout=FETCH)
                    except Exception as error:
                        if self._is_lost(open_[i], error, items[i], losses[i]):
                            open_[i] = self._send(function, items[i])
                        continue
                    del open_[i]
                    progress(len(results), len(items))
                if not ended:
                    time.sleep(POLL / 50)
                if time.monotonic() - looked > POLL:
                    looked = time.monotonic()
                    able = self._look_after(function, items, open_, able)
            return [results[i] for i in range(len(items))]
        except InputError:
            self._end(open_.values())
            raise
        finally:
            for future in open_.values():
                future.release()

    def _look_after(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        open_: dict[int, Future[R]],
        able: float,
    ) -> float:
        """Do without silent workers; return when there last was one, as ``able`` says it."""
        now = time.monotonic()
        if self.workers():
            able = now
        if self.local is not None:
            self.restart(self._silent())
        else:
            self._send_elsewhere(function, items, open_)
        if now - able > NO_WORKERS:
            raise no_workers(self.name, self.local is not None)
        return able

    def _send(self, function: Callable[..., R], item: tuple[Any, ...], **options: Any) -> Future[R]:
        name = getattr(function, "__name__", "call").strip("_<>")
        return self._run(name, function, *item, retries=RETRIES, **options)

    def _run(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Submit a task that ends at once on a worker that differs; local ones are forked here."""
        ours = wanted(self.name) if self.local is None else None
        return self.submit(name, on_worker, ours, function, *args, **options)

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
        processing = self.sync(self.client.processing)
        keys = {key for address in silent for key in processing.get(address, ())}
        for i in [i for i, future in open_.items() if future.key in keys]:
            open_[i].release()
            open_[i] = self._send(function, items[i], workers=others, allow_other_workers=True)
            log.warning("worker %s is silent: its task goes to another", ", ".join(silent))

    def _silent(self) -> list[str]:
        return [a for a in self._present if time.monotonic() - self._beats[a][1] > SILENCE]

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
                f"{what}: workers die of it, most likely for lack of memory; use {use}, or "
                "begin again with more partitions (--partitions)"
            ) from error
        remedy = LOGS if self.local is None else FEWER
        raise ClusterLost(f"{what}: {self.name} lost it {LOST} times; {remedy}") from error

    def _end(self, futures: Collection[Future[Any]]) -> None:
        """Drop the tasks that have not begun, and wait for the others."""
        begun = {key for keys in self.sync(self.client.processing).values() for key in keys}
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
                self._imports.clear()
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
                self._imports = {a: f for a, f in self._imports.items() if a in self._present}
                if self.local is not None:
                    self.local.mend(len(self._present))
            return {
                address: Worker(
                    info["nthreads"],
                    info["memory_limit"] or 0,
                    info["status"] == "paused",
                    [info["metrics"].get(name) for name in METRICS],
                )
                for address, info in sorted(self._present.items())
                if self._looked - self._beats[address][1] < silence
                and info["status"] in ("running", "paused")
            }

    def restart(self, addresses: Sequence[str]) -> None:
        """End workers of this run that hang or are stopped, for which Dask waits for minutes."""
        if self.local is None or not addresses:
            return
        options: Any = {"workers": addresses, "timeout": 10, "raise_for_error": False}
        with suppress(ClusterError, RuntimeError, ValueError):
            self.sync(self.client.restart_workers, **options)

    def check(self) -> None:
        """Compare the scheduler, which unpickles what tasks name, and all workers with this."""
        if self.local is not None:
            return
        try:
            answer = self.sync(partial(self.client.run_on_scheduler, environment), START)
        except ClusterError:
            raise
        except Exception as error:
            answer = error
        refuse_other(self.name, "the scheduler", answer)
        began, limit = time.monotonic(), START
        asked = {address: self._import_on(address) for address in self.workers()}
        while coming := [a for a in self._present.keys() & asked if asked[a].status == "pending"]:
            seconds = time.monotonic() - began
            if len(coming) < len(asked):
                limit = min(limit, max(OTHERS, 2 * seconds))
            if seconds > limit:
                break
            time.sleep(POLL / 20)
            self.workers()
        if not any([self.compare(a) for a, f in asked.items() if f.status != "pending"]):
            raise ClusterLost(
                f"no worker of {self.name} ({', '.join([*asked][:4])}) has answered within "
                f"{time.monotonic() - began:.0f} s; see their logs, or restart them"
            )

    def compare(self, address: str) -> bool:
        """Raise where a worker differs from this process; it may have gone since it answered."""
        if address not in self._imports:
            return self.local is not None
        try:
            answer = self._imports[address].result(timeout=FETCH)
        except (OSError, TimeoutError, KilledWorker, CancelledError):
            return False
        except Exception as error:
            answer = error
        refuse_other(self.name, f"worker {address}", answer)
        return True

    def _import_on(self, address: str) -> Future[Any]:
        """Let a worker import what it needs, and return its environment.

        That may take long, so it is a task, in a thread: its heart beats meanwhile. A function of
        ours would be imported where its messages arrive.
        """
        if address not in self._imports:
            here = {"workers": [address], "allow_other_workers": False}
            ours = self.submit("import", import_module, environment.__module__, **here)
            self._imports[address] = self.submit(
                "check", environment_with, loaded_modules(), ours, **here
            )
        return self._imports[address]

    def make(self, address: str, holder: Callable[..., Any], *args: Any) -> Future[Any]:
        """Make an actor on a worker, once that has imported what it needs."""
        imported = self._import_on(address) if self.local is None else None
        return self._run("holder", holder, *args, imported, actor=True, workers=[address])


def loaded_modules() -> list[str]:
    """Name what this process has imported of what a worker may need."""
    ours = [name for name in sys.modules if name.startswith(("flows.", "vbmodels."))]
    return [name for name in ours if not name.startswith(NOT_FOR_WORKERS)]


def on_worker(wanted: Wanted | None, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a task; what it raises has the worker's address."""
    try:
        if wanted is not None:
            wanted.refuse_other(f"worker {get_worker().address}", environment())
        return function(*args)
    except Exception as error:
        error.worker = get_worker().address  # type: ignore[attr-defined]
        raise
    finally:
        storage.release_decoded()
        storage.small_files.release()


def _described(item: tuple[Any, ...]) -> str:
    """Name the work of a task by its partitions, or by its first argument."""
    first: Any = getattr(item[0], "parts", item[0]) if item else "a task"
    parts: list[Any] = first if isinstance(first, list) and first else [first]
    if all(hasattr(part, "slices") for part in parts):
        ids = ", ".join(str(part.index) for part in parts[:8])
        return f"partition {ids} ({parts[0].slices[0].url})"
    return str(getattr(first, "url", first))[:200]
