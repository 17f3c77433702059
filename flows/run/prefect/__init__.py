"""Prefect: a run as a flow, its stages as tasks, its schedule, its secrets."""
