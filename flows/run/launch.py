"""Start a pipeline from the command line: recorded by Prefect where that is possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.faults import Fault, InputError, RunError
from flows.run.events import Events, Listener, Stage
from flows.run.pipeline import Interrupted, run_pipeline, score_pipeline
from flows.run.prefect.record import record
from flows.settings import ComputeSettings, RunSettings


def launch(
    name: str,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None = None,
    recorded: bool = True,
    since: str | None = None,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Run a pipeline by name, with a record in Prefect unless told otherwise."""
    _refuse_secrets(source, target)
    body = partial(run_pipeline, pipeline_named(name))
    request = (source, target, settings, compute, resume, since)
    with _begun(listener, recorded) as events:
        return record(name, body, *request, events=events) if recorded else body(events, *request)


def launch_score(
    run: str,
    source: str,
    target: str,
    compute: ComputeSettings,
    recorded: bool = True,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Apply a fitted run to new data; return what to print."""
    _refuse_secrets(run, source, target)

    def body(events: Events, *_: Any) -> dict[str, Any]:
        return score_pipeline(run, events, source, target, compute)

    with _begun(listener, recorded) as events:
        if not recorded:
            return body(events)
        settings = RunSettings()
        return record("score", body, source, target, settings, compute, None, events=events)


def _refuse_secrets(*urls: str) -> None:
    """Refuse them before Prefect records them as parameters of the run."""
    try:
        for url in urls:
            storage.refuse_secrets(url)
    except storage.StorageError as error:
        fault = Fault(file="command line", expected="a URL without secrets", found=str(error))
        raise InputError([fault]) from error


@contextmanager
def _begun(listener: Listener | None, recorded: bool) -> Iterator[Events]:
    """Yield the events of a run; one that is stopped by hand fails with its own sentence."""
    events = Events() if listener is None else Events(listener)
    if recorded:  # before the seconds that it takes to begin
        events.tell(Stage("prefect (--no-record goes without)"))
    try:
        yield events
    except Interrupted as error:
        how = str(error.__cause__ or "") or "interrupted"
        raise RunError(f"{how}; {error}") from error
