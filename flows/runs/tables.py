"""The tables that a run published, as a reader on a terminal wants them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flows.data import storage
from flows.data.runs import RunPaths
from flows.faults import Fault, InputError, did_you_mean

_PART = ".parquet"


def tables_of(paths: RunPaths) -> list[str]:
    """Return the names of a run's tables."""
    return [
        name
        for name in storage.names(paths.root)
        if name not in ("posterior", "work", "kept") and "." not in name and parts_of(paths, name)
    ]


def rows_of(paths: RunPaths, name: str, by: str, most: int) -> pa.Table:
    """Return rows of a table: the first, or those with the largest (``-``: smallest) of a column.

    Parameters
    ----------
    paths
        The run.
    name
        The table.
    by
        A column, with a ``-`` before it for the smallest first; empty for the order of the table.
    most
        Most rows.

    Raises
    ------
    InputError
        If there is no such table or column.
    """
    known = tables_of(paths)
    if name not in known:
        remedy = did_you_mean(name, known)
        expected = f"one of its tables {', '.join(known) or '(it has none)'}"
        raise InputError([Fault(f"run {paths.run_id}", expected, name, remedy=remedy)])
    column = by.removeprefix("-")
    parts = _read(paths, name)
    first = next(parts)
    sortable = [f.name for f in first.schema if not pa.types.is_nested(f.type)]
    if by and column not in sortable:
        remedy = did_you_mean(column, sortable)
        columns = f"one of the columns of single values {', '.join(sortable)}"
        raise InputError([Fault(f"table {name}", columns, column, remedy=remedy)])
    kept = first.slice(0, 0)
    for part in itertools.chain([first], parts):
        kept = pa.concat_tables([kept, part])
        kept = _top(kept, column, by, most) if by else kept.slice(0, most)
        if not by and len(kept) == most:
            break
    return kept


def _read(paths: RunPaths, name: str) -> Iterator[pa.Table]:
    for part in parts_of(paths, name):
        yield storage.read_table(storage.join(paths.table(name), part))


def _top(rows: pa.Table, column: str, by: str, most: int) -> pa.Table:
    order = "ascending" if by.startswith("-") else "descending"
    return rows.take(pc.sort_indices(rows, [(column, order)])[:most])


def parts_of(paths: RunPaths, name: str) -> list[str]:
    """Return the names of the files of a table."""
    return [part for part in storage.names(paths.table(name)) if part.endswith(_PART)]


def cell(value: Any) -> str:
    """Return a cell in few characters.

    >>> cell(0.123456), cell(None), cell(["a", "b"]), cell(True)
    ('0.1235', '', 'a, b', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(cell(one) for one in value)
    return str(value)
