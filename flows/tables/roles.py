"""The roles of columns: what names and weighs rows, and others, which are taken as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, InputError
from flows.settings.base import RunSettings
from flows.settings.tables import TableSettings
from flows.tables import mixed, reading
from flows.tables.checks import MAX_ROWS, Checker
from flows.tables.names import listed, option
from flows.tables.table import ANY, ROW_ID, ROW_WEIGHT, TEXT, Column
from vbmodels.core.state import IntArray
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Rule, Unclear, Wishes, rules_of
from vbmodels.tables.levels import MOST, Levels
from vbmodels.tables.seen import Seen


def column_rules(
    seen: Mapping[str, Seen], settings: TableSettings
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how every column is read, and why some cannot be: these as categories."""
    wishes = Wishes(settings.categories, settings.decimal, settings.thousands, settings.dates)
    return rules_of(seen, wishes)


def unknown_columns(names: Sequence[str], settings: TableSettings) -> list[Fault]:
    """Return a fault of every setting that names a column that is not there."""
    named = {"categories": list(settings.categories), "missing": settings.missing_columns()}
    known = {*names, *settings.columns.values(), "label"}
    return [
        Fault("settings", f"columns out of {listed(names)}", listed(absent), name)
        for name, columns in named.items()
        if (absent := [column for column in columns if column not in known])
    ]


def unclear_faults(
    where: str, unclear: Mapping[str, Unclear], settings: TableSettings
) -> list[Fault]:
    """Return a fault of every column that cannot be read."""
    return [
        Fault(
            where,
            problem.expected,
            problem.found,
            settings.columns.get(name, name),
            remedy=problem.remedy.replace(
                "--set categories=COLUMN", option("--set", f"categories={name}")
            ),
        )
        for name, problem in unclear.items()
    ]


def count_levels(text: pa.Array) -> Levels:
    """Count the categories of a column."""
    counted = pc.value_counts(text.drop_null())
    pairs = zip(
        counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
    )
    return Levels(dict(pairs), int(text.null_count))


def merge_levels(parts: Sequence[Mapping[str, Levels]]) -> dict[str, Levels]:
    """Add the counts of several partitions or files."""
    counts: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    many: set[str] = set()
    for part in parts:
        for name, levels in part.items():
            counts.setdefault(name, Counter()).update(levels.counts)
            missing[name] += levels.missing
            many |= {name} if levels.many else set()
    return {name: Levels(dict(counts[name]), missing[name], name in many) for name in counts}


def bounded(levels: Mapping[str, Levels]) -> dict[str, Levels]:
    """Drop the counts of columns with more levels than are kept.

    A part of such a column may have few levels, but what is merged from all parts has many: so the
    merged and bounded counts are the same for any partitioning.

    >>> kept = bounded({"a": Levels({"x": 2}, 1), "b": Levels(dict.fromkeys(map(str, range(10001)), 1), 0)})
    >>> kept["a"].counts, kept["b"].counts, kept["b"].many
    ({'x': 2}, {}, True)
    """  # noqa: E501
    return {
        name: Levels({}, seen.missing, True) if seen.many or len(seen.counts) > MOST else seen
        for name, seen in levels.items()
    }


ID, LABEL, WEIGHT = ROW_ID.name, "label", ROW_WEIGHT.name


