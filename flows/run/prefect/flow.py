"""A pipeline as a Prefect flow, whose parameters make a form on Prefect's page."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated, Any

from prefect import Flow
from prefect.context import FlowRunContext
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogHandler, APILogWorker
from prefect.states import Cancelled
from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from flows.data.storage import Sources
from flows.run.events import Events
from flows.run.prefect import server
from flows.run.prefect.recorder import Recorder
from flows.settings import ComputeSettings, RunSettings, in_order

_KINDS = {"integer": "number", "number": "number", "string": "text", "null": "default"}


def pipeline_flow(
    family: str, kind: type[RunSettings], body: Callable[..., Any], events: Events | None = None
) -> Flow[..., Any]:
    """Return the flow of a family; its parameters carry the family's settings as a form.

    Parameters
    ----------
    body
        What the flow runs: with events that are recorded, and the parameters.
    events
        Who else listens.
    """

    def pipeline(
        source: Sources,
        target: str,
        settings: Any,
        compute: ComputeSettings,
        resume: str | None,
        since: str | None,
    ) -> Any:
        recorder = Recorder(compute.reports)
        on_progress = (events or Events()).joined(recorder)
        try:
            return body(on_progress, source, target, settings, compute, resume, since)
        except KeyboardInterrupt as error:
            if recorder.cancelled:
                return Cancelled(message=str(error))
            raise

    pipeline.__signature__ = _signature(kind)  # type: ignore[attr-defined]
    return _PipelineFlow(
        pipeline,
        name=family,
        description=inspect.cleandoc(kind.__doc__ or ""),
        persist_result=False,
    )


class _PipelineFlow(Flow[..., Any]):
    """A flow that, where no server is configured, runs with one that needs a password.

    Prefect would start one that needs none. Inside another flow the server is that flow's.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with nullcontext() if FlowRunContext.get() else server.running():
            return super().__call__(*args, **kwargs)

    def with_options(self, **changes: Any) -> Any:
        changed = super().with_options(**changes)
        changed.__class__ = type(self)  # Prefect makes a plain flow of it
        return changed


def drain() -> None:
    """Wait until the records of finished runs have reached the server, ten seconds at most."""
    kinds: list[Any] = [EventsWorker, APILogWorker]
    workers = [worker for kind in kinds for worker in kind._instances.values()]
    EventsWorker.drain_all(timeout=5.0)
    APILogHandler().flush()  # five seconds, by Prefect
    for worker in workers:  # at exit Prefect would wait for the rest without a limit
        if worker._loop is not None and worker._done_event is not None:
            worker._loop.call_soon_threadsafe(worker._done_event.set)


class _Form:
    """Arranges a parameter for a person: the family's own fields first, choices in words."""

    def __init__(self, kind: Any) -> None:
        self._names = in_order(kind) if isinstance(kind, type) else []

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        found = handler(core)
        schema = handler.resolve_ref_schema(found)
        fields = schema.get("properties", {})
        for position, name in enumerate(self._names):
            fields[name]["position"] = position
        for field in [schema, *fields.values()]:
            for choice in field.get("anyOf", ()):
                choice.setdefault("title", _KINDS.get(choice.get("type", ""), "choice"))
        return found


def _signature(kind: type[RunSettings]) -> inspect.Signature:
    """Return the parameters that Prefect shows and checks."""
    compute = ComputeSettings
    return inspect.Signature(
        [
            _parameter(
                "source", Sources, ..., "Source", "Paths, globs or URLs (s3://...) of the input."
            ),
            _parameter("target", str, ..., "Target", "Folder or URL that gets the run."),
            _parameter(
                "settings", kind, kind.model_validate({}), "Settings", "What is fitted, how long."
            ),
            _parameter(
                "compute",
                compute,
                compute.model_validate({}),
                "Where it is computed",
                "In one process, unless workers or a scheduler are given.",
            ),
            _parameter(
                "resume", str | None, None, "Resume", "Name of an unfinished run under the target."
            ),
            _parameter(
                "since",
                str | None,
                None,
                "Since",
                "latest, or the name of a finished run: only what is new is read.",
            ),
        ]
    )


def _parameter(
    name: str, kind: Any, default: Any, title: str, description: str
) -> inspect.Parameter:
    field = Field(default, description=description, json_schema_extra={"title": title})
    return inspect.Parameter(
        name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=field,
        annotation=Annotated[kind, _Form(kind)],
    )
