"""A pipeline as a Prefect flow: recorded where a server is configured, a plain call elsewhere."""

from __future__ import annotations

import inspect
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

from prefect import Flow, task
from prefect.cache_policies import NO_CACHE
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogHandler, APILogWorker
from prefect.settings import (
    PREFECT_API_REQUEST_TIMEOUT,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)
from prefect.states import Cancelled, Completed
from prefect.utilities.callables import get_call_parameters

from flows.data import storage
from flows.escape import escaped
from flows.events import Events
from flows.faults import InputError, Interrupted, RunError, first_line
from flows.fit.job import ClusterLost
from flows.prefect import in_flow_run, server
from flows.prefect.recorder import CancelledOnPage


class _Sentences(logging.Filter):
    """Keeps what a person reads: of an error of ours its sentence, no traceback; no empty lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record; say whether it is kept."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, InputError | RunError | Interrupted):
            record.msg, record.args, record.exc_info = escaped(str(error)), (), None
        return record.getMessage() != "Finished in state Completed()"


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_Sentences())

_PATIENCE: dict[Any, Any] = {
    PREFECT_CLIENT_MAX_RETRIES: 3,  # 14 s in all, not Prefect's 62
    PREFECT_API_REQUEST_TIMEOUT: 10.0,  # seconds for each, not Prefect's 60
}


_PARAMETERS = """
Args:
    run: A finished run: its target, or TARGET/runs/RUN_ID.
    source: Paths, folders, globs or URLs (s3://...) of the input.
    target: Folder or URL that gets the run.
    settings: What is fitted, and how long.
    compute: Where it is computed: in one process, unless workers or a scheduler are given.
    since: latest, or the id of a finished run: only what is new since is read.
    resume: An unfinished run to go on with: auto for one of this very request if there is one,
        latest, or its id; empty for a new run.
"""  # in the form that Prefect reads for the form on its page


_body: ContextVar[_Watched | None] = ContextVar("vbflows_body", default=None)


class PipelineFlow(Flow[..., Any]):
    """A flow that is a plain call where no Prefect server is configured.

    Prefect itself would start a server there that needs no password.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the pipeline."""
        if in_flow_run() or PREFECT_API_URL.value():
            return super().__call__(*args, **kwargs)
        return self.plainly(*args, **kwargs)

    def plainly(self, *args: Any, **kwargs: Any) -> Any:
        """Run the pipeline without Prefect."""
        return self.fn(**self.validate_parameters(get_call_parameters(self.fn, args, kwargs)))

    def with_options(self, **changes: Any) -> Any:
        """Return the flow with other options."""
        changed = super().with_options(**changes)
        changed.__class__ = type(self)  # Prefect makes a plain flow of it
        return changed


def flow(function: Callable[..., Any]) -> PipelineFlow:
    """Make a function a flow of its name; a Cancel on Prefect's page ends it as cancelled."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            body = _body.get()
            run = function if body is None else partial(body.run, function)
            outcome = run(*args, **kwargs)
            if not in_flow_run():
                return outcome
            return Completed(message=escaped(outcome["lines"][0]), data=outcome)
        except Interrupted as error:
            if in_flow_run() and isinstance(error.__cause__, CancelledOnPage):
                return Cancelled(message=str(error))
            raise

    description = inspect.cleandoc(function.__doc__ or "")
    call.__doc__ = f"{description}\n{_PARAMETERS}"
    return PipelineFlow(call, name=function.__name__, description=description, persist_result=False)


class _Watched:
    """The body of a flow that the command line records, and how far it came.

    So its failures differ from those of Prefect.
    """

    begun = finished = False
    error: BaseException | None = None
    result: Any = None

    def __init__(self) -> None:
        self.hurried = ExitStack()  # how the end is recorded where the server is gone

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function and note how it ends; a plain call, without a server, is not noted."""
        if not in_flow_run():
            return function(*args, **kwargs)
        self.begun = True
        try:
            with _sigterm_as_interrupt():  # inside the flow Prefect makes something else of it
                self.result = function(*args, **kwargs)
            self.finished = True
            return self.result
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._hurry()

    def _hurry(self) -> None:
        """Let the flow try only once to record its end with a server that does not answer."""
        try:
            server.check(PREFECT_API_URL.value())
        except server.NoServer:
            self.hurried.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))


def recorded(pipeline: PipelineFlow, *args: Any) -> Any:
    """Run a pipeline as a flow, even if the server goes; return what its body returns.

    The server is the one that ``PREFECT_API_URL`` (or Prefect's profile) names, else one that lives
    as long as the run. Where neither answers, one line says so and the pipeline runs plainly. An
    exception of the body arrives unchanged; Ctrl-C and SIGTERM arrive as `Interrupted`, after the
    end of the run is recorded; so does a Cancel on Prefect's page, which is heeded between stages
    and sweeps. Where the server is gone by the end of the body, that costs 35 seconds at most.
    """
    body, say = _Watched(), Events().say
    token = _body.set(body)
    try:
        with _sigterm_as_interrupt():
            try:
                with _quiet(), _server(), body.hurried:
                    pipeline(*args)
            except (Exception, KeyboardInterrupt) as error:
                if body.finished:
                    say(f"The end of this run is not recorded: {first_line(error)}")
                elif body.begun or isinstance(error, KeyboardInterrupt):
                    raise (body.error or error) from None
                else:
                    say(f"This run is not recorded: {first_line(error)}")
            if body.error is not None:
                raise body.error  # a flow that was cancelled ends without one
            return body.result if body.begun else pipeline.plainly(*args)
    finally:
        _body.reset(token)


@contextmanager
def _server() -> Iterator[None]:
    """Have a server that answers, and see its records off at the end."""
    with server.running(), temporary_settings(_PATIENCE):
        try:
            yield
        finally:
            drain()


def drain() -> None:
    """Wait until the records of finished runs have reached the server, ten seconds at most."""
    kinds: list[Any] = [EventsWorker, APILogWorker]
    workers = [worker for kind in kinds for worker in kind._instances.values()]
    EventsWorker.drain_all(timeout=5.0)
    APILogHandler().flush()  # five seconds, by Prefect
    for worker in workers:  # at exit Prefect would wait for the rest without a limit
        if worker._loop is not None and worker._done_event is not None:
            worker._loop.call_soon_threadsafe(worker._done_event.set)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Prefect's log off the terminal: it goes to the run's page."""
    if os.environ.get("VBFLOWS_DEBUG"):
        yield
        return
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a home that cannot be made is a line of `recorded`
        import prefect.main  # noqa: F401  configures logging for the whole process

    root.handlers[:], root.level = before, level
    for name in ("prefect", "prefect._internal", "EventsWorker", "APILogWorker"):
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


OPTIONS: dict[str, Any] = {"retries": 2, "retry_delay_seconds": [10.0, 60.0]}
"""What a stage's task has, unless `flows.stages.Stage.with_options` says otherwise.

No tags: Prefect would request a slot of each from the server, and a server that has gone would end
the run.
"""


def task_of(function: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """Return a function as a task of that name."""
    made: Any = task
    fixed = {"task_run_name": name, "persist_result": False, "cache_policy": NO_CACHE}
    fixed["retry_condition_fn"] = lambda task, task_run, state: is_transient(state.data)
    return made(function, **{"name": name, **fixed, **OPTIONS, **options})


def is_transient(error: object) -> bool:
    """Whether the same stage may succeed a little later."""
    kinds = storage.TransientStorageError | ConnectionError | TimeoutError | ClusterLost
    return isinstance(error, kinds)
