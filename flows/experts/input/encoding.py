"""What became of every column and label: read over all rows, kept for scoring, reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import add
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from flows.experts.input.labels import EXPOSURE, Labels, label_faults
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, shown
from flows.one_table import CheckedColumns
from flows.records import json_files
from flows.storage import InputFile
from flows.tables import mixed
from flows.tables.checks import Checker
from flows.tables.mixed import CATEGORY
from flows.tables.names import in_files, listed
from flows.tables.roles import (
    Contents,
    bounded,
    cells_of,
    column_rules,
    count_levels,
    unclear_faults,
    unknown_columns,
)
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.experts.options import RARE_BELOW
from vbmodels.tables.columns import Reason, Rule
from vbmodels.tables.encoding import (
    ColumnSums,
    Encoded,
    level_key,
    read_categories,
    read_numbers,
    unseen,
    why_no_column,
)
from vbmodels.tables.levels import Levels


class AboutRows(json_files.Form):
    """What ingest says of a partition."""

    contents: Contents


def raw_of(table: pa.Table, kinds: Mapping[str, Rule]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.tables.encoding`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `flows.tables.roles.concat_files` keeps them.
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


def check_finite(checker: Checker, rows: pa.Table) -> None:
    """Report numbers that are infinite."""
    for name in checker.table.others_in(rows.column_names):
        if pa.types.is_floating(rows[name].type):
            values = rows[name].to_numpy()
            checker.faults.add_rows(
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
    contents = reduce(add, (of_file.about.contents for of_file in checked))
    faults = unknown_columns([*checked[0].about.contents.seen], settings)
    _, unclear = column_rules(contents.seen, settings)
    for fault, name in zip(unclear_faults(where, unclear, settings), unclear, strict=True):
        cells = [
            replace(fault, file=file.url, row=row, found=shown(cell))
            for file, of_file in zip(files, checked, strict=True)
            for row, cell in of_file.about.odd.get(name, ())
            if unclear[name].mend
        ]
        faults += cells or [fault]
    return faults + label_faults(where, contents, settings)


MOST_BEYOND = 20
"""Rows that are named as examples."""
_TWO_SIDED, _LEAST = 1.959964, 1e-300


class Target(json_files.Form):
    """A label that is a number: how it is read, and its mean and standard deviation in the fit.

    ``count``: it is fitted as a count, in its own unit; ``logged``: its logarithm is fitted.
    ``exposure``: the mean one, 1 without.
    """

    rule: Rule
    mean: float = 0.0
    sd: float = 1.0
    count: bool = False
    logged: bool = False
    log_mean: float = 0.0
    log_sd: float = 1.0
    exposure: float = 1.0

    @property
    def centre(self) -> float:
        """What is taken off the label, or its logarithm, in the fit."""
        if self.logged:
            return self.log_mean
        return 0.0 if self.count else self.mean

    @property
    def unit(self) -> float:
        """What the label, or its logarithm, is divided by in the fit."""
        if self.logged:
            return self.log_sd
        return 1.0 if self.count else self.sd

    def scaled(self, y: FloatArray) -> FloatArray:
        """Return labels [N] on the scale of the fit."""
        values = np.log(np.maximum(y, _LEAST)) if self.logged else y
        return np.asarray((values - self.centre) / self.unit)

    def predicted(self, mean: FloatArray, sd: FloatArray) -> tuple[FloatArray, ...]:
        """Return means, sds and the ends of 95 % intervals of labels, from those of the fit; [N].

        Of a logarithm they are the log-normal's.
        """
        mean, sd = self.centre + self.unit * mean, self.unit * sd
        low, high = mean - _TWO_SIDED * sd, mean + _TWO_SIDED * sd
        if self.logged:
            expected = np.exp(mean + 0.5 * sd**2)
            return expected, expected * np.sqrt(np.expm1(sd**2)), np.exp(low), np.exp(high)
        return mean, sd, np.maximum(low, 0.0) if self.count else low, high

    def exposures(self, table: pa.Table) -> FloatArray:
        """Return each row's exposure, in that of the mean row; 1 without exposures; [N]."""
        exposures = exposures_in(table)
        return exposures[0] / self.exposure if exposures else np.ones(len(table))

    def values(self, labels: pa.Array) -> tuple[FloatArray, BoolArray]:
        """Return labels as numbers, NaN where there is none, and which cannot be read; [N]."""
        return mixed.numbers(labels, self.rule)


