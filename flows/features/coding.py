"""A partition of a table on its way: its cells as text, the columns settled, its codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from flows.data import json_files, partition, storage
from flows.data.levels import Levels, count_levels, merge_levels
from flows.data.names import listed
from flows.data.partition import Part
from flows.data.runs import Dropped, RunPaths
from flows.family import CheckedPiece, Each, Ingested
from flows.faults import Fault, InputError
from flows.features.check import ID, RARE, Column, encode, in_columns, order_levels, piece, without
from flows.features.schema import CATEGORIES_IN, IMPUTED
from flows.features.settings import FeatureSettings
from vbmodels.core.state import to_bytes
from vbmodels.features.forms import RowFindings, make
from vbmodels.features.imputation.model import CompletedIBP
from vbmodels.features.search.model import ITERATIONS
from vbmodels.features.table import bearable, feature_batch


class AboutCells(json_files.Form):
    """What ingest says of a partition: its rows, and the categories of every column."""

    rows: int
    levels: dict[str, Levels]


class Dictionary(json_files.Form):
    """The contents of ``columns.json``: the columns as they are modelled."""

    columns: list[Column] = Field(min_length=1)


def store_cells(part: Part, settings: FeatureSettings, paths: RunPaths) -> Ingested:
    """Turn a partition's cells to text, leave empty rows out, count categories."""
    ids, columns, pieces = read_cells(part, settings)
    given = np.stack([np.asarray(c.is_valid()) for c in columns.values()]).any(0)
    table = pa.table({ID: ids, **{f"c.{n}": c for n, c in columns.items()}})
    empty = table.filter(pa.array(~given))[ID].to_pylist()
    table = table.filter(pa.array(given))
    storage.write_table(work_url(paths, "cells", part.index), table)
    levels = {n: count_levels(_cells(table, n)) for n in columns}
    about = AboutCells(rows=table.num_rows, levels=levels)
    json_files.write(work_url(paths, "about", part.index, "json"), about)
    return Ingested(
        rows_read=part.rows,
        rows_kept=table.num_rows,
        dropped=(Dropped(reason="row without any cell", count=len(empty),
                         examples=[str(name) for name in empty[:100]]),),
        checked=tuple(pieces),
    )  # fmt: skip


def read_cells(
    part: Part, settings: FeatureSettings
) -> tuple[pa.Array, dict[str, pa.Array], list[CheckedPiece]]:
    """Return the names of a partition's rows, its columns, and what its check found."""
    table = CATEGORIES_IN.of(settings)
    ids, columns, pieces = [], [], []
    for _, checker, rows in partition.checked(part, table):
        cells = in_columns(rows)
        ids.append(cells.pop(ID))
        columns.append({n: without(c, settings.missing) for n, c in cells.items()})
        pieces.append(piece(checker, columns[-1]))
    joined = {
        name: pa.concat_arrays([t[name] for t in columns if name in t]) for name in columns[0]
    }
    return pa.concat_arrays(ids), joined, pieces


