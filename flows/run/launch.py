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
from flows.run.prefect.record import Body, record
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
    return _run(name, body, source, target, settings, compute, resume, since, recorded, listener)


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

    def body(
        events: Events, source: str, target: str, _: Any, compute: ComputeSettings, *__: Any
    ) -> dict[str, Any]:
        return score_pipeline(run, events, source, target, compute)

    settings = RunSettings()
    return _run("score", body, source, target, settings, compute, None, None, recorded, listener)


def _run(
    name: str,
    body: Body[dict[str, Any]],
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
    since: str | None,
    recorded: bool,
    listener: Listener | None,
) -> dict[str, Any]:
    request = (source, target, settings, compute, resume, since)
    events = Events() if listener is None else Events(listener)
    with _interrupts_as_failures():
        if not recorded:
            return body(events, *request)
        # Before the seconds that it takes to begin.
        events.tell(Stage("prefect (--no-record goes without)"))
        return record(name, body, *request, events=events)


def _refuse_secrets(*urls: str) -> None:
    """Refuse them before Prefect records them as parameters of the run."""
    try:
        for url in urls:
            storage.refuse_secrets(url)
    except storage.StorageError as error:
        fault = Fault(file="command line", expected="a URL without secrets", found=str(error))
        raise InputError([fault]) from error


@contextmanager
def _interrupts_as_failures() -> Iterator[None]:
    """Let a run that was stopped by hand fail with its own sentence."""
    try:
        yield
    except Interrupted as error:
        how = str(error.__cause__ or "") or "interrupted"
        raise RunError(f"{how}; {error}") from error
