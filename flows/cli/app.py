"""The command line itself, and the options that all commands have."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from flows import settings as settings_of
from flows.catalogue import BROKEN, PIPELINES, known
from flows.cli.options import S3

SECTIONS = {
    "Begin": ("demo", "simulate", "init", "check"),
    "Fit (vbflows PIPELINE --help: its columns, an example, its settings)": tuple(PIPELINES),
    "Look at runs": ("show", "runs", "compare"),
    "Apply a fitted run to new data": ("score",),
    "Run every night, count reads, compile": ("serve", "count", "warm"),
}


class InOrder(TyperGroup):
    """The commands: listed in the order of use; options may stand on either side of one."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order of use."""
        listed = [name for members in SECTIONS.values() for name in members]
        return sorted(self.commands, key=lambda n: listed.index(n) if n in listed else len(listed))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a pipeline that is left out says why."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in dict(BROKEN):
            known(cmd_name)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a section for each thing that one wants."""
        for heading, members in SECTIONS.items():
            rows = [(n, self.commands[n].help or "") for n in members if n in self.commands]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options: that is what a reader looks for."""
        self.format_commands(ctx, formatter)
        TyperCommand.format_options(self, ctx, formatter)  # type: ignore[arg-type]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Bring the command to the front; what is its own it takes from either side of it."""
        at = self._place_of_command(args)
        if at is None:
            return super().parse_args(ctx, args)
        end = args.index("--") if "--" in args else len(args)
        options, rest = args[:end], args[end:]
        ctx.ignore_unknown_options = ctx.allow_interspersed_args = True
        super().parse_args(ctx, [options[at], *options[:at], *options[at + 1 :]])
        ctx.args = [*ctx.args, *rest]
        return ctx.args

    def get_help_option(self, ctx: Any) -> Any:
        """Leave --help to the command, where there is one."""
        return None if ctx.ignore_unknown_options else super().get_help_option(ctx)

    def _place_of_command(self, args: list[str]) -> int | None:
        """Return where the first word stands that is neither an option nor the value of one."""
        valued = set(self._valued_options())
        place = 0
        while place < len(args) and args[place] != "--":
            if not args[place].startswith("-"):
                return place
            place += 2 if args[place] in valued else 1
        return None

    def _valued_options(self) -> Iterator[str]:
        for one in (self, *self.commands.values()):
            for option in one.params:
                if isinstance(option, TyperOption) and not option.is_flag:
                    yield from option.opts


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
