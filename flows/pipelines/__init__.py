"""The pipelines as Prefect flows, each under its name, for schedules and deployments."""
