"""Every installed pipeline as a Prefect flow under its name, for schedules and scripts.

``from flows.pipelines import keywords``; the entry point of a deployment is
``flows.pipelines.keywords``. A flow is made when it is asked for.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from flows.catalogue import PIPELINES, pipeline_named
from flows.settings import ComputeSettings


def score(
    run: str, source: str, target: str, compute: ComputeSettings | None = None
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data and publish the result.

    Parameters
    ----------
    run
        The finished run: its target, or TARGET/runs/RUN_ID.
    source
        Path, folder, glob or URL of the new data.
    target
        Folder or URL that gets the scores.
    compute
        Where to compute; by default in this process.
    """
    from flows.run.events import Events
    from flows.run.pipeline import score_pipeline

    where = compute or ComputeSettings.model_validate({})
    return score_pipeline(run, Events(), source, target, where)


@cache
def __getattr__(name: str) -> Any:
    if name not in PIPELINES:
        raise AttributeError(f"no installed package registers a pipeline {name!r}")
    from flows.run.pipeline import run_pipeline
    from flows.run.prefect.flow import pipeline_flow

    family = pipeline_named(name)
    return pipeline_flow(name, family.settings, partial(run_pipeline, family))
