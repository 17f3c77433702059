"""Runs on a terminal: one, its tables, all of a target, two compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from textwrap import shorten, wrap
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.data import storage
from flows.data.runs import RunPaths, RunRecord, fit_in_words
from flows.escape import escaped
from flows.runs.changed_rows import (
    NAMES,
    every_row_of,
    reasons_in_words,
    rows_in_words,
)
from flows.runs.compare import (
    Comparison,
    changes,
    effects,
    headline,
    implied,
    new_warnings,
    same,
    unit,
)
from flows.runs.listing import (
    ColumnOfTable,
    Listed,
    cell,
    conditions,
    described_tables,
    first_table,
    order_of,
    rows_command,
    rows_of,
)
from flows.runs.predictions import in_digits, why_not_compared

_ROWS = 8  # of the table that has the answer
_CHANGED = 5  # rows that changed
_WARNED = 200  # signs of a warning of one run alone
_FOLDED = 24  # signs of a text that are shown in a line
_NARROW = 12  # of one that names the row, where there is little room
_WIDE = 4000  # columns of what is not to be wrapped


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


def _say(console: Console, text: str) -> None:
    """Print a sentence, wrapped on a terminal."""
    console.print(_text(text), soft_wrap=not console.is_terminal)


def _wrap(console: Console, text: str) -> None:
    """Print sentences, wrapped whatever the output is."""
    for paragraph in text.splitlines():
        for line in wrap(paragraph, console.width, break_long_words=False, break_on_hyphens=False):
            console.print(_text(line), soft_wrap=True)


def _print(console: Console, table: Table, wide: bool = False) -> None:
    """Print a table; off a terminal without blanks at ends of lines, a ``wide`` one unwrapped."""
    if console.is_terminal:
        console.print(table)
        return
    options = console.options.update(width=_WIDE if wide else console.width)
    lines = console.render_lines(table, options, pad=False)
    texts = ("".join(part.text for part in line).rstrip() for line in lines)
    console.print(Text("\n".join(texts)), soft_wrap=True)


def show_run(console: Console, paths: RunPaths, record: RunRecord, run: str) -> None:
    """Print a run's record and the first rows of its answer; ``run``: as the user named it."""
    if record.headline:
        _say(console, record.headline)
    facts = Table(box=None, show_header=False)
    for name, value in (
        ("run", record.run_id),
        ("pipeline", record.pipeline),
        ("source", storage.source_in_words(record.source)),
        ("rows", f"{record.rows_kept:,} of {record.rows_read:,} used"),
        ("fit", fit_in_words(record, brief=True)),
        ("time", f"{record.seconds:.1f} s, {record.peak_memory_bytes / 2**20:,.0f} MiB at most"),
        ("report", paths.file("report.html")),
        ("tables", f"vbflows show {shlex.quote(run)} TABLE prints rows of one:"),
        *(("", f"{name} ({n}){what and ': '}{what}") for name, n, what in described_tables(paths)),
    ):
        facts.add_row(name, Text(escaped(value), overflow="fold"))
    _print(console, facts, wide=True)
    for warning in record.warnings:
        _say(console, f"warning: {warning}")
    name, options = first_table(paths)
    if name:
        holds = conditions(paths, name, "--new" in options, "--selected" in options)
        read, _ = rows_of(paths, name, "", _ROWS, where=holds, counted=False)
        show_rows(console, read.to_pylist(), first_columns(read.column_names))
        if len(read) == _ROWS:
            columns = f"columns: vbflows show {shlex.quote(run)} {name} --columns list"
            for line in (f"more rows: {rows_command(paths, run)} --rows 100", columns):
                console.print(_text(line), soft_wrap=True)


def show_tables(console: Console, paths: RunPaths, run: str) -> None:
    """List the tables of a run; ``run``: as the user named it."""
    _say(console, f"vbflows show {shlex.quote(run)} TABLE prints rows of one:")
    for name, number, meaning in described_tables(paths):
        _say(console, f"  {name} ({number}): {meaning}".removesuffix(": "))


def first_columns(names: Sequence[str], sort: str = "") -> list[str]:
    """Return the columns of a table that are shown first, where there is not room for all."""
    return [name for name in (sort, order_of(names), *_TELLING) if name in names]


