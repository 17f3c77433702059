"""Rows as they come: cells kept as numbers or text, labels as text, and what both hold counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flows.data import json_files, mixed
from flows.data.levels import Levels, bounded, count_levels, merge_levels
from flows.data.mixed import CATEGORY, Seen
from flows.experts.schema import ROWS_IN
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.encoding import level_key

ID, LABEL = "id", "label"


class AboutCells(json_files.Form):
    """What ingest says of a partition: what every column was seen to hold, and the labels."""

    seen: dict[str, Seen]
    labels: Levels


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the names of the columns that predict."""
    return ROWS_IN.others_in(list(names))


@dataclass(frozen=True)
class Taken:
    """Some rows of a file as they are kept."""

    ids: pa.Array
    labels: pa.Array
    cells: dict[str, mixed.Cells]


def taken(rows: pa.Table, missing: Sequence[str]) -> tuple[Taken, AboutCells]:
    """Return rows of a file as they are kept, and what they hold."""
    found = {name: mixed.taken(rows[name], missing) for name in columns_of(rows.column_names)}
    labels = labels_in(rows, missing)
    ids = _whole(rows[ID]) if ID in rows.column_names else pa.nulls(len(rows), pa.string())
    about = AboutCells(
        seen={name: seen for name, (_, seen) in found.items()},
        labels=bounded({LABEL: count_levels(labels)})[LABEL],
    )
    return Taken(ids, labels, {name: cells for name, (cells, _) in found.items()}), about


def joined(pieces: Sequence[Taken]) -> pa.Table:
    """Return rows of several files as one table."""
    names = pieces[0].cells
    cells = {f"c.{name}": mixed.joined([piece.cells[name] for piece in pieces]) for name in names}
    ids, labels = (
        pa.concat_arrays([getattr(piece, name) for piece in pieces]) for name in ("ids", "labels")
    )
    return pa.table({ID: ids, LABEL: labels, **cells})


def added(seen: Iterable[Seen]) -> Seen:
    """Add what several pieces of a column hold."""
    return sum(seen, Seen())


def labels_in(table: pa.Table, missing: Sequence[str]) -> pa.Array:
    """Return the labels of rows as text, null where there is none."""
    if LABEL not in table.column_names:
        return pa.nulls(len(table), pa.string())
    return mixed.texts(mixed.taken(table[LABEL], missing)[0])


def merged(parts: Sequence[AboutCells]) -> AboutCells:
    """Add what several partitions, or pieces of one, hold."""
    labels = bounded(merge_levels([{LABEL: one.labels} for one in parts]))[LABEL]
    names = dict.fromkeys(name for one in parts for name in one.seen)
    seen = {n: added(one.seen[n] for one in parts if n in one.seen) for n in names}
    return AboutCells(seen=seen, labels=labels)


def kinds_of(seen: Mapping[str, Seen], categories: Sequence[str]) -> dict[str, str]:
    """Return the kind of every column; ``categories`` are such whatever they hold."""
    return {name: CATEGORY if name in categories else one.kind for name, one in seen.items()}


def raw_of(table: pa.Table, kinds: Mapping[str, str]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.experts.encoding`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `kept` keeps them.
    kinds
        The kinds of the columns to read.

    Returns
    -------
    raw, wrong
        [N, D], and by column those that are no cells of its kind; [N].
    """
    columns, wrong = [], {}
    for name, kind in kinds.items():
        cells = _whole(table[f"c.{name}"])
        if kind == CATEGORY:
            columns.append(_keys(mixed.texts(cells)))
            continue
        values, odd = mixed.numbers(cells, kind)
        columns.append(values)
        if odd.any():
            wrong[name] = odd
    return np.column_stack(columns) if columns else np.empty((len(table), 0)), wrong


def levels_in(table: pa.Table, kinds: Mapping[str, str]) -> dict[str, Levels]:
    """Count the levels of a partition's columns of categories."""
    named = [name for name, kind in kinds.items() if kind == CATEGORY]
    return bounded({n: count_levels(mixed.texts(_whole(table[f"c.{n}"]))) for n in named})


def _keys(text: pa.Array) -> FloatArray:
    coded = text.dictionary_encode()
    keys = np.array([*map(level_key, coded.dictionary.to_pylist()), np.nan])
    return np.asarray(keys[coded.indices.fill_null(len(keys) - 1).to_numpy()])


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
