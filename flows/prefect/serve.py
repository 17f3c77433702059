"""Scheduled runs on one machine: a runner of deployments on the configured Prefect server.

The plan is a YAML file; ``deploy/`` has the same deployments for a cluster.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self
from zoneinfo import available_timezones

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flows import storage
from flows.catalogue import PIPELINES, pipeline_named
from flows.faults import (
    Fault,
    InputError,
    did_you_mean,
    nearest,
    shown,
)
from flows.prefect import require_server
from flows.settings import ComputeSettings, RunSettings
from flows.settings.load import expected_in_words, read_yaml, validated


class Deployment(BaseModel):
    """One pipeline on a schedule."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80, pattern="^[^/%&<>]+$")  # as Prefect has it
    pipeline: str
    source: storage.Sources
    target: str
    cron: str | None = None
    timezone: str = Field("UTC", description="Of cron, such as Europe/Berlin.")
    every: float | None = Field(
        None, ge=1.0, le=366 * 86_400.0, description="Seconds between two runs."
    )
    since: str | None = "latest"
    settings: dict[str, Any] = Field(default_factory=dict)
    compute: ComputeSettings = Field(default_factory=lambda: ComputeSettings.model_validate({}))

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("either cron or every, a number of seconds; found both or neither")
        try:
            for url in (*storage.given(self.source), self.target):
                storage.refuse_secrets(url)
        except storage.StorageError:
            raise ValueError(
                "an address without secrets, which come from the environment; found some"
            ) from None
        if self.cron is not None:
            from prefect.client.schemas.schedules import CronSchedule

            try:
                CronSchedule(cron=self.cron)
            except ValueError:
                raise ValueError(
                    f"a cron expression such as 30 2 * * *; found {self.cron!r}"
                ) from None
        if self.timezone not in available_timezones():
            near = nearest(self.timezone, available_timezones()) or "Europe/Berlin"
            raise ValueError(f"a name of a time zone, such as {near}; found {self.timezone!r}")
        if self.pipeline not in PIPELINES:
            raise ValueError(f"a pipeline out of {', '.join(PIPELINES)}; found {self.pipeline!r}")
        return self

    @property
    def when(self) -> str:
        """The schedule in words."""
        return f"at {self.cron} ({self.timezone})" if self.cron else f"every {self.every:g} s"


class Plan(BaseModel):
    """The contents of a plan file."""

    model_config = ConfigDict(extra="forbid")

    deployments: list[Any] = Field(min_length=1)


def read_plan(path: str) -> list[Deployment]:
    """Read the deployments of a plan; raise `InputError` with every fault in it."""
    content = read_yaml(path, "a YAML file of deployments")
    deployments, faults = [], []
    try:
        listed = Plan.model_validate(content).deployments
    except ValidationError as error:
        raise InputError([_fault(Plan, path, content, p) for p in error.errors()]) from error
    for number, entry in enumerate(listed, start=1):
        values = entry if isinstance(entry, dict) else {}
        where = f"{path}, deployment {values.get('name') or number}"
        faults += _settings_faults(where, values)
        try:
            deployments.append(Deployment.model_validate(entry))
        except ValidationError as error:
            faults += [_fault(Deployment, where, entry, p) for p in error.errors()]
    names = Counter(f"{d.pipeline}/{d.name}" for d in deployments)
    if twice := [name for name, count in names.items() if count > 1]:
        faults.append(
            Fault(path, "deployments with names of their own", f"{', '.join(twice)} twice")
        )
    if faults:
        raise InputError(list(dict.fromkeys(faults)))
    return deployments


def _settings_faults(where: str, deployment: dict[str, Any]) -> list[Fault]:
    """List what is wrong with the settings of a deployment, where its pipeline is known."""
    pipeline, settings = deployment.get("pipeline"), deployment.get("settings")
    if pipeline not in [*PIPELINES] or not isinstance(settings, dict):
        return []
    try:
        validated(pipeline_named(pipeline).settings, settings)
    except InputError as error:
        return [
            replace(f, file=f"{where}, setting {f.column}" if f.column else where, column=None)
            for f in error.faults
        ]
    return []


def serve(deployments: Sequence[Deployment], say: Callable[[str], None]) -> None:
    """Run the deployments on their schedules until interrupted or terminated.

    The server is the configured one; ``say`` shows a line of what is served, and where. A run that
    meets another one of its target ends at once, so Prefect need not keep them apart: its slots
    outlive a run that was killed.
    """
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner
    from prefect.schedules import Cron, Interval

    class Stoppable(Runner):
        """Ends by SIGTERM as a service is stopped: Prefect's own handler ends in a traceback."""

        def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
            asyncio.run_coroutine_threadsafe(self.astop(), asyncio.get_running_loop())

    say(f"Prefect's server: {require_server()}")
    runner = Stoppable(limit=len(deployments) + _LATE)
    for deployment in deployments:
        runner.add_deployment(
            RunnerDeployment.from_entrypoint(
                PIPELINES[deployment.pipeline].flow or f"flows.pipelines.{deployment.pipeline}",
                name=deployment.name,
                schedule=Cron(deployment.cron, deployment.timezone)
                if deployment.cron
                else Interval(timedelta(seconds=deployment.every or 0)),
                tags=["vbflows"],
                parameters={
                    "source": deployment.source,
                    "target": deployment.target,
                    "settings": deployment.settings,
                    "compute": deployment.compute.model_dump(),
                    "since": deployment.since,
                    "resume": "auto",
                },
            )
        )
        say(f"{deployment.pipeline}/{deployment.name} {deployment.when}: {deployment.target}")
    with suppress(KeyboardInterrupt):
        asyncio.run(runner.start())


_LATE = 4  # runs of deployments that have one already: each ends at once


def _fault(model: type[BaseModel], where: str, content: Any, problem: Any) -> Fault:
    """Turn what pydantic says into a fault; our own messages end with what was found."""
    kind, key = problem["type"], ".".join(str(part) for part in problem["loc"])
    if kind == "missing":
        return Fault(where, f"the key {key}", "none", remedy=f"add a line {key}: ...")
    if kind == "extra_forbidden":
        outer, _, inner = key.rpartition(".")
        known = (ComputeSettings if outer else model).model_fields
        remedy = did_you_mean(inner, known)
        if model is Deployment and not outer and inner in RunSettings.model_fields:
            remedy = f"write {inner} below settings"
        where += f", {outer}" if outer else ""
        return Fault(where, f"a key out of {', '.join(known)}", inner, remedy=remedy)
    if key.partition(".")[0] == "source":  # of both types that it may be, and of each of several
        return Fault(
            f"{where}, source",
            "a path, folder, glob or URL, or a list of these",
            shown(content["source"]),
        )
    where += f", {key}" if key else ""
    expected, _, found = expected_in_words(problem).partition("; found ")
    if kind == "value_error" and not found:
        return Fault(where, "", expected)
    return Fault(where, _OF_PLANS.get(kind, expected), found or shown(problem["input"]))


_KEYS = "keys with values, such as name: nightly"
_OF_PLANS = {
    "model_type": _KEYS,
    "model_attributes_type": _KEYS,
    "too_short": "at least one deployment",
    "list_type": "a list of deployments, each after a dash",
}
"""What a part of a plan should be."""
