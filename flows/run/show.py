"""What was fitted, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.data import reading, storage
from flows.data.run_tables import POSTERIOR
from flows.data.runs import RunPaths, RunRecord, fit_in_words
from flows.faults import InputError

_ROWS = 30


def show_run(console: Console, paths: RunPaths, record: RunRecord) -> None:
    """Print a run's record and the beginning of its posterior."""
    facts = Table(box=None, show_header=False)
    for name, value in (
        ("run", record.run_id),
        ("pipeline", record.pipeline),
        ("source", record.source),
        ("rows", f"{record.rows_kept:,} of {record.rows_read:,} used"),
        ("fit", fit_in_words(record)),
        ("time", f"{record.seconds:.1f} s, {record.peak_memory_bytes / 2**20:,.0f} MiB at most"),
        ("report", paths.file("report.html")),
    ):
        facts.add_row(name, Text(value, overflow="fold"))
    console.print(facts)
    for warning in record.warnings:
        console.print(f"warning: {warning}", markup=False, highlight=False)
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
        table.add_row(Text(row["name"]), Text(row["index"] or ""), f"{row['mean']:.4g}", sd)
    console.print(table)
    if len(rows) > _ROWS:
        console.print(f"and {len(rows) - _ROWS} more in {url}", markup=False, soft_wrap=True)