@dataclass(frozen=True)
class WeightSums:
    """Rows with a weight above 0 and others, the sum of weights, and that of their squares."""

    rows: int = 0
    without: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, weights: pa.Array) -> WeightSums:
        """Sum the weights of some rows."""
        present = weights.drop_null().to_numpy()
        rows = int((present > 0.0).sum())
        return cls(rows, len(weights) - rows, float(present.sum()), float((present**2).sum()))

    def __add__(self, other: WeightSums) -> WeightSums:
        """Add those of other rows."""
        return WeightSums(
            self.rows + other.rows,
            self.without + other.without,
            self.total + other.total,
            self.squares + other.squares,
        )

    @property
    def notes(self) -> dict[str, float]:
        """What `effective_size` needs of a partition."""
        return {"weight": self.total, "squared_weight": self.squares}

    def mean(self, settings: RunSettings) -> float:
        """Return the mean weight, by which weights are divided.

        Raises `InputError` if no row has a weight above 0.
        """
        if WEIGHT in settings.columns and not self.total > 0.0:
            raise InputError.of(
                file="the data",
                column=settings.columns[WEIGHT],
                expected="a weight above 0",
                found="none",
                remedy="name another column: --column weight=YOURS",
            )
        return self.total / self.rows if self.rows else 1.0

    def said(self, settings: RunSettings) -> list[str]:
        """Say how many rows are weighted, and their effective sample size (Kish 1965)."""
        if WEIGHT not in settings.columns:
            return []
        effective = effective_size([self.notes], settings)
        have = "row has" if self.without == 1 else "rows have"
        gone = f"; {self.without:,} other {have} no part in the fit" if self.without else ""
        return [
            f"Rows are weighted by {settings.columns[WEIGHT]}: {self.rows:,} rows with a weight "
            f"above 0, an effective sample size of {effective:,.0f}"
            f"{gone}. Figures take weights for counts of rows."
        ]

    def columns(self, settings: RunSettings) -> list[ColumnRead]:
        """Return the line of the weights in the table of columns; none where there are none."""
        if WEIGHT not in settings.columns:
            return []
        holds = f"{self.rows:,} rows above 0"
        return [ColumnRead(settings.columns[WEIGHT], "number", 0, holds, "weight of the row")]


def effective_size(notes: Sequence[Mapping[str, float]], settings: RunSettings) -> float | None:
    """Return how many rows of one weight say as much (Kish 1965); None where none are weighted.

    ``notes`` are those of all partitions, as `WeightSums.notes`.
    """
    if WEIGHT not in settings.columns:
        return None
    total, squares = (sum(note[name] for note in notes) for name in ("weight", "squared_weight"))
    return total**2 / squares if squares else 0.0


@dataclass(frozen=True)
class Contents:
    """What rows hold, counted; the sum of two is that of both.

    Attributes
    ----------
    seen
        By column, what the cells are of those that have no role.
    labels, label_cells
        The labels, counted, and what they are; of a table that has labels.
    weights
        The sums of weights.
    """

    seen: dict[str, Seen] = field(default_factory=dict)
    labels: Levels = field(default_factory=lambda: Levels({}, 0))
    label_cells: Seen = field(default_factory=Seen)
    weights: WeightSums = field(default_factory=WeightSums)

    def __add__(self, other: Contents) -> Contents:
        labels = bounded(merge_levels([{LABEL: self.labels}, {LABEL: other.labels}]))[LABEL]
        return Contents(
            merge_seen([self.seen, other.seen]),
            labels,
            self.label_cells + other.label_cells,
            self.weights + other.weights,
        )


@dataclass(frozen=True)
class Taken:
    """Some rows as they are kept: columns with a role, cells of the others, what both hold."""

    named: dict[str, pa.Array]
    cells: dict[str, mixed.Cells]
    contents: Contents


def take(rows: pa.Table, checker: Checker, settings: TableSettings, one_file: bool = True) -> Taken:
    """Return rows that a checker has read as they are kept; ``one_file``: all are of its file."""
    table, where = checker.table, checker.where if one_file else None
    cells, seen = {}, {}
    for name in table.others_in(rows.column_names):
        missing, semicolons = settings.missing_in(name), checker.separator == ";"
        cells[name], seen[name] = mixed.parse(rows[name], missing, semicolons, where, True)
    named = {WEIGHT: pa.array(np.ones(len(rows)))}
    named |= {column.name: _read_named(rows, column) for column in table.columns}
    contents = Contents(seen, weights=WeightSums.of(named[WEIGHT]))
    if LABEL in rows.column_names:
        missing = settings.missing_in(settings.columns.get(LABEL, LABEL))
        text, label_cells = mixed.parse(rows[LABEL], missing, where=where)
        named[LABEL] = mixed.texts(text)
        contents = replace(contents, label_cells=label_cells)
    elif LABEL in named:
        contents = replace(contents, label_cells=Seen(0, len(rows)))
    if LABEL in named:
        labels = bounded({LABEL: count_levels(named[LABEL])})[LABEL]
        contents = replace(contents, labels=labels)
    return Taken(named, cells, contents)


