"""Runs on a terminal: one, its tables, all of a target, two compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Literal

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows import storage
from flows.cli.output import line, out, print_json
from flows.escape import escaped
from flows.faults import InputError
from flows.read.rows import (
    OBSERVED,
    ColumnOfTable,
    cell,
    columns_of,
    described,
    described_tables,
    order_of,
    tables_of,
)
from flows.records.runs import RunPaths
from flows.runs.listing import Listed

_FOLDED = 24  # signs of a text that are shown in a line
_WIDE = 4000  # columns of what is not to be wrapped


def _text(value: str) -> Text:
    """Return text from data for a terminal: escaped, and no markup."""
    return Text(escaped(value))


def _say(console: Console, text: str) -> None:
    """Print a sentence, wrapped on a terminal."""
    console.print(_text(text), soft_wrap=not console.is_terminal)


def _print(console: Console, table: Table, wide: bool = False) -> None:
    """Print a table; off a terminal without blanks at ends of lines, a ``wide`` one unwrapped."""
    if console.is_terminal:
        console.print(table)
        return
    options = console.options.update(width=_WIDE if wide else console.width)
    lines = console.render_lines(table, options, pad=False)
    texts = ("".join(part.text for part in line).rstrip() for line in lines)
    console.print(Text("\n".join(texts)), soft_wrap=True)


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
    elsewhere: str = "",
) -> None:
    """Print rows of a table: the columns that fit, those called ``first`` among them; then what
    each of them means.

    The first column names a row and is always there. ``elsewhere``: what has the columns for which
    there is no room.
    """
    if not rows:
        console.print("no rows")
        return
    empty = [n for n in rows[0] if all(cell(row[n]) == "" for row in rows)]
    names = [n for n in rows[0] if n not in empty] or list(rows[0])
    naming = names[0]
    same = {n for n in names if len(rows) > 1 and len({cell(row[n]) for row in rows}) == 1}
    rank = {name: place for place, name in enumerate(dict.fromkeys((*first, *_NEXT)))}
    last = [n for n in names if _SHARE.fullmatch(n) and n not in first]
    leading = {max(last, key=lambda n: row[n] or 0.0) for row in rows if last}

    def place(name: str) -> tuple[bool, bool, bool, float]:
        """Return what columns are ordered by."""
        if name in last:  # the largest first
            return True, True, False, -sum(row[name] or 0.0 for row in rows)
        late, alike = name in _AGAIN and name not in first, name in same and name not in first
        return name != naming, late, alike, rank.get(name, len(rank))

    wanted = [n for n in names if n not in last or len(leading) > 1 or len(rows) == 1]
    fitting = _fitting(console.width, rows, sorted(wanted, key=place))
    table = Table(box=None, pad_edge=False)
    for name in (name for name in names if name in fitting):
        number = isinstance(rows[0][name], int | float)
        short = name == naming and max(len(cell(row[name])) for row in rows) <= console.width // 2
        justify: Literal["right", "left"] = "right" if number else "left"
        table.add_column(_text(name), overflow="fold", justify=justify, no_wrap=number or short)
    for row in rows:
        table.add_row(*(_text(cell(row[name])) for name in names if name in fitting))
    _print(console, table)
    show_meanings(console, [c for c in meanings if c.name in fitting and c.meaning])
    if left := [name for name in names if name not in fitting]:
        how = f" ({elsewhere})" if elsewhere else ""
        _say(console, f"not shown: {', '.join(left)}{how}")
    if empty and len(empty) < len(rows[0]):
        _say(console, f"empty in these rows: {', '.join(empty)}")


def show_meanings(console: Console, columns: Sequence[ColumnOfTable], types: bool = False) -> None:
    """Print a line for each column: its name and label, on request its type, and its meaning.

    Columns next to each other that mean the same share a line.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for _, group in groupby(columns, lambda c: (c.type, c.meaning or c.name)):
        first, *rest = group
        label = f" ({first.label})" if first.label else ""
        name = f"{first.name} to {rest[-1].name}" if rest else first.name + label
        what = f"{first.type}: {first.meaning}" if types else first.meaning
        table.add_row(_text(f"{name}:"), _text(what))
    if columns:
        _print(console, table, wide=True)


def _fitting(width: int, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> set[str]:
    """Return the columns that fit next to each other, the first of ``names`` whatever its width.

    Long texts may be folded.
    """
    fitting: set[str] = set()
    for name in names:
        longest = max(len(name), *(min(len(cell(row[name])), _FOLDED) for row in rows)) + 2
        if not fitting or longest <= width:
            fitting.add(name)
            width -= longest
    return fitting


def open_report(url: str) -> None:
    """Open a report in a browser; refuse one that is not on this machine."""
    if not storage.is_local(url):
        raise InputError.of("--open", "a run on this machine", url, remedy="download its report")
    if typer.launch(url, wait=True):
        raise InputError.of("--open", "a browser on this machine", "none", remedy=f"open {url}")


def print_columns(paths: RunPaths, table: str, json_output: bool) -> None:
    """Print what the columns of a table mean, or those of all tables."""
    listed = {name: columns_of(paths, name) for name in ([table] if table else tables_of(paths))}
    if json_output:
        plain = {name: [asdict(c) for c in columns] for name, columns in listed.items()}
        of_table = {"table": table, "columns": plain[table]} if table else {"tables": plain}
        print_json({"run_id": paths.run_id, **of_table})
        return
    for name, columns in listed.items():
        if not table:
            line(f"{name}:")
        show_meanings(out(), columns, types=True)


def print_rows(read: pa.Table, count: int | None, columns: str, sort: str, new: bool) -> None:
    """Print rows of a table, and how many more of ``count`` there are.

    ``columns``, ``sort``, ``new``: what the user wanted.
    """
    rows = read.to_pylist()
    first = [name.strip() for name in columns.split(",") if columns]
    first = first or first_columns(read.column_names, sort.lstrip("-"))
    how = "--columns list explains them; --columns NAME,NAME shows them"
    show_rows(out(), rows, first, described(read.schema), elsewhere=how)
    if count is not None and count > len(rows):
        observed = OBSERVED in read.column_names and not (new or sort)
        last = ", those that the input listed last" if observed else ""
        line(f"{len(rows):,} of {count:,} rows{last}; --rows {count} prints all")


def show_runs(console: Console, runs: Sequence[Listed]) -> None:
    """Print the runs of a target, each with the settings that were given below it."""
    headings = ("run", "state", "pipeline", "rows", "time", "sweeps")
    values = (
        (
            run.run_id,
            run.state,
            run.pipeline,
            "" if run.rows is None else f"{run.rows:,}",
            "" if run.seconds is None else f"{run.seconds:.1f} s",
            f"{cell(run.iterations)}{'!' if run.converged is False else ''}",
        )
        for run in runs
    )
    lines = [headings, *values]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for texts, of_run in zip(lines, (None, *runs), strict=True):
        cells = [
            text.rjust(width) if i > 2 else text.ljust(width)
            for i, (text, width) in enumerate(zip(texts, widths, strict=True))
        ]
        console.print(_text("  ".join(cells).rstrip()), soft_wrap=True)
        for name, value in of_run.changed.items() if of_run else ():
            columns = value.items() if name == "columns" else ()
            words = [f"--column {ours}={theirs}" for ours, theirs in columns]
            for word in words or [f"--set {shlex.quote(f'{name}={cell(value)}')}"]:
                console.print(_text(f"    {word}"), soft_wrap=True)
    if any(run.converged is False for run in runs):
        console.print("! had not converged")
