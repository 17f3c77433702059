"""Start a pipeline from the command line: recorded by Prefect where that is possible."""

from __future__ import annotations

from functools import partial
from typing import Any

from flows import watch
from flows.families.catalogue import pipeline_named
from flows.pipelines.record import record
from flows.pipelines.run import run_pipeline, score_pipeline
from flows.pipelines.stages import Plain, Stages
from flows.settings import ComputeSettings, RunSettings


def launch(
    name: str,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None = None,
    recorded: bool = True,
) -> dict[str, Any]:
    """Run a pipeline by name, with a record in Prefect unless told otherwise."""
    body = partial(run_pipeline, pipeline_named(name))
    request = (source, target, settings, compute, resume)
    if not recorded:
        return body(Plain(), *request)
    return record(name, body, *request, say=watch.current.get().log)


def launch_score(
    run: str, source: str, target: str, compute: ComputeSettings, recorded: bool = True
) -> dict[str, Any]:
    """Apply a fitted run to new data; return what to print."""
    if not recorded:
        return score_pipeline(run, Plain(), source, target, compute)

    def body(
        stages: Stages, source: str, target: str, _: Any, compute: ComputeSettings, __: Any
    ) -> dict[str, Any]:
        return score_pipeline(run, stages, source, target, compute)

    return record(
        "score", body, source, target, RunSettings(), compute, None, say=watch.current.get().log
    )
