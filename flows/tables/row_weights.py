"""Weights of rows: the column that holds them, what they add up to, and what is said of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from flows.faults import InputError
from flows.settings.base import RunSettings
from flows.tables.table import ROW_WEIGHT, Table
from vbmodels.core.column_table import ColumnRead

WEIGHT = ROW_WEIGHT.name


def with_named(table: Table, settings: RunSettings) -> Table:
    """Return a table as some files have it, with the columns that only settings name."""
    table = table.of(settings)
    named = [one for one in table.named if one.name in settings.columns]
    return replace(table, columns=(*table.columns, *named))


def others_in(table: Table, names: Collection[str], settings: RunSettings) -> list[str]:
    """Return the columns of a file that are neither a table's own nor named by settings."""
    return with_named(table, settings).others_in(list(names))


def weights_in(rows: pa.Table, settings: RunSettings) -> pa.Array:
    """Return the weights of rows; 1 where settings name none, null where a row has none."""
    if WEIGHT in settings.columns and WEIGHT in rows.column_names:
        return rows[WEIGHT].combine_chunks()
    return pa.array(np.ones(len(rows)))


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
        given = weights.drop_null().to_numpy()
        rows = int((given > 0.0).sum())
        return cls(rows, len(weights) - rows, float(given.sum()), float((given**2).sum()))

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
        """What a partition says of its weights, for `effective_size`."""
        return {"weight": self.total, "squared_weight": self.squares}

    @property
    def effective(self) -> float:
        """Effective sample size: the rows of one weight that would say as much (Kish 1965)."""
        return self.total**2 / self.squares if self.squares else 0.0

    def mean(self, settings: RunSettings) -> float:
        """Return the mean weight, by which weights are divided.

        Raises `InputError` if no row has a weight above 0.
        """
        if WEIGHT in settings.columns and not self.total > 0.0:
            raise InputError.of(
                file="the data", column=settings.columns[WEIGHT], expected="a weight above 0",
                found="none", remedy="name another column: --column weight=YOURS",
            )  # fmt: skip
        return self.total / self.rows if self.rows else 1.0

    def said(self, settings: RunSettings) -> list[str]:
        """Say how many rows are weighted, and their effective sample size."""
        if WEIGHT not in settings.columns:
            return []
        theirs = settings.columns[WEIGHT]
        have = "row has" if self.without == 1 else "rows have"
        gone = f"; {self.without:,} other {have} no part in the fit" if self.without else ""
        return [
            f"Rows are weighted by {theirs}: {self.rows:,} rows with a weight above 0, "
            f"an effective sample size of {self.effective:,.0f}"
            f"{gone}. Intervals take weights for counts of rows."
        ]

    def columns(self, settings: RunSettings) -> list[ColumnRead]:
        """Return the line of the weights in the table of columns; none where there are none."""
        if WEIGHT not in settings.columns:
            return []
        given = f"{self.rows:,} rows above 0"
        return [ColumnRead(settings.columns[WEIGHT], "number", 0, given, "weight of the row")]
