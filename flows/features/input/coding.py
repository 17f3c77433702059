"""A partition of a table on its way: its cells, the columns' categories, its codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from flows import storage
from flows.family import Each, Ingested, Prepared
from flows.faults import Fault, InputError, missing_columns
from flows.features.input.categories import Column, encode, recoded
from flows.features.input.columns import columns_of, compare_columns
from flows.features.input.pairs import Survey, survey_codes
from flows.features.schema import FEATURE_WEIGHTS, IMPUTED
from flows.features.settings import FeatureSettings
from flows.one_table import Rows
from flows.records import json_files
from flows.records.runs import Dropped, RunPaths
from flows.tables import mixed
from flows.tables.column_table import doubtful_numbers, numbers_in_text
from flows.tables.names import digests_of, listed
from flows.tables.partition import Part
from flows.tables.roles import (
    ID,
    WEIGHT,
    Contents,
    bounded,
    cells_of,
    concat_files,
    count_levels,
    merge_levels,
)
from vbmodels.core.state import BoolArray, FloatArray, IntArray, to_bytes
from vbmodels.features.forms import Reported, RowFindings
from vbmodels.features.patterns import profile
from vbmodels.features.table import FeatureBatch, bearable, feature_batch, foreign_columns
from vbmodels.tables.answers import part_counts
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Rule
from vbmodels.tables.levels import Levels, new_levels


class AboutCells(json_files.Form):
    """What ingest says of a partition: its rows, what they hold, and their categories."""

    rows: int
    contents: Contents
    levels: dict[str, Levels]


FILE = "columns.json"


class Dictionary(json_files.Form):
    """The contents of `FILE`: the columns as they are modelled."""

    columns: list[Column] = Field(min_length=1)


def store_cells(index: int, rows: Rows, paths: RunPaths) -> Ingested:
    """Store a partition's cells, count what its columns hold and its categories."""
    table = concat_files(rows.taken)
    storage.write_table(paths.part("cells", index), table)
    names = rows.contents.seen
    levels = bounded({n: count_levels(mixed.texts(cells_of(table, n))) for n in names})
    about = AboutCells(rows=table.num_rows, contents=rows.contents, levels=levels)
    json_files.write(paths.part("about", index, "json"), about)
    return Ingested(
        rows_read=table.num_rows,
        rows_kept=table.num_rows,
        notes=rows.contents.weights.notes,
        checked=rows.checked,
    )


def code_parts(
    parts: Sequence[Part],
    settings: FeatureSettings,
    paths: RunPaths,
    fitted: RunPaths | None,
    each: Each,
) -> Prepared:
    """Find the categories of every column and code every partition."""
    urls = [paths.part("about", part.index, "json") for part in parts]
    about = [json_files.read(url, AboutCells) for url in urls]
    levels = bounded(merge_levels([part.levels for part in about]))
    contents = reduce(add, (part.contents for part in about))
    seen, weights = contents.seen, contents.weights
    indices = [part.index for part in parts]
    firsts = np.concatenate([[0], np.cumsum([part.rows for part in about])]).tolist()
    numbered = list(zip(indices, firsts[:-1], strict=True))
    table: tuple[ColumnRead, ...] = ()
    notes: list[str] = []
    answers: dict[str, dict[str, int]] = {}
    mean_weight = weights.mean(settings)
    if fitted is None:
        chosen = columns_of(seen, levels, settings, partial(_numbers_of, indices, paths, each))
        columns, chosen = compare_columns(chosen, each(_survey, numbered, chosen.kept, paths))
        warnings = [*chosen.warnings, *_lowered(weights.rows, settings), *weights.said(settings)]
        table = (*weights.columns(settings), *chosen.table)
        rules = {column.name: column.rule for column in columns if not column.question}
        notes = numbers_in_text(seen, rules)
        warnings += doubtful_numbers(seen, rules, settings)
    else:
        (columns, answers), warnings = _known(fitted, levels), []
    json_files.write(paths.kept(FILE, work=True), Dictionary(columns=columns))
    built = each(_build, numbered, settings, paths, mean_weight)
    warnings += [
        f"{name}: categories that the fit never saw are left out: {listed(texts, 5)}."
        for name, texts in _sum_counts([answers, *(part.unknown for part in built)]).items()
        if texts
    ]
    warnings += _on_respelt([part.respelt for part in built])
    empty = [name for part in built for name in part.empty]
    if len(empty) == firsts[-1]:
        raise InputError.of(
            file="the data",
            expected="cells in the columns that are used",
            found="none",
            remedy="give other columns",
        )
    dropped = Dropped(
        reason="row without any cell",
        count=len(empty),
        examples=empty[:100],
        of=firsts[-1],
        cause="Delete blank rows, or fill the columns that are used",
    )
    return Prepared(
        tuple(part.url for part in built),
        FeatureBatch,
        tuple(warnings),
        (dropped,),
        table,
        tuple(notes),
    )


