"""Every installed pipeline as a Prefect flow under its name, for schedules and scripts.

``from flows.pipelines import keywords``; the entry point of a deployment is
``flows.pipelines.keywords``. A flow is made when it is asked for.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from flows.catalogue import PIPELINES, pipeline_named


@cache
def __getattr__(name: str) -> Any:
    if name not in PIPELINES:
        raise AttributeError(f"no installed package registers a pipeline {name!r}")
    from flows.run.pipeline import run_pipeline
    from flows.run.prefect.flow import pipeline_flow

    family = pipeline_named(name)
    return pipeline_flow(name, family.settings, partial(run_pipeline, family))
