"""Help that teaches: commands in the order of use; of a pipeline what goes in, and its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

from flows.catalogue import BROKEN, PIPELINES, known, table_read
from flows.data.table import Column, Table
from flows.settings import describe
from flows.settings.base import FIRST, GROUPS, grouped

SECTIONS = {
    "Begin": ("demo", "simulate", "init", "check"),
    "Fit (vbflows PIPELINE --help: its columns, an example, its settings)": tuple(PIPELINES),
    "Look at runs": ("show", "runs", "compare"),
    "Apply a fitted run to new data": ("score",),
    "Run every night, count reads, compile": ("serve", "count", "compile"),
}


class Commands(TyperGroup):
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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a section for each thing that one wants, then the options."""
        for heading, members in SECTIONS.items():
            rows = [(n, self.commands[n].help or "") for n in members if n in self.commands]
            with formatter.section(heading):
                formatter.write_dl(rows)
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
        """Return where the first word is that is neither an option nor the value of one."""
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


class PipelineCommand(TyperCommand):
    """A command whose help teaches the pipeline."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write usage and question, then columns, example, settings, options and page."""
        name = str(ctx.info_name)
        settings, table = known(name), table_read(name)
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        if table is not None:
            _write_columns(formatter, table)
        if settings.example:
            _write_lines(formatter, "Example", settings.example)
        rows = {name: (name, _in_words(*more)) for name, *more in describe(settings)}
        for group, members in grouped(settings).items():
            heading = GROUPS[group]
            if group == FIRST:
                heading += " (--set NAME=VALUE, or a file: vbflows init " + name + ")"
            with formatter.section(heading):
                formatter.write_dl([rows[member] for member in members])
        super().format_options(ctx, formatter)
        if settings.page:
            _write_lines(formatter, "More", [settings.page])


def _write_columns(formatter: Any, table: Table) -> None:
    with formatter.section("What goes in"):
        formatter.write_text(table.meaning.replace("`", ""))
        must = " Columns with a * must be there." if any(c.required for c in table.columns) else ""
        formatter.write_text(
            "Parquet, CSV, TSV, JSON lines or Arrow; where your columns have other names, "
            f"--column OURS=YOURS.{must}"
        )
        formatter.write_paragraph()
        rows = [(_name(column), f"{column.type}: {column.meaning}") for column in table.columns]
        if other := table.others:
            rows.append(("any other", f"{other.name}: {other.type}: {other.meaning}"))
        formatter.write_dl(rows)


def _name(column: Column) -> str:
    return f"{column.name} *" if column.required else column.name


def _in_words(bounds: str, default: str, meaning: str) -> str:
    shown = "empty" if default in ("None", "()", "{}") else default.strip("'")
    return f"{meaning} [{bounds}; default {shown}]"


def _write_lines(formatter: Any, heading: str, lines: Sequence[str]) -> None:
    with formatter.section(heading):
        for text in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{text}\n")
