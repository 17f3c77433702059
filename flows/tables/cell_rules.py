"""The rules for single values of a column, and which cells break them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables.reading import of_codes
from flows.tables.table import Column
from vbmodels.core.state import BoolArray, FloatArray

EXACT = 2**53  # below it a float differs from its neighbours by less than one

Said = str | Callable[..., str]
"""A part of a sentence: the same for all rows, or made from the number of one."""


def broken_rules(
    cells: pa.ChunkedArray, column: Column
) -> Iterator[tuple[BoolArray, str, Said, str | None]]:
    """Yield which cells break each rule for single values, and how that is said."""
    given = np.asarray(cells.is_valid())

    def shown(row: int) -> str:
        return str(cells[row].as_py())

    if column.values:
        listed = ", ".join(f"{value:g}" for value in column.values)
        expected = f"{listed} or null" if column.nullable else listed
        yield given & ~np.isin(_floats(cells), column.values), expected, shown, column.remedy
    elif column.finite and not pa.types.is_list(column.arrow):
        numbers = _floats(cells)
        yield (
            ~np.isfinite(numbers) & (given | (not column.nullable)), "a finite number",
            lambda row: str(numbers[row]) if given[row] else "null",
            "fill the cell or leave the row out",
        )  # fmt: skip
    elif not (column.nullable or column.names):
        yield ~given, "a value", "null", None
    if column.bounds and given.any():
        number = pc.fill_null(cells, 0).to_numpy()
        for bound in column.bounds:
            low = bound.least is not None and number < bound.least
            high = bound.most is not None and number > bound.most
            yield given & (low | high), bound.words, shown, bound.remedy
    if of_codes(column) and pa.types.is_floating(cells.type):
        codes = cells.to_numpy().astype(np.float64)
        sound = np.isfinite(codes) & (codes == np.floor(codes)) & (np.abs(codes) < EXACT)
        yield (
            ~np.isnan(codes) & ~sound, "whole numbers as codes of categories, below 2**53",
            lambda row: f"{codes[row]:g}", "cut the column into classes or leave it out",
        )  # fmt: skip


def _floats(cells: pa.ChunkedArray) -> FloatArray:
    return np.asarray(pc.cast(cells, pa.float64(), safe=False).to_numpy(), np.float64)
