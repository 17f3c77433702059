"""The variants pipeline as a Prefect flow, for schedules, deployments and scripts."""

from __future__ import annotations

from functools import partial

from flows.run.pipeline import run_pipeline
from flows.run.prefect.flow import pipeline_flow
from flows.variants.family import FAMILY

variants = pipeline_flow("variants", FAMILY.settings, partial(run_pipeline, FAMILY))
