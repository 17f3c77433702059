"""Rows as they come: cells kept as numbers or text, labels as text, and what both hold counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flows.data import json_files, mixed
from flows.data.levels import bounded, count_levels, merge_levels
from flows.data.mixed import CATEGORY
from flows.data.row_weights import WEIGHT, WeightSums, others_in, weights_in
from flows.experts.labels import LABEL
from flows.experts.schema import ROWS_IN
from flows.experts.settings import ExpertSettings
from vbmodels.core.columns import Rule, Seen
from vbmodels.core.levels import Levels
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.columns import level_key

ID = "id"


class AboutCells(json_files.Form):
    """What ingest says of a partition: what its columns hold, the labels, and the weights."""

    seen: dict[str, Seen]
    labels: Levels
    label_cells: Seen = Seen()
    weights: WeightSums = WeightSums()


def columns_of(names: Sequence[str], settings: ExpertSettings) -> list[str]:
    """Return the names of the columns that predict."""
    return others_in(ROWS_IN, names, settings)


@dataclass(frozen=True)
class Taken:
    """Some rows of a file as they are kept."""

    ids: pa.Array
    labels: pa.Array
    weights: pa.Array
    cells: dict[str, mixed.Cells]


def taken(
    rows: pa.Table, settings: ExpertSettings, semicolons: bool = False,
    where: mixed.Where | None = None,
) -> tuple[Taken, AboutCells]:  # fmt: skip
    """Return rows of a file as they are kept, and what they hold.

    Parameters
    ----------
    rows
        Columns as the checker gives them.
    settings
        The settings.
    semicolons
        Whether the file sets its columns apart by semicolons.
    where
        Where each row is, where that is known.
    """
    missing = settings.missing
    names = columns_of(rows.column_names, settings)
    found = {name: mixed.taken(rows[name], missing, semicolons, where) for name in names}
    labels, label_cells = labels_in(rows, missing, where)
    weights = weights_in(rows, settings)
    ids = _whole(rows[ID]) if ID in rows.column_names else pa.nulls(len(rows), pa.string())
    about = AboutCells(
        seen={name: seen for name, (_, seen) in found.items()},
        labels=bounded({LABEL: count_levels(labels)})[LABEL],
        label_cells=label_cells,
        weights=WeightSums.of(weights),
    )
    return Taken(ids, labels, weights, {name: cells for name, (cells, _) in found.items()}), about


def merge(pieces: Sequence[Taken]) -> pa.Table:
    """Return rows of several files as one table."""
    names = pieces[0].cells
    cells = {f"c.{name}": mixed.concat([piece.cells[name] for piece in pieces]) for name in names}
    ids, labels, weights = (
        pa.concat_arrays([getattr(piece, name) for piece in pieces])
        for name in ("ids", "labels", "weights")
    )
    return pa.table({ID: ids, LABEL: labels, WEIGHT: weights, **cells})


def added(seen: Iterable[Seen]) -> Seen:
    """Add what several pieces of a column hold."""
    return sum(seen, Seen())


def labels_in(
    table: pa.Table, missing: Sequence[str], where: mixed.Where | None = None
) -> tuple[pa.Array, Seen]:
    """Return the labels of rows as text, null where there is none, and what they hold."""
    if LABEL not in table.column_names:
        return pa.nulls(len(table), pa.string()), Seen(0, len(table))
    cells, seen = mixed.taken(table[LABEL], missing, where=where)
    return mixed.texts(cells), seen


def nothing_in(about: AboutCells) -> AboutCells:
    """Return what no rows with the same columns hold."""
    return AboutCells(seen=dict.fromkeys(about.seen, Seen()), labels=Levels({}, 0))


def merged(parts: Sequence[AboutCells]) -> AboutCells:
    """Add what several partitions, or pieces of one, hold."""
    labels = bounded(merge_levels([{LABEL: one.labels} for one in parts]))[LABEL]
    names = dict.fromkeys(name for one in parts for name in one.seen)
    seen = {n: added(one.seen[n] for one in parts if n in one.seen) for n in names}
    weights = sum((part.weights for part in parts), WeightSums())
    cells = added(one.label_cells for one in parts)
    return AboutCells(seen=seen, labels=labels, label_cells=cells, weights=weights)


def raw_of(table: pa.Table, kinds: Mapping[str, Rule]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.experts.columns`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `kept` keeps them.
    kinds
        How the columns to read are read.

    Returns
    -------
    raw, wrong
        [N, D], and by column those that are no cells of its kind; [N].
    """
    columns, wrong = [], {}
    for name, rule in kinds.items():
        cells = _whole(table[f"c.{name}"])
        if rule.kind == CATEGORY:
            columns.append(_keys(mixed.texts(cells, rule)))
            continue
        values, odd = mixed.numbers(cells, rule)
        columns.append(values)
        if odd.any():
            wrong[name] = odd
    return np.column_stack(columns) if columns else np.empty((len(table), 0)), wrong


def levels_in(table: pa.Table, kinds: Mapping[str, Rule]) -> dict[str, Levels]:
    """Count the levels of a partition's columns of categories."""
    named = {name: rule for name, rule in kinds.items() if rule.kind == CATEGORY}
    return bounded(
        {n: count_levels(mixed.texts(_whole(table[f"c.{n}"]), r)) for n, r in named.items()}
    )


def _keys(text: pa.Array) -> FloatArray:
    coded = text.dictionary_encode()
    keys = np.array([*map(level_key, coded.dictionary.to_pylist()), np.nan])
    return np.asarray(keys[coded.indices.fill_null(len(keys) - 1).to_numpy()])


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
