"""The command line itself, and the options that all commands have."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from flows import settings as settings_of
from flows.cli.groups import InOrder
from flows.cli.options import S3

app = typer.Typer(
    name="vbflows",
    help="Fit interpretable Bayesian models to partitioned data, and publish what they find.",
    cls=InOrder,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vbflows {metadata.version('vbflows')}")
        raise typer.Exit


@app.callback()
def _reach(
    context: typer.Context,
    s3: S3 = None,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    if s3:
        from flows.run.prefect.access import reached

        context.with_resource(reached(settings_of.load(settings_of.S3Access, None, s3)))
