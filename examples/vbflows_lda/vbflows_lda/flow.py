"""The pipeline as a Prefect flow, for schedules and deployments."""

from __future__ import annotations

from functools import partial

from flows.run.pipeline import run_pipeline
from flows.run.prefect.flow import pipeline_flow
from vbflows_lda.family import FAMILY

lda = pipeline_flow("lda", FAMILY.settings, partial(run_pipeline, FAMILY))
