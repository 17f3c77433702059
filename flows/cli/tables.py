"""Runs on a terminal: one, its tables, all of a target, two compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.escape import escaped
from flows.read.rows import (
    ColumnOfTable,
    cell,
    described_tables,
    order_of,
)
from flows.records.runs import RunPaths
from flows.runs.listing import Listed

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
    """Print a line for each column: its name and label, on request its type, and its meaning.

    Columns next to each other that mean the same share a line.
    """
    table = Table(box=None, show_header=False, pad_edge=False)
    for _, group in groupby(columns, lambda one: (one.type, one.meaning or one.name)):
        first, *rest = group
        label = f" ({first.label})" if first.label else ""
        name = f"{first.name} to {rest[-1].name}" if rest else first.name + label
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
