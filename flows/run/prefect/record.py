"""Run a pipeline inside a Prefect flow, or without one where no server is to be had."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Generic, TypeVar

from flows.data.storage import Sources
from flows.run.events import Events, Line
from flows.settings import ComputeSettings, RunSettings

R = TypeVar("R")
Body = Callable[[Events, Sources, str, Any, ComputeSettings, str | None, str | None], R]
"""What a flow runs: events, source, target, settings, compute, the run to resume, since which."""

_RETRIES = 3  # requests to a server that stopped answering: 14 s in all, not Prefect's 62
_ANSWER_SECONDS = 10.0  # for each, not Prefect's 60


def record(
    family: str,
    body: Body[R],
    source: Sources,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
    since: str | None = None,
    *,
    events: Events,
) -> R:
    """Run a pipeline as a Prefect flow and return what its body returns.

    The server is the one that ``PREFECT_API_URL`` (or Prefect's profile) names, else one that
    lives as long as the run. Where neither answers, one line says so and the same body runs
    unrecorded. An exception of the body arrives unchanged; Ctrl-C and SIGTERM arrive as
    ``KeyboardInterrupt``, after the end of the run is recorded; so does a Cancel on Prefect's page,
    which is heeded between stages and sweeps. Where the server is gone by the end of the body,
    that costs 35 seconds at most.
    """
    watched = _Watched(body)
    request = (source, target, settings, compute, resume, since)
    with _sigterm_as_interrupt():
        try:
            with _quiet(), _server() as flow_of, watched.hurried:
                flow_of(family, type(settings), watched, events)(*request)
        except (Exception, KeyboardInterrupt) as error:
            if watched.stopped is not None:
                raise watched.stopped from watched.stopped.__cause__
            if watched.error is not None:
                raise watched.error from watched.error.__cause__
            if watched.finished:
                events.tell(Line(f"The end of this run is not recorded: {_line(error)}"))
            elif watched.begun or isinstance(error, KeyboardInterrupt):
                raise
            else:
                events.tell(Line(f"This run is not recorded: {_line(error)}"))
        if not watched.begun:
            return body(events, *request)
    return watched.result


class _Watched(Generic[R]):
    """A body, and how far it came: tells its failures from those of Prefect around it."""

    def __init__(self, body: Body[R]) -> None:
        self._body = body
        self.begun = self.finished = False
        self.hurried = ExitStack()  # how the end is recorded where the server is gone
        self.error: Exception | None = None
        self.stopped: KeyboardInterrupt | None = None
        self.result: R

    def __call__(self, events: Events, *request: Any) -> None:
        self.begun = True
        try:
            with _sigterm_as_interrupt():  # inside the flow Prefect makes something else of it
                self.result = self._body(events, *request)
            self.finished = True
        except Exception as error:
            self.error = error
            raise
        except KeyboardInterrupt as error:
            self.stopped = error
            raise
        finally:
            self._hurry()

    def _hurry(self) -> None:
        """Let the flow try only once to record its end with a server that does not answer."""
        from prefect.settings import (
            PREFECT_API_URL,
            PREFECT_CLIENT_MAX_RETRIES,
            temporary_settings,
        )

        from flows.run.prefect import server

        try:
            server.check(PREFECT_API_URL.value())
        except server.NoServer:
            self.hurried.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))


@contextmanager
def _server() -> Iterator[Callable[..., Callable[..., Any]]]:
    """Yield what makes flows, while a server answers; see its records off at the end."""
    from prefect.settings import (
        PREFECT_API_REQUEST_TIMEOUT,
        PREFECT_CLIENT_MAX_RETRIES,
        temporary_settings,
    )

    from flows.run.prefect import server
    from flows.run.prefect.flow import drain, pipeline_flow

    patience: dict[Any, Any] = {
        PREFECT_CLIENT_MAX_RETRIES: _RETRIES,
        PREFECT_API_REQUEST_TIMEOUT: _ANSWER_SECONDS,
    }
    with server.running(), temporary_settings(patience):
        try:
            yield pipeline_flow
        finally:
            drain()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Prefect's log off the terminal: it goes to the run's page."""
    if os.environ.get("VBFLOWS_DEBUG"):
        yield
        return
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a home that cannot be made is told once, by `record`
        import prefect.main  # noqa: F401  configures logging for the whole process

    root.handlers[:], root.level = before, level
    for name in ("prefect", "prefect._internal"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = False
    raises, logging.raiseExceptions = logging.raiseExceptions, False  # else it writes to stderr
    try:
        yield
    finally:
        logging.raiseExceptions = raises


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
