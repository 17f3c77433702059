"""Rows as they come: cells kept as numbers or text, labels as text, and what both hold counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from flows.experts.input.labels import LABEL
from flows.experts.schema import ROWS_IN
from flows.experts.settings import ExpertSettings
from flows.records import json_files
from flows.tables import mixed
from flows.tables.checks import Checker
from flows.tables.levels import bounded, count_levels, merge_levels
from flows.tables.mixed import CATEGORY
from flows.tables.mixed_rows import Taken, cells_of, merge_seen, take
from flows.tables.row_weights import WeightSums
from vbmodels.core.columns import Rule
from vbmodels.core.levels import Levels
from vbmodels.core.seen import Seen
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.columns import level_key

ID = "id"


class AboutCells(json_files.Form):
    """What ingest says of a partition: what its columns hold, the labels, and the weights."""

    seen: dict[str, Seen]
    labels: Levels
    label_cells: Seen = Seen()
    weights: WeightSums = WeightSums()


def taken(
    rows: pa.Table, checker: Checker, settings: ExpertSettings, one_file: bool = True
) -> tuple[Taken, pa.Array, AboutCells]:
    """Return rows that a checker has read as they are kept, their labels, and what both hold.

    ``one_file``: whether all are of the checker's file.
    """
    found = take(ROWS_IN, rows, checker, settings, one_file)
    where = checker.where if one_file else None
    missing = settings.missing_in(settings.columns.get(LABEL, LABEL))
    labels, label_cells = labels_in(rows, missing, where)
    about = AboutCells(
        seen=found.seen,
        labels=bounded({LABEL: count_levels(labels)})[LABEL],
        label_cells=label_cells,
        weights=WeightSums.of(found.weights),
    )
    return found, labels, about


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
    seen = merge_seen([one.seen for one in parts])
    weights = sum((part.weights for part in parts), WeightSums())
    cells = sum((one.label_cells for one in parts), Seen())
    return AboutCells(seen=seen, labels=labels, label_cells=cells, weights=weights)


def raw_of(table: pa.Table, kinds: Mapping[str, Rule]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.experts.columns`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `flows.tables.mixed_rows.joined` keeps them.
    kinds
        How the columns to read are read.

    Returns
    -------
    raw, wrong
        [N, D], and by column those that are no cells of its kind; [N].
    """
    columns, wrong = [], {}
    for name, rule in kinds.items():
        cells = cells_of(table, name)
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
    return bounded({n: count_levels(mixed.texts(cells_of(table, n), r)) for n, r in named.items()})


def _keys(text: pa.Array) -> FloatArray:
    coded = text.dictionary_encode()
    keys = np.array([*map(level_key, coded.dictionary.to_pylist()), np.nan])
    return np.asarray(keys[coded.indices.fill_null(len(keys) - 1).to_numpy()])
