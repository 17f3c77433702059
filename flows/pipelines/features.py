"""The features pipeline as a Prefect flow, for schedules, deployments and scripts."""

from __future__ import annotations

from functools import partial

from flows.features.family import FAMILY
from flows.run.pipeline import run_pipeline
from flows.run.prefect.flow import pipeline_flow

features = pipeline_flow("features", FAMILY.settings, partial(run_pipeline, FAMILY))
