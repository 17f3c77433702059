"""Start a pipeline from the command line: recorded by Prefect where a server is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic import BaseModel

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.faults import Fault, InputError, RunError
from flows.run.events import Events, Listener, Stage
from flows.run.memory import require_memory
from flows.run.pipeline import Interrupted, run_pipeline, score_pipeline
from flows.run.prefect.profile import names_server
from flows.run.prefect.record import record as record_run
from flows.settings import ComputeSettings, RunSettings


def launch(
    name: str,
    source: storage.Sources,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None = None,
    record: bool = False,
    since: str | None = None,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Run a pipeline by name; Prefect records it where a server is configured, or on request."""
    require_memory()
    _refuse_secrets(*storage.given(source), target, settings, compute)
    body = partial(run_pipeline, pipeline_named(name))
    request = (source, target, settings, compute, resume, since)
    recorded = record or names_server()
    with _begun(listener, recorded) as events:
        if not recorded:
            return body(events, *request)
        return record_run(name, body, *request, events=events)


def launch_score(
    run: str,
    source: storage.Sources,
    target: str,
    compute: ComputeSettings,
    record: bool = False,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Apply a fitted run to new data; return what to print."""
    require_memory()
    _refuse_secrets(run, *storage.given(source), target, compute)

    def body(events: Events, *_: Any) -> dict[str, Any]:
        return score_pipeline(run, events, source, target, compute)

    recorded = record or names_server()
    with _begun(listener, recorded) as events:
        if not recorded:
            return body(events)
        settings = RunSettings()
        return record_run("score", body, source, target, settings, compute, None, events=events)


def _refuse_secrets(*given: str | BaseModel) -> None:
    """Refuse URLs with secrets before Prefect and run.json record them, in settings too."""
    try:
        for one in given:
            for text in _texts(one.model_dump() if isinstance(one, BaseModel) else one):
                storage.refuse_secrets(text)
    except storage.StorageError as error:
        fault = Fault(file="command line", expected="a URL without secrets", found=str(error))
        raise InputError([fault]) from error


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a setting's plain value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for own in value.values():
            yield from _texts(own)
    elif isinstance(value, list | tuple | set | frozenset):
        for own in value:
            yield from _texts(own)


@contextmanager
def _begun(listener: Listener | None, recorded: bool) -> Iterator[Events]:
    """Yield the events of a run; one that is stopped by hand fails with its own sentence."""
    events = Events() if listener is None else Events(listener)
    if recorded:  # before the seconds that it takes to begin
        events.tell(Stage("prefect"))
    try:
        yield events
    except Interrupted as error:
        how = str(error.__cause__ or "") or "interrupted"
        raise RunError(f"{how}; {error}") from error
