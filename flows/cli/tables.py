"""Runs on a terminal: one, its tables, all of a target, two compared."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.data import storage
from flows.data.runs import RunPaths, RunRecord, fit_in_words
from flows.escape import escaped
from flows.runs.compare import (
    Comparison,
    changes,
    command,
    effects,
    estimates_in_words,
    headline,
    new_warnings,
    others,
    reasons_in_words,
    rows_in_words,
    same_in_words,
)
from flows.runs.listing import (
    ColumnOfTable,
    Listed,
    cell,
    conditions,
    first_table,
    order_of,
    rows_command,
    rows_of,
    tables_of,
)
from flows.runs.predictions import in_digits, why_not_compared

_ROWS = 8  # of the table that has the answer
_CHANGED = 4  # rows of a kind of change
_FOLDED = 24  # signs of a text that are shown in a line
_NARROW = 12  # of one that names the row, where there is little room


def _table(*headings: str, numbers: Iterable[str] = (), fixed: Iterable[str] = ()) -> Table:
    """Return a table with these columns; numbers are on the right, and fixed ones do not wrap."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(
            _text(heading),
            overflow="fold",
            justify="right" if heading in numbers else "left",
            no_wrap=heading in fixed,
        )
    return table


def _text(value: str, style: str = "") -> Text:
    """Return text from data for a terminal: escaped, and no markup."""
    return Text(escaped(value), style=style)


def show_run(console: Console, paths: RunPaths, record: RunRecord, run: str) -> None:
    """Print a run's record and the first rows of its answer; ``run``: as the user named it."""
    if record.headline:
        console.print(_text(record.headline))
    facts = Table(box=None, show_header=False)
    for name, value in (
        ("run", record.run_id),
        ("pipeline", record.pipeline),
        ("source", storage.source_in_words(record.source)),
        ("rows", f"{record.rows_kept:,} of {record.rows_read:,} used"),
        ("fit", fit_in_words(record)),
        ("time", f"{record.seconds:.1f} s, {record.peak_memory_bytes / 2**20:,.0f} MiB at most"),
        ("report", paths.file("report.html")),
        ("tables", f"{', '.join(tables_of(paths))} (vbflows show {shlex.quote(run)} TABLE)"),
    ):
        facts.add_row(name, Text(escaped(value), overflow="fold"))
    console.print(facts)
    for warning in record.warnings:
        console.print(_text(f"warning: {warning}"))
    name, options = first_table(paths)
    if name:
        holds = conditions(paths, name, "--new" in options, "--selected" in options)
        read, _ = rows_of(paths, name, "", _ROWS, where=holds, counted=False)
        show_rows(console, read.to_pylist(), first_columns(read.column_names))
        if len(read) == _ROWS:
            more = f"more rows: {rows_command(paths, run)} --rows 100"
            console.print(_text(more), soft_wrap=True)


def first_columns(names: Sequence[str], sort: str = "") -> list[str]:
    """Return the columns of a table that are shown first, where there is not room for all."""
    return [name for name in (sort, order_of(names), *_TELLING) if name in names]


_TELLING = ("term", "rank", "selected", "called", "filter")


def show_rows(
    console: Console,
    rows: Sequence[Mapping[str, Any]],
    first: Sequence[str] = (),
    meanings: Sequence[ColumnOfTable] = (),
    naming: int = 1,
    elsewhere: str = "",
) -> None:
    """Print rows of a table: the columns that fit, those called ``first`` among them; then what
    each of them means.

    The first ``naming`` columns name a row and are always there. ``elsewhere``: what has the
    columns for which there is no room.
    """
    if not rows:
        console.print("no rows")
        return
    empty = [n for n in rows[0] if all(cell(row[n]) == "" for row in rows)]
    names = [n for n in rows[0] if n not in empty] or list(rows[0])
    numbers = [n for n in names if isinstance(rows[0][n], int | float)]
    always = [n for n in list(rows[0])[:naming] if n in names] or names[:1]
    same = {n for n in names if len(rows) > 1 and len({cell(row[n]) for row in rows}) == 1}
    rank = {name: place for place, name in enumerate(first)}
    by_rank = sorted(names, key=lambda n: (n not in always, n in same, rank.get(n, len(rank))))
    kept = _fitting(console.width, rows, by_rank, always)
    shown_names = [name for name in names if name in kept]
    table = _table(*shown_names, numbers=numbers, fixed=numbers)
    for row in rows:
        table.add_row(*(_text(cell(row[name])) for name in shown_names))
    console.print(table)
    show_meanings(console, [one for one in meanings if one.name in kept and one.meaning])
    if left := [name for name in names if name not in kept]:
        how = f" ({elsewhere})" if elsewhere else ""
        console.print(_text(f"not shown: {', '.join(left)}{how}"))
    if empty and len(empty) < len(rows[0]):
        console.print(_text(f"empty in these rows: {', '.join(empty)}"))


