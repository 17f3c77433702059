"""A pipeline as a Prefect flow, whose parameters make a form on Prefect's page."""

from __future__ import annotations

import inspect
from typing import Any

from prefect import Flow, flow
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogHandler
from prefect.task_runners import ThreadPoolTaskRunner

from flows.pipelines.record import Body
from flows.pipelines.recorded import Recorded
from flows.pipelines.stages import threads
from flows.settings import ComputeSettings, RunSettings

_TITLES = {
    "source": "Source",
    "target": "Target",
    "settings": "Settings",
    "compute": "Where it is computed",
    "resume": "Run to resume",
}


def pipeline_flow(family: str, kind: type[RunSettings], body: Body[Any]) -> Flow[..., Any]:
    """Return the flow of a family; its parameters carry the family's settings as a form."""

    def pipeline(
        source: str, target: str, settings: Any, compute: ComputeSettings, resume: str | None
    ) -> Any:
        return body(Recorded(), source, target, settings, compute, resume)

    pipeline.__signature__ = _signature(kind)  # type: ignore[attr-defined]
    pipeline.__doc__ = f"""{kind.__doc__}

    Args:
        source: Path, glob or URL (s3://, anything fsspec knows) of the input.
        target: Folder or URL under which the run is published.
        settings: What the model is and when it stops.
        compute: Local workers, or a running cluster; empty: in one process.
        resume: Name of an unfinished run under the target; empty: a new run.
    """
    made = flow(
        pipeline,
        name=family,
        description=kind.__doc__,
        task_runner=ThreadPoolTaskRunner(max_workers=threads()),
        persist_result=False,
    )
    for name, schema in made.parameters.properties.items():
        schema["title"] = _TITLES[name]
    return made


def _signature(kind: type[RunSettings]) -> inspect.Signature:
    """Return the parameters that Prefect shows and checks."""
    empty = inspect.Parameter.empty
    parameters = [
        ("source", str, empty),
        ("target", str, empty),
        ("settings", kind, kind.model_validate({})),
        ("compute", ComputeSettings, ComputeSettings.model_validate({})),
        ("resume", str | None, None),
    ]
    return inspect.Signature(
        [
            inspect.Parameter(
                name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind
            )
            for name, kind, default in parameters
        ]
    )


def drain() -> None:
    """Wait until the records of finished runs have reached the server."""
    EventsWorker.drain_all(timeout=10.0)
    APILogHandler().flush()
