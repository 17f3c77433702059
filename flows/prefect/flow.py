"""A pipeline as a Prefect flow: recorded where a server is configured, a plain call elsewhere."""

from __future__ import annotations

import inspect
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, get_type_hints

from prefect import Flow, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    temporary_settings,
)
from prefect.states import Cancelled, Completed, Crashed
from prefect.utilities.callables import get_call_parameters

from flows import storage
from flows.escape import escaped
from flows.events import Events
from flows.faults import InputError, Interrupted, RunError, first_line
from flows.fit.job import ClusterLost
from flows.prefect import flow_run_id, lost, unanswered
from flows.prefect.recorder import CancelledOnPage
from flows.records.lock import RunBusy
from flows.settings.load import validated


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

_PARAMETERS = """
Args:
    run: A finished run: its target, or TARGET/runs/RUN_ID.
    source: Paths, folders, globs or URLs (s3://...) of the input.
    target: Folder or URL that gets the run.
    settings: What is fitted, and how long.
    compute: Where: in one process, unless workers or a scheduler are given.
    since: latest, or a finished run's id: only what is new since is read.
    resume: auto (of this very request), latest or the id of an unfinished run;
        empty for a new run.
"""  # in the form that Prefect reads for the form on its page


@dataclass
class _Body:
    """How the body of a flow ended, which is its end even where the server has gone."""

    error: BaseException | None = None
    outcome: Any = None
    ends: ExitStack = field(default_factory=ExitStack)  # of settings

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function and note how it ends."""
        try:
            with _sigterm_as_interrupt():  # Prefect makes something else of it
                self.outcome = function(*args, **kwargs)
        except BaseException as error:
            self.error = error
            raise
        finally:
            if why := unanswered(PREFECT_API_URL.value()):
                lost.append(why)
                # Prefect would try for minutes to record the end.
                self.ends.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))
        return self.outcome


_body: ContextVar[_Body | None] = ContextVar("vbflows_body", default=None)


class PipelineFlow(Flow[..., Any]):
    """A flow that is a plain call where no Prefect server is configured.

    Prefect itself would start a server there that needs no password.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the pipeline."""
        if not (flow_run_id() or PREFECT_API_URL.value()):
            return self.fn(**self.validate_parameters(get_call_parameters(self.fn, args, kwargs)))
        body = _Body()
        token = _body.set(body)
        try:
            with body.ends:
                return super().__call__(*args, **kwargs)
        except Exception as error:
            if body.error is not None:
                raise body.error from None
            if body.outcome is None:
                raise
            Events().say(f"The end of this run is not recorded: {first_line(error)}")
            return body.outcome
        finally:
            _body.reset(token)

    def validate_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as the function takes them; refuse settings as the command does."""
        kinds, names = get_type_hints(self.fn), {"settings", "compute"} & {*parameters}
        made = {name: validated(kinds[name], parameters[name]) for name in names}
        return super().validate_parameters({**parameters, **made})

    def with_options(self, **changes: Any) -> Any:
        """Return the flow with other options."""
        changed = super().with_options(**changes)
        changed.__class__ = type(self)  # Prefect makes a plain flow of it
        return changed


def flow(function: Callable[..., Any]) -> PipelineFlow:
    """Make a function a flow of its name.

    It ends as cancelled by a Cancel on Prefect's page, and where another run of its target goes.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            body = _body.get()
            run = function if body is None else partial(body.run, function)
            outcome = run(*args, **kwargs)
            if not flow_run_id():
                return outcome
            return Completed(message=escaped(outcome["headline"]), data=outcome)
        except (Interrupted, RunBusy) as error:
            if not flow_run_id():
                raise
            cancelled = isinstance(error, RunBusy) or isinstance(error.__cause__, CancelledOnPage)
            return (Cancelled if cancelled else Crashed)(message=escaped(str(error)))

    description = inspect.cleandoc(function.__doc__ or "")
    call.__doc__ = f"{description}\n{_PARAMETERS}"
    return PipelineFlow(
        call,
        name=function.__name__,
        flow_run_name=_run_name,
        description=description,
        persist_result=False,
    )


def _run_name() -> str:
    """Name a flow run by its source and its start, unless a deployment's user may have named it."""
    context: Any = FlowRunContext.get()
    run, source = context.flow_run, storage.given(context.parameters["source"]) or ["nothing"]
    if run.deployment_id and not run.auto_scheduled:
        return str(run.name)
    place = "/".join(storage.shown(source[0]).rpartition("://")[2].rstrip("/").split("/")[-2:])
    more = f" and {len(source) - 1} more" if len(source) > 1 else ""
    return f"{place}{more}, {run.expected_start_time:%Y-%m-%d %H:%M} UTC"


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


OPTIONS: dict[str, Any] = {"retries": 2, "retry_delay_seconds": [10.0, 60.0]}
"""What a stage's task has, unless `flows.stages.Stage.with_options` says otherwise.

No tags: Prefect would request a slot of each from the server, and a server that has gone would end
the run.
"""


def task_of(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a function as a task of its name."""
    made: Any = task
    fixed = {
        "task_run_name": function.__name__,
        "persist_result": False,
        "cache_policy": NO_CACHE,
        "retry_condition_fn": lambda task, task_run, state: is_transient(state.data),
    }
    return made(function, **{**fixed, **OPTIONS, **options})


def is_transient(error: object) -> bool:
    """Whether the same stage may succeed a little later."""
    return isinstance(
        error, storage.TransientStorageError | ConnectionError | TimeoutError | ClusterLost
    )
