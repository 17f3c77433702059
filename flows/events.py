"""What happens in a run: events for the terminal, Python's log, Prefect and installed packages.

A listener is an object with ``on_event``. What a listener of ours raises stops the run: a Cancel on
Prefect's page does. Those of other packages cannot stop it (`flows.events`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # the command line needs no arrays to print an event
    from flows.records.runs import InputRecord, RunRecord

_log = logging.getLogger("vbflows.pipeline")

STAGES = ("check", "ingest", "prepare", "fit", "score", "publish")
"""Of a run, in their order; a score loads a posterior in place of a fit."""


@dataclass(frozen=True)
class Requested:
    """A run is requested; nothing of its input has been read."""

    run_id: str  # empty where it is not known yet which unfinished run goes on
    pipeline: str
    sources: tuple[str, ...]
    target: str
    settings: Mapping[str, Any]
    fitted: str | None = None  # the finished run that is applied to new data
    resumed: bool = False  # whether it goes on with an earlier attempt


@dataclass(frozen=True)
class Started:
    """A run has its name."""

    run_id: str


@dataclass(frozen=True)
class TakenOver:
    """A process has died that had this run, or a run of its target; this one goes on."""

    flow_run: str  # the id of Prefect's, where that process had one


@dataclass(frozen=True)
class Accepted:
    """The input is right; this is what there is of it."""

    inputs: Sequence[InputRecord]


@dataclass(frozen=True)
class Stage:
    """A stage begins."""

    name: str


@dataclass(frozen=True)
class Progress:
    """So much of a stage is done."""

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class Sweep:
    """A sweep of the fit is done."""

    iteration: int
    elbo: float
    change: float | None  # None also where a phase with another objective begins
    left: float | None  # an estimate of the sweeps to come, if there is one
    most: int  # sweeps after which the fit stops at the latest
    phase: str = ""  # of a fit that has phases
    seconds: float | None = None  # an estimate of the time to come, at the rate so far
    objective: str = "bound"  # what ``elbo`` is

    @property
    def expected(self) -> float | None:
        """An estimate of all sweeps of the fit, if there is one."""
        return None if self.left is None else self.iteration + 1 + self.left

    def in_words(self) -> str:
        """Return a line: the sweep, what it climbed, the time to come."""
        text = f"{self.phase}, " if self.phase else ""
        text += f"sweep {self.iteration + 1}: {self.objective} {self.elbo:,.4f}"
        if self.change is not None:
            text += f", change {self.change:+.3g}"
        if self.phase and self.seconds is not None:
            text += f", about {max(self.seconds, 1.0):,.0f} s left"
        return text


@dataclass(frozen=True)
class Message:
    """Something is worth a line."""

    text: str


@dataclass(frozen=True)
class Published:
    """A run can be seen: its record, the address of its report, and a summary in Markdown."""

    record: RunRecord
    report: str
    summary: str


@dataclass(frozen=True)
class Failed:
    """A run has ended without a result: it was refused, failed, or was stopped by hand."""

    error: BaseException


Event = (
    Requested
    | Started
    | TakenOver
    | Accepted
    | Stage
    | Progress
    | Sweep
    | Message
    | Published
    | Failed
)


class Listener(Protocol):
    """Takes what happens in a run."""

    def on_event(self, event: Event) -> None:
        """Take an event, from any thread."""


_listening: ContextVar[tuple[Listener, ...]] = ContextVar("vbflows_listening", default=())


@contextmanager
def listening(*listeners: Listener) -> Iterator[None]:
    """Let these listeners follow every run that begins within the block."""
    token = _listening.set((*_listening.get(), *listeners))
    try:
        yield
    finally:
        _listening.reset(token)


class Events:
    """Passes events to listeners: those of `listening`, and those given. Python's log has lines."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = [*_listening.get(), *listeners]
        self.stage = "check"  # that runs, or ran last

    def add(self, listener: Listener) -> None:
        """Let one more listener follow."""
        self.listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Pass an event to every listener."""
        match event:
            case Stage(name):
                self.stage = name
            case Started(run_id):
                _log.info("run %s", run_id)
            case Message(text):
                _log.info("%s", text)
        for listener in self.listeners:
            listener.on_event(event)

    def say(self, text: str) -> None:
        """Pass a line."""
        self.emit(Message(text))


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


GROUP = "vbflows.listeners"


class Installed:
    """The listener of a package: one event at a time; after its first exception, none.

    Parameters
    ----------
    point
        Where the package says its class is.
    warn
        Shows a sentence to the user.
    """

    def __init__(self, point: EntryPoint, warn: Callable[[str], None]) -> None:
        self._point, self._warn = point, warn
        self._lock = threading.RLock()
        self._listener: Any = None
        self._failed = False

    def on_event(self, event: Event) -> None:
        """Hand an event on."""
        with self._lock:
            if self._failed:
                return
            try:
                if self._listener is None:
                    self._listener = self._point.load()()
                self._listener.on_event(event)
            except Exception as error:  # of another package: it must not end the run
                self._failed = True
                what = str(error) or type(error).__name__
                self._warn(
                    f"warning: the listener {self._point.name} ({self._point.value}) failed and "
                    f"gets no more events: {what}"
                )


def installed(warn: Callable[[str], None]) -> list[Installed]:
    """Return the listeners of installed packages."""
    return [Installed(point, warn) for point in sorted(entry_points(group=GROUP))]
