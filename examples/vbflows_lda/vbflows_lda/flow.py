"""The pipeline as a Prefect flow, for schedules."""

from flows.pipelines import flow_named

lda = flow_named("lda")