class OddCell(NamedTuple):
    """A cell that is no number, and its row in the file, from 1."""

    row: int
    cell: str


def odd_cells(
    taken: Taken, files: Sequence[tuple[Checker, pa.Table]]
) -> list[dict[str, list[OddCell]]]:
    """Return the first cells of every file that are no numbers, of columns of which others are.

    ``files``: what has checked each, and its rows, which were taken together.
    """
    odd: list[dict[str, list[OddCell]]] = [{} for _ in files]
    for name, seen in taken.contents.seen.items():
        cells = taken.cells[name]
        if seen.numbers in (0, seen.cells) or seen.declared or mixed.typed(cells):
            continue
        rule = Rule(mixed.NUMBER, decimal="," if seen.comma > seen.point else ".")
        wrong = np.flatnonzero(mixed.numbers(cells, rule)[1])
        start = 0
        for of_file, (checker, rows) in zip(odd, files, strict=True):
            in_file = wrong[(wrong >= start) & (wrong < start + len(rows))][:MAX_ROWS].tolist()
            of_file[name] = [
                OddCell(checker.faults.number_of(row - start), cells[row].as_py())
                for row in in_file
            ]
            start += len(rows)
    return odd


def _read_named(rows: pa.Table, column: Column) -> pa.Array:
    """Return a column with a role; of one that names groups, words of missing cells are null."""
    if column.name not in rows.column_names:
        return pa.nulls(len(rows), pa.string() if column.type == ANY else column.arrow)
    cells = rows[column.name].combine_chunks()
    names_groups = column.type == TEXT and not column.unique
    return mixed.texts(mixed.parse(cells)[0]) if names_groups else cells


def concat_files(pieces: Sequence[Taken]) -> pa.Table:
    """Return rows of several files as one table, in which `cells_of` finds a column."""
    first = pieces[0]
    named = {name: pa.concat_arrays([p.named[name] for p in pieces]) for name in first.named}
    cells = {f"c.{name}": mixed.concat([p.cells[name] for p in pieces]) for name in first.cells}
    return pa.table({**named, **cells})


@dataclass(frozen=True)
class ColumnContents:
    """A column of some rows: how it is read, what was seen of it, its cells and their levels."""

    rule: Rule
    seen: Seen
    levels: Levels
    cells: mixed.Cells
    unclear: Unclear | None = None

    @property
    def codes(self) -> IntArray:
        """A number of each cell's value, -1 where it is missing."""
        coded = mixed.texts(self.cells).dictionary_encode()
        return np.asarray(coded.indices.fill_null(-1).to_numpy())


def read_columns(
    rows: pa.Table, names: Sequence[str], settings: TableSettings, where: mixed.Where
) -> dict[str, ColumnContents]:
    """Return what columns of the first rows of a file hold; ``where`` says where a row is."""
    semicolons = reading.separator_of(rows.schema) == ";"
    taken = {name: mixed.parse(rows[name], settings.missing, semicolons, where) for name in names}
    rules, unclear = column_rules({name: seen for name, (_, seen) in taken.items()}, settings)
    return {
        name: ColumnContents(
            rules[name], seen, count_levels(mixed.texts(cells)), cells, unclear.get(name)
        )
        for name, (cells, seen) in taken.items()
    }


def cells_of(table: pa.Table, name: str) -> mixed.Cells:
    """Return a column of rows that are kept."""
    return table[f"c.{name}"].combine_chunks()


def merge_seen(parts: Sequence[Mapping[str, Seen]]) -> dict[str, Seen]:
    """Add what several parts of a table hold."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum((part[name] for part in parts if name in part), Seen()) for name in names}
