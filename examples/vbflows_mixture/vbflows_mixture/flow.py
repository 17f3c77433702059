"""The pipeline as a Prefect flow, for schedules and deployments."""

from __future__ import annotations

from functools import partial

from flows.run.pipeline import run_pipeline
from flows.run.prefect.flow import pipeline_flow
from vbflows_mixture.family import FAMILY

mixture = pipeline_flow("mixture", FAMILY.settings, partial(run_pipeline, FAMILY))