def code_parts(
    parts: Sequence[Part], settings: FeatureSettings, paths: RunPaths, fitted: RunPaths | None,
    each: Each,
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Settle the categories of every column and code every partition.

    Returns
    -------
    urls, warnings
        Where each partition's arrays are, and what the user should know.
    """
    urls = [work_url(paths, "about", part.index, "json") for part in parts]
    about = [json_files.read(url, AboutCells) for url in urls]
    found = merge_levels([one.levels for one in about])
    if fitted is None:
        rows = sum(one.rows for one in about)
        _refuse_few_sweeps(settings)
        kept, warnings = _settle(found, settings)
        warnings += _lowered(rows, settings)
    else:
        kept, warnings = _known(fitted, found), []
    json_files.write(dictionary_url(paths), Dictionary(columns=kept))
    firsts = np.concatenate([[0], np.cumsum([one.rows for one in about])]).tolist()
    numbered = list(zip([part.index for part in parts], firsts[:-1], strict=True))
    built = each(_build, numbered, settings, paths)
    warnings += _unseen([strange for _, strange in built])
    return [url for url, _ in built], warnings


def work_url(paths: RunPaths, name: str, index: int, suffix: str = "parquet") -> str:
    """Return where one partition's intermediate file is."""
    return storage.join(paths.work, name, f"part-{index:05d}.{suffix}")


def dictionary_url(paths: RunPaths) -> str:
    """Return where a run keeps its columns while it works."""
    return storage.join(paths.work, "columns.json")


def kept_url(paths: RunPaths) -> str:
    """Return where a finished run keeps its columns."""
    return storage.join(paths.root, "posterior", "columns.json")


def read_dictionary(paths: RunPaths) -> list[Column]:
    """Return the columns as they are modelled."""
    return json_files.read(dictionary_url(paths), Dictionary).columns


def _cells(table: pa.Table, name: str) -> pa.Array:
    column = table[f"c.{name}"]
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _settle(
    found: Mapping[str, Levels], settings: FeatureSettings
) -> tuple[list[Column], list[str]]:
    """Return the columns to model, and which were dropped, or have categories joined, and why."""
    warnings = []
    for count, what in ((0, "without any cell"), (1, "with one category only")):
        names = [n for n, levels in found.items() if len(levels.counts) == count]
        if names:
            columns = "column" if len(names) == 1 else "columns"
            warnings.append(
                f"{len(names)} {columns} {what} {'was' if len(names) == 1 else 'were'} left out: "
                f"{listed(names)}."
            )
    kept = [
        order_levels(n, v, settings.rare_below, settings.max_levels)
        for n, v in found.items()
        if len(v.counts) > 1
    ]
    joined = [c for c in kept if c.joined]
    if joined:
        told = listed([f"{c.name} ({len(c.joined):,})" for c in joined])
        where = "1 column" if len(joined) == 1 else f"{len(joined)} columns"
        warnings.append(
            f"Rare categories were joined into one, called {RARE}, in {where}"
            f": {told}. They have fewer cells than rare_below = {settings.rare_below}"
            f", or are beyond max_levels = {settings.max_levels}."
        )
    return kept, warnings


def _refuse_few_sweeps(settings: FeatureSettings) -> None:
    """Refuse a search that would be stopped while its chains draw: it would leave no fit."""
    model = make(settings)
    searches = isinstance(model, CompletedIBP)
    if not searches or settings.max_iter > ITERATIONS:
        return
    raise InputError.of(
        file="settings",
        column="max_iter",
        expected=f"more than the {ITERATIONS} sweeps of the search's chains",
        found=str(settings.max_iter),
        remedy="raise max_iter",
    )


def _lowered(rows: int, settings: FeatureSettings) -> list[str]:
    """Say so where so many features cannot be had of so few rows; the models lower them."""
    most = bearable(settings.n_features, rows)
    if most == settings.n_features:
        return []
    return [
        f"n_features was lowered from {settings.n_features} to {most}: a table of {rows:,} rows "
        "with data has fewer features than rows."
    ]


def _known(fitted: RunPaths, found: Mapping[str, Levels]) -> list[Column]:
    """Return the fit's columns, which new data must have."""
    kept = json_files.read(kept_url(fitted), Dictionary).columns
    absent = [c.name for c in kept if c.name not in found]
    if absent:
        raise InputError(
            [
                Fault(
                    file="new data",
                    column=name,
                    expected="every column of the fit",
                    found="none of that name",
                    remedy="add the column; its cells may be empty",
                )
                for name in absent
            ]
        )
    return kept


def _unseen(strange: Sequence[Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Name the categories that the fit never saw: their cells count as missing."""
    total = merge_levels([{n: Levels(v, 0) for n, v in s.items()} for s in strange])
    warnings = []
    for name, levels in total.items():
        listed = ", ".join(f"{text!r} ({n})" for text, n in list(levels.counts.items())[:5])
        warnings.append(
            f"Column {name}: cells of categories that the fit never saw count as missing: {listed}."
        )
    return warnings


def _build(
    numbered: tuple[int, int], settings: FeatureSettings, paths: RunPaths
) -> tuple[str, dict[str, dict[str, int]]]:
    index, first = numbered
    columns = read_dictionary(paths)
    table = storage.read_table(work_url(paths, "cells", index))
    codes, unknown = encode({c.name: _cells(table, c.name) for c in columns}, columns)
    levels = np.array([len(c.levels) for c in columns])
    batch = feature_batch(
        codes,
        levels,
        np.arange(first, first + len(codes)),
        grouped=settings.group and settings.inference != "laplace",
    )
    url = work_url(paths, "partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return url, unknown


def imputed_table(found: RowFindings, ids: Any, columns: Sequence[Column]) -> pa.Table:
    """Make one line of each category of each missing cell."""
    sizes = np.array([len(c.levels) for c in columns])
    take = np.arange(found.cells.shape[1]) < sizes[found.columns, None]
    cell, category = np.nonzero(take)
    best = found.cells.argmax(1)
    names = [columns[d] for d in found.columns[cell].tolist()]
    return pa.table(
        [
            ids.take(pa.array(found.rows[cell])).cast(pa.string()),
            pa.array([c.name for c in names], pa.string()),
            pa.array(
                [c.levels[r] for c, r in zip(names, category.tolist(), strict=True)], pa.string()
            ),
            pa.array(found.cells[cell, category]),
            pa.array(best[cell] == category),
        ],
        schema=IMPUTED.arrow,
    )
