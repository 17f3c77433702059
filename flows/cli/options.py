"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flows import settings as settings_of
from flows.catalogue import PIPELINES


def pipelines(incomplete: str) -> list[tuple[str, str]]:
    """Complete the name of a pipeline."""
    return [
        (name, kind.question) for name, kind in PIPELINES.items() if name.startswith(incomplete)
    ]


def settings(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a setting of the pipeline that the command is about."""
    name = context.params.get("pipeline") or context.info_name
    kind = PIPELINES.get(str(name))
    known = kind.model_fields if kind else ()
    return [f"{setting}=" for setting in known if setting.startswith(incomplete)]


Pipeline = Annotated[
    str,
    typer.Argument(
        help=f"One of {', '.join(PIPELINES)}.", metavar="PIPELINE", autocompletion=pipelines
    ),
]
Source = Annotated[
    list[str],
    typer.Argument(help="Paths, folders, globs or URLs of the input.", metavar="SOURCE"),
]
Target = Annotated[
    str, typer.Argument(help="Folder or URL that the run is published to.", metavar="TARGET")
]
Run = Annotated[
    str, typer.Argument(help="A finished run: TARGET or TARGET/runs/RUN_ID.", metavar="RUN")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, no more.")]
Config = Annotated[
    str | None,
    typer.Option(
        "--config", help="YAML or JSON file of settings; vbflows init writes one.", metavar="FILE"
    ),
]
Assign = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One setting; may be repeated, and wins over the file.",
        metavar="NAME=VALUE",
        autocompletion=settings,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="Local worker processes; by default none: everything in this process.",
        metavar="N",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="What the input calls a column, such as text=Abstract or features='f*'; may be "
        "repeated.",
        metavar="OURS=YOURS",
    ),
]
Exclude = Annotated[
    str | None,
    typer.Option("--exclude", help="Columns that are not read.", metavar="NAME,NAME,..."),
]
Include = Annotated[
    str | None,
    typer.Option("--include", help="The only columns that are used.", metavar="NAME,NAME,..."),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of text files, such as cp1252.", metavar="NAME"),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse an input of which something would not be used."),
]


def reading(
    column: list[str] | None, exclude: str | None, include: str | None, encoding: str | None,
    strict: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the settings that options say of how the input is read."""
    return {
        "columns": settings_of.columns(column), "exclude": exclude, "include": include,
        "encoding": encoding, "strict": strict or None,
    }  # fmt: skip


Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="Address of a running Dask scheduler.", metavar="ADDRESS"),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit", help="Memory of one local worker, such as 4GiB.", metavar="SIZE"
    ),
]
Record = Annotated[
    bool,
    typer.Option(
        "--record",
        help="Record the run in Prefect's database also where no Prefect server is configured.",
    ),
]
S3 = Annotated[
    list[str] | None,
    typer.Option(
        "--s3",
        help="How s3:// is reached; may be repeated: endpoint_url, ca_file, region, profile, "
        "anonymous, requester_pays, block.",
        metavar="NAME=VALUE",
    ),
]


def as_given(source: list[str]) -> str | list[str]:
    """Return one source as the text that it is, several as a list."""
    return source[0] if len(source) == 1 else source