def exposures_in(table: pa.Table) -> list[FloatArray]:
    """Return the exposures of kept rows [N], as they came; none where there are none."""
    return [table[EXPOSURE].to_numpy()] if EXPOSURE in table.column_names else []


class Encoding(json_files.Form):
    """What became of columns and labels: the contents of ``columns.json``.

    Attributes
    ----------
    columns
        What every column that is used becomes.
    rules
        How it is read.
    left_out
        How the others are read, with which nothing can be learned.
    labels
        The labels in order; the probability of two is that of the second.
    target
        The label where it is a number; there are no ``labels`` then.
    ordered
        Whether the labels are fitted in their order.
    ranges
        Ends of the columns of numbers in the fit.
    groups
        Columns that measure much the same; -1 for those that fall where the first rises.
    repeated
        The column whose values have one label each; "" for none.
    design_effect
        How many rows of a group say as much of the label as one of another.
    """

    columns: list[Encoded]
    rules: dict[str, Rule] = Field(default_factory=dict)
    left_out: dict[str, Rule] = Field(default_factory=dict)
    labels: list[str] = Field(default_factory=lambda: ["0", "1"])
    target: Target | None = None
    ordered: bool = False
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict)
    groups: list[dict[str, float]] = Field(default_factory=list)
    repeated: str = ""
    design_effect: float = 1.0

    @property
    def splits(self) -> list[str]:
        """What each fit of more than two labels is of."""
        return [f"above {label}" for label in self.labels[:-1]] if self.ordered else self.labels

    @property
    def kinds(self) -> dict[str, Rule]:
        """How the columns that are used are read."""
        return {
            column.name: self.rules.get(column.name, Rule(column.kind)) for column in self.columns
        }

    @property
    def classes(self) -> Labels:
        """The labels with their numbers."""
        return Labels(tuple(self.labels), {label: i for i, label in enumerate(self.labels)})


def choose(
    kinds: Mapping[str, Rule],
    sums: ColumnSums,
    levels: Mapping[str, Levels],
    labels: Labels | Target,
    settings: ExpertSettings,
    rare_below: int = RARE_BELOW,
    rows_named: Mapping[str, Reason] | None = None,
) -> tuple[Encoding, list[str]]:
    """Choose what every column becomes.

    Parameters
    ----------
    kinds
        How the columns are read, in order.
    sums
        Of the columns of numbers.
    levels
        Of the columns of categories.
    labels
        The classes.
    rare_below
        Levels of fewer cells are joined to the reference.
    rows_named
        Columns of text that name or describe their rows, and predict nothing.

    Returns
    -------
    encoding, warnings
        The latter say which columns were left out, and what else was done to cells.
    """
    numbers = iter(range(sums.mean.size))
    chosen: dict[str, Encoded | None] = {}
    for name, rule in kinds.items():
        if rule.kind == CATEGORY:
            content = levels[name]
            chosen[name] = (
                None
                if name in (rows_named or {})
                else read_categories(
                    name, content.counts, content.missing, rare_below, settings.max_levels
                )
            )
        else:
            j = next(numbers)
            gaps = int(sums.gaps[j])
            chosen[name] = read_numbers(
                name, rule.kind, sums.mean[j], sums.rows - gaps, gaps, rare_below
            )
    encoding = Encoding(
        columns=[column for column in chosen.values() if column is not None],
        rules={name: kinds[name] for name, column in chosen.items() if column is not None},
        left_out={name: kinds[name] for name, column in chosen.items() if column is None},
        labels=[] if isinstance(labels, Target) else list(labels.names),
        ordered=settings.target == "ordered"
        and not isinstance(labels, Target)
        and len(labels.names) > 2,
    )
    return encoding, _warnings(encoding, levels, settings.max_levels, rare_below)