def show_meanings(console: Console, columns: Sequence[ColumnOfTable], types: bool = False) -> None:
    """Print a line for each column: its name, on request its type, and its meaning."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for column in columns:
        what = f"{column.type}: {column.meaning}" if types else column.meaning
        table.add_row(_text(f"{column.name}:"), _text(what))
    if columns:
        console.print(table)


def _fitting(
    width: int, rows: Sequence[Mapping[str, Any]], names: Sequence[str], always: Sequence[str]
) -> set[str]:
    """Return the columns that fit next to each other, the first of ``names`` first; long texts
    may be folded, most of all those of the columns that are ``always`` there.
    """
    kept: set[str] = set()
    for name in names:
        most = _NARROW if name in always and len(always) > 1 else _FOLDED
        longest = max(len(name), *(min(len(cell(row[name])), most) for row in rows)) + 2
        if name not in always and longest > width:
            continue
        kept.add(name)
        width -= longest
    return kept


def show_runs(console: Console, runs: Sequence[Listed]) -> None:
    """Print the runs of a target; the settings are those that were given."""
    short = ("run", "state", "pipeline", "rows", "time", "sweeps")
    table = _table(*short, "settings", numbers=short[3:], fixed=short)
    for run in runs:
        values = (
            run.run_id,
            run.state,
            run.pipeline,
            "" if run.rows is None else f"{run.rows:,}",
            "" if run.seconds is None else f"{run.seconds:.1f} s",
            f"{cell(run.iterations)}{'!' if run.converged is False else ''}",
        )
        settings = (escaped(f"{name}={cell(value)}") for name, value in run.changed.items())
        table.add_row(*map(_text, values), Text("\n".join(settings)))
    console.print(table)
    if any(run.converged is False for run in runs):
        console.print("! had not converged")


def show_comparison(console: Console, found: Comparison) -> None:
    """Print what was changed between two runs, what that did, and some of the rows that changed."""
    console.print(_text(headline(found)))
    for heading, rows in (("changed", changes(found)), ("answer", effects(found))):
        if rows:
            table = _table(heading, "first", "second", "")
            for row in rows:
                table.add_row(*map(_text, (f"  {row.name}", row.first, row.second, row.note)))
            console.print(table)
    for line in filter(None, (estimates_in_words(found), *new_warnings(found))):
        console.print(_text(line))
    show_changed_rows(console, found, _CHANGED)
    console.print(_text(same_in_words(found)))
    if more := len(others(found)):
        console.print(_text(f"{more} other numbers differ: --json or --report has them"))
    for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True):
        console.print(_text(f"{which}: {record.headline}"))
        console.print(_text(f"  {paths.root}"), soft_wrap=True)


_ALL = "--json and --report have them"


def show_changed_rows(console: Console, found: Comparison, most: int | None = None) -> None:
    """Print the rows that changed, of each table; ``most`` of each kind of change."""
    if not found.predictions:
        console.print(_text(why_not_compared(*found.runs)))
    for one in found.predictions:
        console.print(_text(f"{one.table}: {rows_in_words(one)}"))
        if why := reasons_in_words(one):
            console.print(_text(why))
        rows = [row.as_row() for row in one.changed(most)]
        if len(rows) > 1 and len({row.get("given") for row in rows}) == 1:
            rows = [{n: value for n, value in row.items() if n != "given"} for row in rows]
        if any("why" in row for row in rows):
            rows = [{**row, "why": row.get("why", "")} for row in rows]
        for row in rows:
            row["first"], row["second"] = in_digits(row["first"], row["second"])
        if rows:
            named = len(one.every.keys)
            show_rows(console, rows, ("first", "second", "what"), (), named, _ALL)
        if len(rows) < one.count:
            more = f"{len(rows)} of {one.count:,} rows; all: {command(found)} --rows"
            console.print(_text(more), soft_wrap=True)
