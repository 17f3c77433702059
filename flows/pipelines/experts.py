"""The experts pipeline as a Prefect flow, for schedules, deployments and scripts."""

from __future__ import annotations

from functools import partial

from flows.families.experts import FAMILY
from flows.pipelines.flow import pipeline_flow
from flows.pipelines.run import run_pipeline

experts = pipeline_flow("experts", FAMILY.settings, partial(run_pipeline, FAMILY))
