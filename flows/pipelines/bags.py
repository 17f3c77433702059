"""The bags pipeline as a Prefect flow, for schedules, deployments and scripts."""

from __future__ import annotations

from functools import partial

from flows.families.bags import FAMILY
from flows.pipelines.flow import pipeline_flow
from flows.pipelines.run import run_pipeline

bags = pipeline_flow("bags", FAMILY.settings, partial(run_pipeline, FAMILY))
