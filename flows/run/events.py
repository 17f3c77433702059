"""What happens in a run: events for the terminal, Python's log, Prefect and installed packages.

A run tells an `Events` and asks nothing of it. A listener derives from `Listener` and takes the
events that it cares for; what it raises stops the run. Those of other packages come by an entry
point and cannot stop it (`flows.run.listeners`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flows.data.runs import InputRecord, RunRecord
from flows.fit.checkpoint import Trace

R = TypeVar("R")
_log = logging.getLogger("vbflows.pipeline")


@dataclass(frozen=True)
class Requested:
    """A run is requested; nothing of its input has been read."""

    run_id: str
    pipeline: str
    sources: tuple[str, ...]
    target: str
    settings: Mapping[str, Any]
    fitted: str | None = None  # the finished run that is applied to new data
    resumed: bool = False  # whether it goes on with an earlier attempt


@dataclass(frozen=True)
class Begun:
    """A run has its name."""

    run_id: str


@dataclass(frozen=True)
class Accepted:
    """The input is right; this is what there is of it."""

    inputs: Sequence[InputRecord]


@dataclass(frozen=True)
class Computing:
    """It is settled where the run computes."""

    workers: int  # local ones; 0 for this process, or a cluster that was there


@dataclass(frozen=True)
class Stage:
    """A stage begins."""

    name: str


@dataclass(frozen=True)
class PartDone:
    """So much of a stage is done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class Sweep:
    """A sweep of the fit is done."""

    iteration: int
    elbo: float
    change: float | None
    left: float | None  # an estimate of the sweeps to come, if there is one
    most: int  # sweeps after which the fit stops at the latest


@dataclass(frozen=True)
class Line:
    """Something is worth a line."""

    text: str


@dataclass(frozen=True)
class Retried:
    """Storage did not answer, and is asked again after a pause."""

    attempt: int
    pause: float  # seconds
    error: Exception


@dataclass(frozen=True)
class Published:
    """A run can be seen: its record, report, most telling rows, and the trace of its fit."""

    record: RunRecord
    headline: str
    report: str
    top: Sequence[Mapping[str, Any]] = ()
    trace: Trace | None = None


@dataclass(frozen=True)
class Failed:
    """A run has ended without a result: it was refused, failed, or was stopped by hand."""

    error: BaseException


Event = (
    Requested
    | Begun
    | Accepted
    | Computing
    | Stage
    | PartDone
    | Sweep
    | Line
    | Retried
    | Published
    | Failed
)


class Listener:
    """Hears what happens in a run."""

    def hear(self, event: Event) -> None:
        """Take an event, from any thread."""

    def task(
        self, name: str, label: str, work: Callable[[], R], kept: Callable[[R], bool]
    ) -> Callable[[], R]:
        """Return work that shows how it goes; its exceptions arrive unchanged.

        Parameters
        ----------
        name
            The stage.
        label
            What to call this task of it.
        work
            What the task does.
        kept
            Says of a result whether it was kept from before.
        """
        return work


class Log(Listener):
    """Python's log."""

    def hear(self, event: Event) -> None:
        """Write what is worth a line."""
        match event:
            case Begun(run_id):
                _log.info("run %s", run_id)
            case Line(text):
                _log.info("%s", text)
            case Retried(attempt, pause, error):
                _log.warning("attempt %d failed; next in %.1f s: %s", attempt, pause, error)


class Events:
    """Tells listeners what happens; Python's log always listens."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners
        self._all = (Log(), *listeners)
        self.stage = "check"  # that runs, or ran last

    def joined(self, listener: Listener) -> Events:
        """Return events that one more listens to."""
        more = Events(*self._listeners, listener)
        more.stage = self.stage
        return more

    def tell(self, event: Event) -> None:
        """Tell every listener."""
        if isinstance(event, Stage):
            self.stage = event.name
        for listener in self._all:
            listener.hear(event)

    def task(
        self,
        name: str,
        work: Callable[[], R],
        label: str | None = None,
        kept: Callable[[R], bool] = lambda _: False,
    ) -> R:
        """Carry out a task, shown by every listener that shows tasks."""
        for listener in self._listeners:
            work = listener.task(name, label or name, work, kept)
        return work()


class Pace:
    """Let something happen at most once in so many seconds, from any thread."""

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds, self._last, self._lock = seconds, -float("inf"), threading.Lock()

    def due(self) -> bool:
        """Whether it may happen now; a yes counts as done."""
        with self._lock:
            now = time.monotonic()
            if now - self._last < self._seconds:
                return False
            self._last = now
            return True
