"""The arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import BaseModel

from flows.catalogue import PIPELINES
from flows.settings import ComputeSettings, RunSettings
from flows.settings.tables import TableSettings


def argument(name: str, help: str) -> Any:
    """Return an argument, with its meaning."""
    return typer.Argument(metavar=name, help=help)


def option(name: str, value: str | None, help: str, **more: Any) -> Any:
    """Return an option, with its meaning."""
    return typer.Option(name, metavar=value, help=help, **more)


def setting(settings: type[BaseModel], name: str, value: str | None) -> Any:
    """Return the option of a setting, with its meaning."""
    meaning = settings.model_fields[name].description or ""
    return option(f"--{name.replace('_', '-')}", value, meaning)


Pipeline = Annotated[str, argument("PIPELINE", f"One of {', '.join(PIPELINES)}.")]
Source = Annotated[list[str], argument("SOURCE", "Paths, folders, globs or URLs of the input.")]
Target = Annotated[str, argument("TARGET", "Folder or URL for the results.")]
Run = Annotated[str, argument("RUN", "A finished run: TARGET or TARGET/runs/RUN_ID.")]
Json = Annotated[bool, option("--json", None, "Print one JSON object and nothing else.")]
Config = Annotated[
    str | None,
    option("--config", "FILE", "YAML or JSON file of settings; vbflows init writes one."),
]
Assign = Annotated[
    list[str] | None,
    option("--set", "NAME=VALUE", "One setting; may be repeated, and wins over the file."),
]
Columns = Annotated[
    list[str] | None,
    option(
        "--column",
        "OURS=YOURS",
        "What the input calls a column, such as text=Abstract or features='f*'; may be repeated.",
    ),
]
Exclude = Annotated[list[str] | None, setting(TableSettings, "exclude", "NAMES")]
Include = Annotated[list[str] | None, setting(TableSettings, "include", "NAMES")]
Encoding = Annotated[str | None, setting(RunSettings, "encoding", "NAME")]
Strict = Annotated[bool, setting(RunSettings, "strict", None)]
Workers = Annotated[str | None, setting(ComputeSettings, "workers", "N")]
Scheduler = Annotated[str | None, setting(ComputeSettings, "scheduler", "ADDRESS")]
MemoryLimit = Annotated[str | None, setting(ComputeSettings, "memory_limit", "SIZE")]
Partitions = Annotated[int | None, setting(RunSettings, "partitions", "N")]
Seed = Annotated[int | None, setting(RunSettings, "seed", "N")]
MaxIter = Annotated[int | None, setting(RunSettings, "max_iter", "N")]
CheckpointEvery = Annotated[int | None, setting(RunSettings, "checkpoint_every", "N")]
Resume = Annotated[
    str | None,
    option(
        "--resume",
        "RUN",
        "Continue an unfinished run: its id, latest, or auto (one of this very request, if any).",
    ),
]
Since = Annotated[
    str | None,
    option(
        "--since",
        "RUN",
        "Read only what is new since a run (its id, or latest) and start from what it learnt.",
    ),
]
S3 = Annotated[
    list[str] | None,
    option(
        "--s3",
        "NAME=VALUE",
        "How s3:// is reached, before the command; may be repeated: endpoint_url, ca_file, "
        "region, profile, anonymous, requester_pays, block.",
    ),
]