def _numbers_of(
    indices: Sequence[int], paths: RunPaths, each: Each, name: str, rule: Rule
) -> FloatArray:
    """Return some numbers of a column: those of the same rows for any partitioning."""
    samples = each(_sample, indices, name, rule, paths)
    key, values = (np.concatenate([sample[i] for sample in samples]) for i in (0, 1))
    return np.asarray(values[np.argsort(key, kind="stable")[:SAMPLED]])


SAMPLED = 20_000  # rows, from which classes of numbers are cut


def _sample(index: int, name: str, rule: Rule, paths: RunPaths) -> tuple[IntArray, FloatArray]:
    table = storage.read_table(paths.part("cells", index), [ID, f"c.{name}"])
    values = mixed.numbers(cells_of(table, name), rule)[0]
    key = digests_of(table[ID].cast(pa.string()).to_pylist())
    known = np.flatnonzero(~np.isnan(values))
    first = known[np.argsort(key[known], kind="stable")[:SAMPLED]]
    return key[first], values[first]


def _survey(numbered: tuple[int, int], columns: Sequence[Column], paths: RunPaths) -> Survey:
    """Compare the columns of a partition with each other."""
    index, first = numbered
    table = storage.read_table(paths.part("cells", index))
    encoded = encode({c.source: cells_of(table, c.source) for c in columns}, columns)
    return survey_codes(encoded.codes, [len(c.levels) for c in columns], first, _weights(table))


def read_dictionary(paths: RunPaths, work: bool = True) -> list[Column]:
    """Return the columns as a run at work, or a finished one, models them."""
    return json_files.read(paths.kept(FILE, work), Dictionary).columns


def _weights(table: pa.Table) -> FloatArray:
    return np.asarray(table[WEIGHT].combine_chunks().fill_null(0.0).to_numpy())


def _lowered(rows: int, settings: FeatureSettings) -> list[str]:
    """Say so where so many features cannot be had of so few rows; the models lower them."""
    most = bearable(settings.n_features, rows)
    if most == settings.n_features:
        return []
    return [
        f"n_features was lowered from {settings.n_features} to {most}, below the {rows:,} rows "
        "with data."
    ]


def _known(
    fitted: RunPaths, levels: Mapping[str, Levels]
) -> tuple[list[Column], dict[str, dict[str, int]]]:
    """Return the fit's columns, and new answers where cells hold several.

    New data must have these columns, with some of their categories or answers.
    """
    columns = read_dictionary(fitted, work=False)
    sources = {column.source: column for column in columns}
    if lacks := missing_columns("features", list(sources), list(levels)):
        raise lacks
    new_counts = {
        name: part_counts(levels[name].counts, column.rule)
        if column.question
        else recoded(levels[name], column.rule, column.cuts).counts
        for name, column in sources.items()
    }
    known = {name: column.rule.others or column.places for name, column in sources.items()}
    if foreign := foreign_columns(new_counts, known):
        raise InputError(
            [
                Fault(
                    "the new data",
                    f"categories of the fit, such as {_quoted(known[name])}",
                    _quoted(new_counts[name]),
                    name,
                    remedy="write these cells as in the fit, or leave them blank",
                )
                for name in foreign
            ]
        )
    answers = {name: new_counts[name] for name, column in sources.items() if column.question}
    return columns, {name: new_levels(counts, known[name]) for name, counts in answers.items()}


def _quoted(levels: Iterable[str]) -> str:
    return listed([repr(level) for level in levels], 3)


def _sum_counts(parts: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, list[str]]:
    """Return what of each column's categories some cells are, with their number."""
    total = merge_levels([{n: Levels(v, 0) for n, v in part.items()} for part in parts])
    return {
        name: [f"{text!r} ({n})" for text, n in levels.counts.items()]
        for name, levels in total.items()
    }