def why_left_out(
    encoding: Encoding, levels: Mapping[str, Levels], rare_below: int
) -> dict[str, Reason]:
    """Return why each column of categories that is left out is."""
    return {name: why_no_column(levels[name], rare_below) for name in encoding.left_out}


def _warnings(
    encoding: Encoding, levels: Mapping[str, Levels], max_levels: int, rare_below: int
) -> list[str]:
    warnings = []
    joined = [f"{c.name} ({len(c.reference):,})" for c in encoding.columns if len(c.reference) > 1]
    if joined:
        warnings.append(
            f"Rare levels (fewer than {rare_below} cells, or beyond max_levels = {max_levels}) "
            f"are the reference: {listed(joined)}."
        )
    gaps = [f"{c.name} ({c.cells[-1]:,})" for c in encoding.columns if c.cells and c.cells[-1]]
    if gaps:
        warnings.append(
            f"Missing cells: {listed(gaps)}. Numbers are mean-imputed; missing categories are "
            f"one more; from {rare_below} of them on a column has an indicator."
        )
    return warnings


def strange(raw: FloatArray, encoding: Encoding) -> dict[str, tuple[int, int]]:
    """Count cells of a new table that the fit knew nothing of.

    Returns
    -------
    counts
        By column, cells of levels that the fit never saw, and missing numbers where it had none.
    """
    unknown = {}
    for cells, column in zip(raw.T, encoding.columns, strict=True):
        levels = int(np.count_nonzero(unseen(cells, column)))
        gaps = 0
        if column.cells and not column.cells[-1]:
            gaps = int(np.count_nonzero(np.isnan(cells)))
        if levels or gaps:
            unknown[column.name] = (levels, gaps)
    return unknown


def unseen_values(parts: Sequence[Mapping[str, tuple[int, int]]]) -> list[str]:
    """Say what all partitions have of such cells."""
    total: dict[str, tuple[int, int]] = {}
    for part in parts:
        for name, (levels, gaps) in part.items():
            before = total.get(name, (0, 0))
            total[name] = before[0] + levels, before[1] + gaps
    sentences = (
        (0, "Levels that the fit never saw count as the reference"),
        (1, "Missing cells of columns without any in the fit count as the mean or the reference"),
    )
    warnings = []
    for k, words in sentences:
        names = [f"{name} ({counts[k]:,})" for name, counts in total.items() if counts[k]]
        if names:
            warnings.append(f"{words}: {listed(names)}.")
    return warnings


@dataclass(frozen=True)
class Outside:
    """A number outside the range that its column had in the fit."""

    row: str
    column: str
    value: float
    low: float
    high: float


class Beyond(NamedTuple):
    """Rows of a new table with numbers outside the ranges of the fit: how many, and by column.

    ``some`` has each such number of the first rows.
    """

    rows: int
    columns: Mapping[str, int]
    some: Sequence[Outside]


def outside(raw: FloatArray, encoding: Encoding) -> BoolArray:
    """Say which numbers of rows [N, C] are outside the ranges of the fit."""
    ends = [encoding.ranges.get(column.name, (-inf, inf)) for column in encoding.columns]
    low, high = np.array(ends).reshape(-1, 2).T
    return np.asarray((raw < low) | (raw > high))


def count_beyond(raw: FloatArray, encoding: Encoding, names: Sequence[str]) -> Beyond:
    """Count rows [N, C] with numbers outside the ranges of the fit."""
    far = outside(raw, encoding)
    rows = np.flatnonzero(far.any(axis=1))
    cells = []
    for k, j in np.argwhere(far[rows[:MOST_BEYOND]]).tolist():
        i, column = int(rows[k]), encoding.columns[j].name
        cells.append(Outside(names[i], column, float(raw[i, j]), *encoding.ranges[column]))
    counts = zip(encoding.columns, far.sum(axis=0).tolist(), strict=True)
    return Beyond(len(rows), {column.name: count for column, count in counts if count}, cells)
