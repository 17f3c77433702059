"""Who else hears of a run, where the environment asks for it: OpenLineage and OpenTelemetry.

Each hears in a thread of its own, which also loads its library, so that a receiver that is slow or
down keeps no run waiting: at the end it is waited for, `PATIENCE` seconds at most. What goes wrong
there is one line and never the end of a run.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Protocol

from flows.data import storage
from flows.run.events import Asked, Event, Events, Failed, Line, Listener, PartDone
from flows.run.lineage import switch as lineage
from flows.run.running import Run
from flows.run.telemetry import switch as telemetry

PATIENCE = 3.0  # seconds that the end of a run waits for what is not sent yet
_IMPATIENCE = 0.3  # seconds, where the receiver did not answer before
_LOOK = 0.02  # seconds between two looks whether all is sent
_UNHEARD = (Line, PartDone)


class Receiver(Protocol):
    """Sends what it is told to somewhere, one event after the other."""

    def take(self, moment: int, event: Event) -> None:
        """Take an event.

        Parameters
        ----------
        moment
            When it happened, in nanoseconds since 1970.
        event
            What happened.
        """

    def close(self) -> None:
        """Send what is left."""


@dataclass(frozen=True)
class Switch:
    """A receiver that can be asked for.

    Attributes
    ----------
    name
        What people call it.
    extra
        The extra of this package that installs its library.
    module
        Where its `receiver` is.
    loggers
        Where its library logs that nobody answers.
    """

    name: str
    extra: str
    module: str
    loggers: tuple[str, ...]


LINEAGE = Switch("OpenLineage", "lineage", "flows.run.lineage.receiver", ("openlineage",))
TELEMETRY = Switch(
    "OpenTelemetry",
    "telemetry",
    "flows.run.telemetry.receiver",
    ("opentelemetry.exporter", "opentelemetry.sdk"),
)


class Aside(Listener):
    """Hears in a thread of its own.

    Parameters
    ----------
    switch
        Which receiver is asked for.
    asked_by
        The environment variable that asks for it.
    say
        Tells the run's own listeners what is worth a line.
    """

    def __init__(self, switch: Switch, asked_by: str, say: Callable[[str], None]) -> None:
        self._switch, self._asked_by, self._say = switch, asked_by, say
        self._told: queue.SimpleQueue[tuple[int, Event] | None] = queue.SimpleQueue()
        self._warned = False
        self._thread = threading.Thread(target=self._work, name=switch.name, daemon=True)
        self._thread.start()

    def hear(self, event: Event) -> None:
        """Note an event and when it happened."""
        if not isinstance(event, _UNHEARD):
            self._told.put((time.time_ns(), event))

    def finish(self) -> None:
        """Let what was told be the last."""
        self._told.put(None)

    def wait(self, until: float) -> None:
        """Wait for what is not sent yet.

        Parameters
        ----------
        until
            `PATIENCE` after the run's end, by the monotonic clock.
        """
        while self._thread.is_alive() and time.monotonic() < until:
            if self._warned and time.monotonic() > until - PATIENCE + _IMPATIENCE:
                break
            self._thread.join(_LOOK)
        if self._thread.is_alive():
            self.warn("its receiver did not answer in time")

    def warn(self, what: str) -> None:
        """Say what is wrong, once."""
        if not self._warned:
            self._warned = True
            self._say(f"{self._switch.name} ({self._asked_by}) may miss events of this run: {what}")

    def _work(self) -> None:
        with _OneWord(self._switch.loggers, self.warn):
            self._send()

    def _send(self) -> None:
        try:
            receiver: Receiver = import_module(self._switch.module).receiver()
        except ImportError as error:
            self.warn(f"{error}; pip install 'vbflows[{self._switch.extra}]'")
            return
        except Exception as error:
            self.warn(_line(error))
            return
        while (told := self._told.get()) is not None:
            self._carefully(partial(receiver.take, *told))
        self._carefully(receiver.close)

    def _carefully(self, send: Callable[[], None]) -> None:
        try:
            send()
        except Exception as error:  # whatever a receiver makes of it: it is no fault of the run
            self.warn(_line(error))


class _OneWord(logging.Handler):
    """Makes one word of all that a library logs of a receiver that does not answer."""

    def __init__(self, loggers: Sequence[str], warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn, self._loggers = warn, [logging.getLogger(name) for name in loggers]
        self._before = [logger.propagate for logger in self._loggers]

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        self._warn(_shortly(record.getMessage()))

    def __enter__(self) -> None:
        for logger in self._loggers:
            logger.addHandler(self)
            logger.propagate = False

    def __exit__(self, *_: object) -> None:
        for logger, propagate in zip(self._loggers, self._before, strict=True):
            logger.removeHandler(self)
            logger.propagate = propagate


@contextmanager
def outward(run: Run) -> Iterator[None]:
    """Tell those whom the environment names of a run, from its first word to its end."""
    events = run.events

    def say(text: str) -> None:
        events.tell(Line(text))

    aside = [Aside(switch, by, say) for switch, by in _asked_for()]
    run.events = _joined(events, aside)
    fitted = None if run.fitted is None else run.fitted.root
    run.events.tell(
        Asked(
            run.paths.run_id,
            run.family.name,
            storage.source_in_words(run.source),
            run.paths.target,
            run.settings.model_dump(mode="json"),
            fitted,
            run.resumes,
        )
    )
    try:
        yield
    except BaseException as error:
        run.events.tell(Failed(error))
        raise
    finally:
        for one in aside:
            one.finish()
        until = time.monotonic() + PATIENCE
        for one in aside:
            one.wait(until)


def _asked_for() -> Iterator[tuple[Switch, str]]:
    if by := lineage.asked_by():
        yield LINEAGE, by
    if by := telemetry.asked_by():
        yield TELEMETRY, by


def _joined(events: Events, aside: list[Aside]) -> Events:
    for one in aside:
        events = events.joined(one)
    return events


def _line(error: Exception) -> str:
    return _shortly(str(error) or type(error).__name__)


def _shortly(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
