"""Rows as they are kept: what their cells and labels hold, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa

from flows.experts.input.labels import label_faults
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, shown
from flows.one_table import CheckedColumns
from flows.records import json_files
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.checks import Checker
from flows.tables.mixed import CATEGORY
from flows.tables.names import in_files
from flows.tables.roles import (
    Contents,
    Taken,
    bounded,
    cells_of,
    column_rules,
    count_levels,
    unclear_faults,
    unknown_columns,
)
from vbmodels.core.columns import Rule
from vbmodels.core.levels import Levels
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.columns import level_key


class AboutRows(json_files.Form):
    """What ingest says of a partition."""

    contents: Contents


def raw_of(table: pa.Table, kinds: Mapping[str, Rule]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.experts.columns`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `flows.tables.roles.joined` keeps them.
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


def check_finite(checker: Checker, taken: Taken) -> None:
    """Report numbers that are infinite."""
    for name, cells in taken.cells.items():
        if mixed.typed(cells):
            values = cells.to_numpy(zero_copy_only=False)
            checker.found.rows(
                np.flatnonzero(np.isinf(values)),
                name,
                "a finite number",
                lambda row, values=values: str(values[row]),
                "mend the cell or leave it empty",
            )


def faults_of_fit(files: Sequence[InputFile], checked: Sequence[CheckedColumns]) -> list[Fault]:
    """List what keeps these files from being fitted."""
    settings: ExpertSettings = checked[0].settings
    where = in_files([file.url for file in files])
    contents = reduce(add, (one.contents for one in checked))
    faults = unknown_columns([*checked[0].contents.seen], settings)
    _, unclear = column_rules(contents.seen, settings)
    for fault, name in zip(unclear_faults(where, unclear, settings), unclear, strict=True):
        cells = [
            replace(fault, file=file.url, row=row, found=shown(cell))
            for file, one in zip(files, checked, strict=True)
            for row, cell in one.odd.get(name, ())
            if unclear[name].mend
        ]
        faults += cells or [fault]
    return faults + label_faults(where, contents, settings)
