"""Rows of a declared table whose other columns are taken in whatever type a file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from flows.settings.tables import TableSettings
from flows.tables import mixed
from flows.tables.checks import Checker
from flows.tables.row_weights import WEIGHT, others_in, weights_in
from flows.tables.table import ROW_ID, Table
from vbmodels.core.seen import Seen

ID = ROW_ID.name


@dataclass(frozen=True)
class Taken:
    """Some rows as they are kept: their names and weights, and cells of the other columns.

    ``seen`` is what each of these holds.
    """

    ids: pa.Array
    weights: pa.Array
    cells: dict[str, mixed.Cells]
    seen: dict[str, Seen]


def take(
    table: Table, rows: pa.Table, checker: Checker, settings: TableSettings, one_file: bool = True
) -> Taken:
    """Return rows that a checker has read as they are kept; ``one_file``: all are of its file."""
    cells, seen = {}, {}
    for name, *found in _read_columns(table, rows, checker, settings, one_file):
        cells[name], seen[name] = found
    return Taken(
        rows[ID].combine_chunks() if ID in rows.column_names else pa.nulls(len(rows), pa.string()),
        weights_in(rows, settings),
        cells,
        seen,
    )


def count_cells(
    table: Table, rows: pa.Table, checker: Checker, settings: TableSettings
) -> dict[str, Seen]:
    """Return what the other columns of rows of one file hold; one column is copied at a time."""
    return {name: seen for name, _, seen in _read_columns(table, rows, checker, settings, True)}


def _read_columns(
    table: Table, rows: pa.Table, checker: Checker, settings: TableSettings, one_file: bool
) -> Iterator[tuple[str, mixed.Cells, Seen]]:
    semicolons, where = checker.separator == ";", checker.where if one_file else None
    for name in others_in(table, rows.column_names, settings):
        yield name, *mixed.taken(rows[name], settings.missing_in(name), semicolons, where)


def joined(pieces: Sequence[Taken]) -> pa.Table:
    """Return rows of several files as one table, in which `cells_of` finds a column."""
    return pa.table(
        {
            ID: pa.concat_arrays([piece.ids for piece in pieces]),
            WEIGHT: pa.concat_arrays([piece.weights for piece in pieces]),
            **{
                f"c.{name}": mixed.concat([piece.cells[name] for piece in pieces])
                for name in pieces[0].cells
            },
        }
    )


def cells_of(table: pa.Table, name: str) -> mixed.Cells:
    """Return a column of rows that are kept."""
    return table[f"c.{name}"].combine_chunks()


def merge_seen(parts: Sequence[Mapping[str, Seen]]) -> dict[str, Seen]:
    """Add what several parts of a table hold."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum((part[name] for part in parts if name in part), Seen()) for name in names}
