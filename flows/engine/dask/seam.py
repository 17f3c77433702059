"""The seam to a cluster behind Dask's client."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, cast

import dask
from distributed import Client, Future, KilledWorker, LocalCluster, Status

from flows.engine.dask.desks import Desks, work
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

SILENCE = 60.0  # seconds until a scheduler that does not answer counts as gone
# Seconds that fetching a result is tried; in between, whether it is still there is looked at.
FETCH = (2.0, 4.0, 8.0, 16.0, 32.0)
RETRIES = 2  # of a task that raises
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
        self._desks = Desks(client)
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
        return Queue()

    def send(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        mailbox: Mailbox,
        tags: Sequence[Any],
    ) -> list[Sent]:
        """Ask desks or submit tasks; each that ends is put into the mailbox by Dask's thread."""
        sent: list[Sent | None] = [
            self._desks.ask(task, cast(Queue, mailbox).queue, tag)
            if task.direct and function is work
            else None
            for task, tag in zip(tasks, tags, strict=True)
        ]
        rest = [i for i, one in enumerate(sent) if one is None]
        chosen = [tasks[i] for i in rest], mailbox, [tags[i] for i in rest]
        submitted = iter(self._submit(function, *chosen) if rest else ())
        return [next(submitted) if one is None else one for one in sent]

    def _submit(
        self,
        function: Callable[..., Any],
        tasks: Sequence[Task],
        mailbox: Mailbox,
        tags: Sequence[Any],
    ) -> list[Sent]:
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
            future.add_done_callback(partial(_put, cast(Queue, mailbox), tag, one))
        return sent

    def status(self) -> str:
        """Say whether the client is connected."""
        return {"running": "up", "connecting": "away"}.get(self.client.status, "gone")

    def workers(self) -> dict[str, dict[str, Any]]:
        """Ask the scheduler; of a cluster that was started here, replace those that gave up."""
        found = self._asked(self._scheduler.identity, n_workers=-1)["workers"]
        if self._local is not None and len(found) < len(self._local.worker_spec):
            self._replace(self._local)
        return {address: dict(info) for address, info in found.items()}

    def underway(self, keys: Sequence[str]) -> list[bool]:
        """Ask the scheduler for the state of tasks."""
        states = self._asked(self._scheduler.get_task_status, keys=list(keys))
        return [states.get(key) in UNDERWAY for key in keys]

    @property
    def _scheduler(self) -> Any:
        return self.client.scheduler

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


class Queue:
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

    def __init__(self, future: Future[Any]) -> None:
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


def _put(mailbox: Queue, tag: Any, sent: Sent, future: Future[Any]) -> None:
    mailbox.queue.put((tag, sent))
