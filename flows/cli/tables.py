"""Runs on a terminal: one, its tables, all of a target, two side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console, JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from flows.data import reading, storage
from flows.data.run_tables import POSTERIOR
from flows.data.runs import RunPaths, RunRecord, fit_in_words
from flows.escape import escaped
from flows.faults import InputError
from flows.runs.compare import Comparison, shown
from flows.runs.listing import Listed, cell, tables_of

_ROWS = 30
_HEADINGS = {
    "settings": "Settings that differ",
    "data": "Data",
    "results": "Results",
    "fit": "Fit",
    "versions": "Versions that differ",
}


def show_run(console: Console, paths: RunPaths, record: RunRecord) -> None:
    """Print a run's record and the beginning of its posterior."""
    facts = Table(box=None, show_header=False)
    for name, value in (
        ("run", record.run_id),
        ("pipeline", record.pipeline),
        ("source", storage.source_in_words(record.source)),
        ("rows", f"{record.rows_kept:,} of {record.rows_read:,} used"),
        ("fit", fit_in_words(record)),
        ("time", f"{record.seconds:.1f} s, {record.peak_memory_bytes / 2**20:,.0f} MiB at most"),
        ("report", paths.file("report.html")),
        ("tables", ", ".join(tables_of(paths)) + " (vbflows show RUN TABLE)"),
    ):
        facts.add_row(name, _text(value, overflow="fold"))
    console.print(facts)
    for warning in record.warnings:
        console.print(_text(f"warning: {warning}"))
    url = storage.join(paths.root, "posterior", "parameters.parquet")
    if not storage.exists(url):
        return
    found = storage.read_table(url)
    faults = reading.faults(POSTERIOR, found.schema, url)
    if faults:
        raise InputError(faults)
    rows = found.to_pylist()
    table = Table(title="posterior", title_justify="left", box=None)
    for heading in ("name", "index", "mean", "sd"):
        table.add_column(heading)
    for row in rows[:_ROWS]:
        sd = "" if row["sd"] is None else f"{row['sd']:.4g}"
        table.add_row(_text(row["name"]), _text(row["index"] or ""), f"{row['mean']:.4g}", sd)
    console.print(table)
    if len(rows) > _ROWS:
        console.print(_text(f"and {len(rows) - _ROWS} more in {url}"), soft_wrap=True)


def _text(value: str, style: str = "", overflow: OverflowMethod | None = None) -> Text:
    """Return text from data for a terminal: escaped, and no markup."""
    return Text(escaped(value), style=style, overflow=overflow)


def show_top(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the first rows of the result."""
    table = Table(box=None, pad_edge=False)
    for name, value in rows[0].items():
        number = isinstance(value, int | float)
        table.add_column(_text(name), overflow="fold", justify="right" if number else "left")
    for row in rows:
        table.add_row(*(_text(cell(value)) for value in row.values()))
    console.print(table)


def show_rows(console: Console, rows: pa.Table) -> None:
    """Print rows of a table."""
    table = Table(box=None, pad_edge=False)
    for name in rows.column_names:
        side: JustifyMethod = "right" if _number(rows, name) else "left"
        table.add_column(_text(name), overflow="fold", justify=side)
    for row in rows.to_pylist():
        table.add_row(*(_text(cell(value)) for value in row.values()))
    console.print(table)


def _number(rows: pa.Table, name: str) -> bool:
    kind = rows[name].type
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def show_runs(console: Console, runs: Sequence[Listed]) -> None:
    """Print the runs of a target; the settings are those that differ from the defaults."""
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "pipeline"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rows", "time", "sweeps"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for run in runs:
        sweeps = "" if run.iterations is None else str(run.iterations)
        settings = (escaped(f"{name}={cell(value)}") for name, value in run.changed.items())
        table.add_row(
            _text(run.run_id),
            run.state,
            _text(run.pipeline),
            "" if run.rows is None else f"{run.rows:,}",
            "" if run.seconds is None else f"{run.seconds:.1f} s",
            f"{sweeps}{'' if run.converged in (None, True) else '!'}",
            Text("\n".join(settings)),
        )
    console.print(table)
    if any(run.converged is False for run in runs):
        console.print("! had not converged")


def show_comparison(console: Console, found: Comparison) -> None:
    """Print two runs side by side; what differs stands out."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column(_text(found.first), overflow="fold")
    table.add_column(_text(found.second), overflow="fold")
    table.add_column("change", justify="right", no_wrap=True)
    for part, lines in found.parts.items():
        table.add_row(Text(_HEADINGS[part], style="bold"))
        for line in lines:
            style = "bold" if line.differs else ""
            table.add_row(
                _text(f"  {line.name}"),
                _text(shown(line.first), style),
                _text(shown(line.second), style),
                f"{line.change:+.3g}" if line.change else "",
            )
        if not lines:
            table.add_row("  none")
    console.print(table)
