"""Rows of the answer: what is predicted of them, and the cells that move them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.experts.input.design import Forms
from flows.experts.input.encoding import Encoding, outside, raw_of
from flows.tables.mixed import NUMBER
from flows.tables.roles import cells_of
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.experts.effects import both_ways, log_odds, moves, without_each
from vbmodels.tables.encoding import Encoded


@dataclass(frozen=True)
class Move:
    """A cell, its column's name first, and what it adds to the log odds of its row.

    With it go ``more`` cells, of columns that measure much the same.
    """

    cell: str
    adds: float
    more: int = 0


@dataclass(frozen=True)
class Why:
    """What moves the log odds of a row most.

    Attributes
    ----------
    moves
        Cells, each compared with the mean or the most frequent level of its column.
    others, rest
        How many other cells there are, and what they add.
    start
        Log odds of a row of means and most frequent levels.
    total
        Those of the row, the sum of all.
    """

    moves: tuple[Move, ...]
    others: int
    rest: float
    start: float
    total: float


@dataclass(frozen=True)
class Row:
    """A row and what is predicted of it; of a tested one without its label.

    Attributes
    ----------
    name, label
        As the file has them; no label where there is none.
    predicted
        The predicted number, or the most probable of several classes.
    chance
        Probability of the positive one of two labels, or of the most probable class.
    low, high
        95 % interval of a number.
    why
        What moves it.
    outside
        Whether a number of its is outside the range of the fit.
    """

    name: str
    label: float | str | None
    predicted: float | str | None = None
    chance: float | None = None
    low: float | None = None
    high: float | None = None
    why: Why | None = None
    outside: bool = False


Picked = tuple[tuple[float, Row], ...]
"""Rows with what they are sorted by, the smallest first."""


@dataclass(frozen=True)
class Tested:
    """What there is in the table of tested rows.

    Attributes
    ----------
    models
        This model, the base, and others.
    folds
        How many there were; 0 where rows were held out.
    seconds
        What fitting folds and others took.
    worst
        With folds, the rows that are predicted worst.
    """

    models: tuple[str, ...]
    folds: int
    seconds: float
    worst: Picked = ()


NAMED, MOST_NAMED, LEAST, MOST_COLUMNS = 4, 8, 0.05, 300
"""Cells that are named, and at most where the rest adds more than each; the least log odds of one;
and columns beyond which no row has reasons."""


@dataclass(frozen=True)
class Reasons:
    """What explains rows of one partition.

    Attributes
    ----------
    url
        Where they are kept.
    forms
        What columns become.
    predict
        Gives the probabilities of a batch; None where there is no one probability.
    """

    url: str
    forms: Forms
    predict: Callable[[Any], FloatArray] | None = None

    @cached_property
    def table(self) -> pa.Table:
        """The rows, read once they are needed."""
        return storage.read_table(self.url)

    @cached_property
    def raw(self) -> FloatArray:
        """Their cells as the fit read them; [N, C]."""
        return raw_of(self.table, self.forms.encoding.kinds)[0]

    @cached_property
    def outside(self) -> BoolArray:
        """Which rows have numbers outside the ranges of the fit; [N]."""
        return np.asarray(outside(self.raw, self.forms.encoding).any(axis=1))

    def why(self, picked: IntArray) -> list[Why | None]:
        """Name the cells that move the log odds of rows [n] most; None where nothing does."""
        columns, design = self.forms.encoding.columns, self.forms.design
        if self.predict is None or not 0 < len(columns) <= len(design.columns) <= MOST_COLUMNS:
            return [None] * len(picked)
        rows = self.table.take(picked)
        raw, _ = raw_of(rows, self.forms.encoding.kinds)
        usual = np.array([column.usual for column in columns])
        return [self._why(rows, i, values, usual) for i, values in enumerate(raw)]

    @cached_property
    def _units(self) -> list[list[int]]:
        """Places of the columns that change together: those that measure much the same."""
        encoding = self.forms.encoding
        group_of = {name: k for k, group in enumerate(encoding.groups) for name in group}
        units: dict[int | str, list[int]] = {}
        for j, column in enumerate(encoding.columns):
            units.setdefault(group_of.get(column.name, column.name), []).append(j)
        return list(units.values())

    def _why(self, rows: pa.Table, i: int, values: FloatArray, usual: FloatArray) -> Why | None:
        forms, every = self.forms, self._units
        assert self.predict is not None
        cells = np.vstack([without_each(values, usual, every), usual])
        p = self.predict(forms.rows(cells, np.zeros(len(cells)), np.arange(len(cells))))
        moved, (odds, start) = moves(p[:-1]), log_odds(p[-2:]).round(1).tolist()
        for count in range(NAMED, MOST_NAMED + 1):
            most = both_ways(moved, count, LEAST)
            rest = odds - start - sum(moved[most].round(1))
            if abs(rest) <= 0.5 * max(abs(moved[most]), default=0.0):
                break
        if not most:
            return None
        picked = []
        for u in most:
            first, *alike = (forms.encoding.columns[j] for j in every[u])
            cell = f"{first.name} {_cell(rows, first, i, values[every[u][0]])}"
            picked.append(Move(cell, round(float(moved[u]), 1), len(alike)))
        others = len(every) - len(most)
        return Why(tuple(picked), others, round(rest, 1) + 0.0, round(start, 1) + 0.0, odds + 0.0)


def _cell(rows: pa.Table, column: Encoded, row: int, value: float) -> str:
    """Write a cell: a number as the fit read it, another as the file has it."""
    cell = cells_of(rows, column.name)[row].as_py()
    if cell is None or np.isnan(value):
        return "missing"
    if column.kind == NUMBER:
        return f"{value:.4g}"
    return ("no", "yes")[cell != 0.0] if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Shown:
    """Rows of a partition as people read them.

    Attributes
    ----------
    names
        Table of their names and labels; [N].
    own
        Probability of the positive label [N, 1], of each class [N, K], or a number [N, 1].
    ends
        Ends of the intervals of numbers; [N, 2].
    encoding
        That of the fit.
    reasons
        What explains them.
    is_new
        Whether they may be outside the ranges of the fit.
    """

    names: pa.Table
    own: FloatArray
    ends: FloatArray | None
    encoding: Encoding
    reasons: Reasons
    is_new: bool = False

    def first(self, by: FloatArray, most: int, explained: int = 0) -> Picked:
        """Return the rows of the smallest ``by`` [N], but for those of NaN; some with reasons."""
        order = np.argsort(by, kind="stable")[: min(most, int(np.sum(~np.isnan(by))))]
        why: list[Why | None] = [None] * order.size
        why[:explained] = self.reasons.why(order[:explained])
        far = self.reasons.outside if self.is_new else np.zeros(len(by), bool)
        named = self.names.take(order)
        ids, labels = named["id"].to_pylist(), named["label"].to_pylist()
        return tuple(
            (float(by[i]), self._row(i, name, label, reason, bool(far[i])))
            for i, name, label, reason in zip(order.tolist(), ids, labels, why, strict=True)
        )

    def _row(self, i: int, name: str, label: Any, why: Why | None, far: bool) -> Row:
        predicted = self.own[i].tolist()
        if self.ends is not None:
            low, high = self.ends[i].tolist()
            return Row(name, label, predicted[0], low=low, high=high, outside=far)
        if len(predicted) > 1:
            best = int(np.argmax(predicted))
            return Row(name, label, self.encoding.labels[best], predicted[best], outside=far)
        return Row(name, label, None, predicted[0], why=why, outside=far)