def _on_respelt(parts: Sequence[Mapping[str, Mapping[str, int]]]) -> list[str]:
    """Say which cells were read as categories that differ by case or blanks."""
    cells = [f"{name} ({listed(texts, 3)})" for name, texts in _sum_counts(parts).items()]
    if not cells:
        return []
    return [f"Cells that differ by case or blanks are the fit's categories: {listed(cells, 5)}."]


@dataclass(frozen=True)
class Built:
    """A partition's arrays: where they are, what of its cells is not as in the fit, empty rows."""

    url: str
    unknown: dict[str, dict[str, int]]
    respelt: dict[str, dict[str, int]]
    empty: list[str]


def _build(
    numbered: tuple[int, int], settings: FeatureSettings, paths: RunPaths, mean_weight: float
) -> Built:
    """Make a partition's arrays of its rows with a cell."""
    index, first = numbered
    columns = read_dictionary(paths)
    table = storage.read_table(paths.part("cells", index))
    encoded = encode({c.source: cells_of(table, c.source) for c in columns}, columns)
    codes = encoded.codes
    has_cell = (codes >= 0).any(axis=1)
    names = table.select([ID])
    empty = names.filter(pa.array(~has_cell))[ID].to_pylist()
    storage.write_table(paths.part("names", index), names.filter(pa.array(has_cell)))
    levels = np.array([len(c.levels) for c in columns])
    batch = feature_batch(
        codes[has_cell],
        levels,
        np.arange(first, first + len(codes))[has_cell],
        grouped=settings.group,
        weight=_weights(table)[has_cell] / mean_weight,
    )
    url = paths.part("partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return Built(url, encoded.unknown, encoded.respelt, [str(name) for name in empty])


def skipped_cells(
    findings: RowFindings, batch: FeatureBatch, columns: Sequence[Column]
) -> BoolArray:
    """Return which missing cells [M] belong to questions that an answer of the row skipped."""
    names = [column.name for column in columns]
    codes = batch.codes[batch.row_of[findings.rows]]
    skipped = np.zeros(len(findings.rows), bool)
    for d, column in enumerate(columns):
        if column.structural is None or column.structural[0] not in names:
            continue
        gate = names.index(column.structural[0])
        answers = [columns[gate].levels.index(name) for name in column.structural[1]]
        skipped |= (findings.columns == d) & np.isin(codes[:, gate], answers)
    return skipped


def imputed_table(findings: RowFindings, ids: Any, columns: Sequence[Column]) -> pa.Table:
    """Make one line of each category of each missing cell."""
    sizes = np.array([len(c.levels) for c in columns])
    take = np.arange(findings.cells.shape[1]) < sizes[findings.columns, None]
    cell, category = np.nonzero(take)
    best = findings.cells.argmax(1)
    names = [columns[d] for d in findings.columns[cell].tolist()]
    return pa.table(
        [
            ids.take(pa.array(findings.rows[cell])).cast(pa.string()),
            pa.array([c.name for c in names], pa.string()),
            pa.array(
                [c.levels[r] for c, r in zip(names, category.tolist(), strict=True)], pa.string()
            ),
            pa.array(findings.cells[cell, category]),
            pa.array(best[cell] == category),
        ],
        schema=IMPUTED.arrow,
    )


def weight_table(fit: Reported, columns: Sequence[Column]) -> pa.Table:
    """Return the table of weights: of each feature, and of none, every category of each column."""
    levels = np.array([len(column.levels) for column in columns])
    mean, sd = fit.weights.mean(axis=0), fit.weights.std(axis=0)
    pieces = []
    for k in range(mean.shape[1]):
        profiles = profile(fit.weights, levels, [k - 1] if k else [])
        unit = 0
        for column, p in zip(columns, profiles, strict=True):
            n = len(column.levels)
            span = slice(unit, unit + n - 1)  # the first category has no weight
            share = np.array(column.weights) / max(sum(column.weights), 1e-300)
            ratio = np.divide(p[:n], share, out=np.full(n, np.nan), where=share > 0.0)
            values = [
                [column.name] * n,
                list(column.levels),
                [k] * n,
                [None, *mean[span, k]],
                [None, *sd[span, k]],
                p[:n],
                ratio,
            ]
            pieces.append(pa.table(values, schema=FEATURE_WEIGHTS.arrow))
            unit += n - 1
    return pa.concat_tables(pieces)
