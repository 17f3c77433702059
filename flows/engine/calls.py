"""A cluster as a run uses it: who is there, functions called on some worker, executors of jobs.

No wait is without end. A call may take as long as its function does, but every wait for
something else has a limit: for the scheduler, for a first or another worker, and for a task
that no one knows any more.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flows.engine.block import Job
from flows.engine.handshake import ClusterError
from flows.engine.on_cluster import OnCluster
from flows.engine.seam import (
    POLL,
    Abandoned,
    Deadly,
    Mailbox,
    Raised,
    Result,
    Seam,
    Sent,
    Task,
    Unreachable,
)
from flows.engine.worker import call_after

R = TypeVar("R")

AWAY = 6.0  # seconds until a scheduler that is away counts as gone
NO_WORKERS = 120.0  # seconds without any worker until a run gives up
LOOK = 30.0  # seconds between two questions whether a call is still under way; the second time
# that it is not, it is asked for again,
ASKS = 10  # so many times in all.
AT_ONCE = 16  # calls that are with the scheduler, or twice the workers' threads if those are more
REMEMBERED = 8  # attempts that ended last


class Cluster:
    """A connection to a cluster; made by `flows.engine.dask.connect`.

    Parameters
    ----------
    seam
        The cluster.
    """

    def __init__(self, seam: Seam) -> None:
        self.seam = seam
        self._seen: dict[str, dict[str, Any]] = {}
        self._looked = float("-inf")
        self._ended: list[str] = []  # attempts whose data no worker needs any more

    @property
    def name(self) -> str:
        """What people call it."""
        return self.seam.name

    def ended(self, attempt: str) -> None:
        """Let workers drop what they hold of an attempt when they next work."""
        self._ended = [*self._ended[1 - REMEMBERED :], attempt]

    def executor(self, job: Job) -> OnCluster:
        """Return an executor of a job on this cluster."""
        return OnCluster(job, self)

    def calls(self) -> Calls:
        """Return the calls of one stage, which end together if one of them fails."""
        return Calls(self)

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Run one function on some worker; from several threads, several at once.

        A worker that dies is replaced by another; what the function raises arrives
        unchanged.

        Raises
        ------
        ClusterError
            If the scheduler is gone, there are no workers for a time, or the function kills
            one worker after the other.
        """
        return self.each(function, [args])[0]

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        on_progress: Callable[[int, int], None] | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[R]:
        """Run a function on every tuple of arguments; as `call` otherwise.

        What a call or `on_progress` (called after each with how many of how many are done) raises
        ends the others: nobody waits for them any more.
        """
        return _Calling(self, function, items, stopped).results(on_progress)

    def workers(self, fresh: bool = False) -> dict[str, dict[str, Any]]:
        """Return the workers by address, not older than a second."""
        if fresh or self.seam.now() - self._looked > 1.0:
            self.check()
            try:
                self._seen = dict(sorted(self.seam.workers().items()))
            except Unreachable as error:
                raise self.lost() from error
            self._looked = self.seam.now()
        return self._seen

    def underway(self, keys: Sequence[str]) -> list[bool]:
        """Say of each task whether it waits for a worker or is with one."""
        self.check()
        try:
            return self.seam.underway(keys)
        except Unreachable as error:
            raise self.lost() from error

    @property
    def at_once(self) -> int:
        """How many calls are with the scheduler at once."""
        return max(AT_ONCE, 2 * sum(int(w["nthreads"]) for w in self.workers().values()))

    def await_workers(self) -> None:
        """Wait while no worker is there; give up after a time."""
        deadline = self.seam.now() + NO_WORKERS
        while not self.workers():
            if self.seam.now() > deadline:
                raise ClusterError(
                    f"{self.name}: no worker for {NO_WORKERS:.0f} s; {self.seam.without_workers}"
                )
            self.seam.pause(1.0)

    def check(self) -> None:
        """Raise `ClusterError` if the scheduler is gone; wait for it if it may come back."""
        deadline = self.seam.now() + AWAY
        while self.seam.status() == "away" and self.seam.now() < deadline:
            self.seam.pause(0.1)
        if self.seam.status() != "up":
            raise self.lost()

    def lost(self) -> ClusterError:
        """Return the error of a scheduler that is gone."""
        return ClusterError(
            f"the scheduler of {self.name} went away; start a cluster and go on with --resume"
        )


