"""The bags pipeline as a Prefect flow, for schedules, deployments and scripts."""

from __future__ import annotations

from functools import partial

from flows.bags.family import FAMILY
from flows.run.pipeline import run_pipeline
from flows.run.prefect.flow import pipeline_flow

bags = pipeline_flow("bags", FAMILY.settings, partial(run_pipeline, FAMILY))