_TELLING = ("predicted", "label", "chrom", "pos", "ref", "alt", "prob", "q_value", "term")
_NEXT = ("rank", "observed", "selected", "called", "filter", "case_mean", "control_mean")
_AGAIN = ("surface", "stem")
_SHARE = re.compile(r"expert_\d+")
"""Columns that come next where they differ between rows; those that mostly say the term again; and
those of shares, which come last and only where not all rows have most of one."""


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
    rank = {name: place for place, name in enumerate(dict.fromkeys((*first, *_NEXT)))}
    last = [n for n in names if _SHARE.fullmatch(n) and n not in first]
    leading = {max(last, key=lambda n: row[n] or 0.0) for row in rows if last}

    def place(name: str) -> tuple[bool, bool, bool, float]:
        """Return what columns are ordered by."""
        alike = name in same and name not in first
        late = name in last or name in {*_AGAIN} - {*first}
        if name in last:  # the largest first
            return True, late, False, -sum(row[name] or 0.0 for row in rows)
        return name not in always, late, alike, rank.get(name, len(rank))

    wanted = [n for n in names if n not in last or len(leading) > 1 or len(rows) == 1]
    kept = _fitting(console.width, rows, sorted(wanted, key=place), always)
    shown_names = [name for name in names if name in kept]
    longest = max(len(cell(row[always[0]])) for row in rows)
    fixed = [*numbers, *always[: longest <= console.width // 2]]  # names are not split
    table = _table(*shown_names, numbers=numbers, fixed=fixed)
    for row in rows:
        table.add_row(*(_text(cell(row[name])) for name in shown_names))
    _print(console, table)
    show_meanings(console, [one for one in meanings if one.name in kept and one.meaning])
    if left := [name for name in names if name not in kept]:
        how = f" ({elsewhere})" if elsewhere else ""
        _say(console, f"not shown: {', '.join(left)}{how}")
    if empty and len(empty) < len(rows[0]):
        _say(console, f"empty in these rows: {', '.join(empty)}")


def show_meanings(console: Console, columns: Sequence[ColumnOfTable], types: bool = False) -> None:
    """Print a line for each column: its name, on request its type, and its meaning.

    Columns next to each other that mean the same share a line.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for _, group in groupby(columns, lambda one: (one.type, one.meaning or one.name)):
        first, *rest = group
        name = f"{first.name} to {rest[-1].name}" if rest else first.name
        what = f"{first.type}: {first.meaning}" if types else first.meaning
        table.add_row(_text(f"{name}:"), _text(what))
    if columns:
        _print(console, table, wide=True)


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
    """Print the runs of a target, each with the settings that were given below it."""
    lines = [("run", "state", "pipeline", "rows", "time", "sweeps")]
    for run in runs:
        values = (
            run.run_id,
            run.state,
            run.pipeline,
            "" if run.rows is None else f"{run.rows:,}",
            "" if run.seconds is None else f"{run.seconds:.1f} s",
            f"{cell(run.iterations)}{'!' if run.converged is False else ''}",
        )
        lines.append(values)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line, one in zip(lines, (None, *runs), strict=True):
        cells = [
            text.rjust(width) if i > 2 else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        console.print(_text("  ".join(cells).rstrip()), soft_wrap=True)
        for name, value in one.changed.items() if one else ():
            given = value.items() if name == "columns" else ()
            words = [f"--column {ours}={theirs}" for ours, theirs in given]
            for word in words or [f"--set {shlex.quote(f'{name}={cell(value)}')}"]:
                console.print(_text(f"    {word}"), soft_wrap=True)
    if any(run.converged is False for run in runs):
        console.print("! had not converged")


def show_comparison(console: Console, found: Comparison, page: bool = False) -> None:
    """Print what differs between two runs and some of the rows that changed, in about 25 lines.

    Sentences are wrapped. ``page``: there is a page, too.
    """
    _wrap(console, headline(found))
    show_changed_rows(console, found, _CHANGED)
    table = _table("", "first", "second", "")
    differ = [*changes(found), *implied(found)]
    for row in [*differ, *effects(found)]:
        note = "" if row in differ else row.note.rpartition(": ")[2]
        name = f"{row.name}{unit(found, row.name)}"
        table.add_row(*map(_text, (name, row.first, row.second, note)))
    if table.row_count:
        _print(console, table)
    for line in new_warnings(found):
        _wrap(console, shorten(line, _WARNED, placeholder=" ... (whole on the page)"))
    alike = (f"{name} ({value})" if value else name for name, value in same(found))
    _wrap(console, f"The same: {', '.join(alike)}.")
    for which, paths in zip(("first", "second"), found.runs, strict=True):
        console.print(_text(f"{which}: {paths.root}"), soft_wrap=True)
    more = "add to this command --rows for all rows, --json for all numbers"
    _wrap(console, more if page else f"{more}, --report compared.html for a page")


_ALL = "--json and --report have them"


def show_changed_rows(console: Console, found: Comparison, most: int | None = None) -> None:
    """Print the rows that changed, of each table, at most so many; what is new first.

    Where only some are wanted, those of the first table are printed, and the others counted.
    """
    if not found.predictions:
        _say(console, why_not_compared(*found.runs))
    for place, one in enumerate(found.predictions):
        if most is None or place:  # else the headline says it
            _say(console, f"{one.table}: {rows_in_words(one)}")
        if most is None and (why := reasons_in_words(one)):
            _say(console, why)
        rows = [] if most and place else [r.as_row() for r in one.changed(most)]
        if len(rows) > 1 and len({row.get("given") for row in rows}) == 1:
            rows = [{n: value for n, value in row.items() if n != "given"} for row in rows]
        if any("why" in row for row in rows):
            rows = [{**row, "why": row.get("why", "")} for row in rows]
            rows = [{n: v for n, v in row.items() if n != "why" or not most} for row in rows]
        for row in rows:
            row["first"], row["second"] = in_digits(row["first"], row["second"])
        if rows:
            named = len(one.every.keys)
            rows = [{NAMES.get(name, name): value for name, value in row.items()} for row in rows]
            show_rows(console, rows, ("first", "second", "what"), (), named, _ALL)
        if rows and len(rows) < one.count:
            parts = "; ".join(f"{len(places):,} {what}" for what, places in one.places.items())
            of = f"the first {len(rows)} of {one.count:,} {every_row_of(one)} that changed"
            _say(console, f"{of}: {parts}")
