"""Why a row has its probability: the columns that move it most, each put back to a usual cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.mixed import FLAG
from flows.data.mixed_rows import cells_of
from flows.experts.design import Design, rows_from
from flows.experts.encoding import Encoding, beyond_in_words
from flows.experts.ingest import raw_of
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.columns import Encoded
from vbmodels.experts.moves import both_ways, moves, without_each

NAMED, LEAST, MOST_COLUMNS = 3, 0.05, 300
"""Reasons of a row, the least log odds of one, and columns beyond which no row has any."""
HOW = (
    "Reasons: the columns that raise and lower a row's log odds most (at most three), the row's "
    "value there and what it adds to the log odds of {label}, by the whole model, compared with "
    "the column's mean or most frequent level, other columns equal."
)


@dataclass(frozen=True)
class Reasons:
    """What explains rows of one partition.

    They are kept at ``url``; ``predict`` gives the probabilities of a batch, ``most`` is how many
    are explained.
    """

    url: str
    predict: Callable[[Any], FloatArray]
    encoding: Encoding
    design: Design
    basis: Basis | None
    most: int = 50

    @cached_property
    def table(self) -> pa.Table:
        """The rows, read once they are needed."""
        return storage.read_table(self.url)

    def beyond(self, picked: IntArray) -> list[str]:
        """Name the numbers of rows [n] outside the ranges of the fit; empty without one."""
        raw, _ = raw_of(self.table.take(picked), self.encoding.kinds)
        return beyond_in_words(raw, self.encoding)

    def why(self, picked: IntArray) -> list[str]:
        """Name the columns that move the log odds of rows [n] most; empty where nothing does."""
        columns = self.encoding.columns
        if not 0 < len(columns) <= len(self.design.columns) <= MOST_COLUMNS:
            return [""] * len(picked)
        rows = self.table.take(picked)
        raw, _ = raw_of(rows, self.encoding.kinds)
        usual = np.array([one.usual for one in columns])
        found = []
        for i, own in enumerate(raw):
            batch = rows_from(without_each(own, usual), self.encoding, self.design, self.basis)
            moved = moves(self.predict(batch))
            words = ((j, columns[j]) for j in both_ways(moved, NAMED, LEAST))
            said = (f"{one.name} {_cell(rows, one, i)} ({moved[j]:+.1f})" for j, one in words)
            found.append(", ".join(said))
        return found


def _cell(rows: pa.Table, one: Encoded, row: int) -> str:
    cell = cells_of(rows, one.name)[row].as_py()
    if one.kind == FLAG and isinstance(cell, float):
        return "yes" if cell else "no"
    return "missing" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
