"""The help of a pipeline: what goes in, an example, its settings, and where to read on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand

from flows.catalogue import known, table_read
from flows.data.table import Column, Table
from flows.settings import describe
from flows.settings.guide import FIRST, GROUPS, grouped


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
        told = {row[0]: row for row in describe(settings)}
        for group, members in grouped(settings).items():
            heading = GROUPS[group]
            if group == FIRST:
                heading += " (--set NAME=VALUE, or a file: vbflows init " + name + ")"
            rows = [(told[m][0], _in_words(*told[m][1:])) for m in members]
            with formatter.section(heading):
                formatter.write_dl(rows)
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
        rows = [(_name(column), _told(column)) for column in table.columns]
        if table.others:
            rows.append(("any other", f"{table.others.name}: {_told(table.others)}"))
        formatter.write_dl(rows)


def _name(column: Column) -> str:
    return f"{column.name} *" if column.required else column.name


def _told(column: Column) -> str:
    return f"{column.type}: {column.meaning}"


def _in_words(bounds: str, default: str, meaning: str) -> str:
    shown = "empty" if default in ("None", "()", "{}") else default.strip("'")
    return f"{meaning} [{bounds}; default {shown}]"


def _write_lines(formatter: Any, heading: str, lines: Sequence[str]) -> None:
    with formatter.section(heading):
        for text in lines:
            formatter.write(f"{'':>{formatter.current_indent}}{text}\n")