class Calls:
    """The calls of one stage, made from several threads: they are abandoned together."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._stopped = cluster, threading.Event()

    @property
    def at_once(self) -> int:
        """How many keep all workers busy: one that each works on, and the next one."""
        return self._cluster.at_once

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Run one function on some worker; raise `Abandoned` once the calls are."""
        return self._cluster.each(function, [args], stopped=self._stopped.is_set)[0]

    def abandon(self) -> None:
        """Stop waiting for all of them."""
        self._stopped.set()


@dataclass
class _Call:
    """One call: what was sent, and how often it was found to be with nobody."""

    position: int
    asks: int = 0
    key: str = ""
    sent: Sent | None = None
    missing: bool = False


class _Calling:
    """The calls of one function on many arguments."""

    def __init__(
        self,
        cluster: Cluster,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        stopped: Callable[[], bool],
    ) -> None:
        self.cluster, self.seam = cluster, cluster.seam
        self.function, self.items, self.stopped = function, items, stopped
        self.mailbox: Mailbox = self.seam.mailbox()
        self.open: dict[int, _Call] = {}
        self.found: dict[int, Any] = {}
        self.name = getattr(function, "__name__", "call").strip("_<>")

    def results(self, on_progress: Callable[[int, int], None] | None) -> list[Any]:
        """Send, wait, ask again, and collect."""
        begun = 0
        looked = asked = self.seam.now()
        try:
            while len(self.found) < len(self.items):
                while begun < len(self.items) and len(self.open) < self.cluster.at_once:
                    self.open[begun] = _Call(begun)
                    self._send(self.open[begun])
                    begun += 1
                for call, sent in self.mailbox.take(POLL):
                    # OnProgress twice, or of one that was asked for again: the first result counts.
                    if call.position in self.open and self._taken(call, sent):
                        del self.open[call.position]
                        if on_progress is not None:
                            on_progress(len(self.found), len(self.items))
                if self.stopped():
                    raise Abandoned
                if self.seam.now() - looked > POLL:
                    looked = self.seam.now()
                    self.cluster.check()
                    self.cluster.await_workers()
                if self.seam.now() - asked > LOOK:
                    asked = self.seam.now()
                    self._ask_for_missing()
        finally:
            for call in self.open.values():
                if call.sent is not None:
                    call.sent.release()
        return [self.found[i] for i in range(len(self.items))]

    def _send(self, call: _Call) -> None:
        call.asks += 1
        if call.asks > ASKS:
            raise ClusterError(
                f"{self.cluster.name} lost a piece of work {ASKS} times while preparing data; look "
                "at the scheduler's and the workers' logs, and go on with --resume"
            )
        if call.sent is not None:
            call.sent.release()
        call.key, call.missing = f"vbflows-{self.name}-{uuid.uuid4().hex}", False
        arguments = (
            frozenset(self.cluster._ended), self.function, *self.items[call.position]
        )  # fmt: skip
        [call.sent] = self.seam.send(call_after, [Task(call.key, arguments)], self.mailbox, [call])

    def _taken(self, call: _Call, sent: Sent) -> bool:
        """Take what has become of a call; whether it is done."""
        if sent is not call.sent:
            return False
        outcome = sent.outcome()
        if isinstance(outcome, Result):
            self.found[call.position] = outcome.value
            sent.release()
            return True
        if isinstance(outcome, Raised):
            raise outcome.error
        if isinstance(outcome, Deadly):
            raise ClusterError(
                f"workers of {self.cluster.name} died one after the other while preparing data, "
                "most likely for lack of memory; use more partitions or give workers more memory"
            )
        self.cluster.check()
        self._send(call)
        return False

    def _ask_for_missing(self) -> None:
        """Send again what the scheduler has neither for a worker nor with one, twice in a row."""
        calls = list(self.open.values())
        underway = self.cluster.underway([call.key for call in calls])
        for call, known in zip(calls, underway, strict=True):
            if not known and call.missing:
                self._send(call)
            else:
                call.missing = not known
