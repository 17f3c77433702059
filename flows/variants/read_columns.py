"""What is known of reads, as columns of a table of counts: lists of four numbers, for ACGT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.checks import Found
from flows.variants.schema import READ_SUMS
from vbmodels.core.state import IntArray
from vbmodels.variants.bases import BASES

FORWARD = "forward"
LATER = "no_base_quality"  # which counts of before lack: they say of no read that it has none
# no more than the reads
_AT_MOST = (FORWARD, "near_indel", "clipped", "many_mismatches", LATER)


def columns(forward: np.ndarray | None, sums: np.ndarray | None) -> dict[str, pa.Array]:
    """Return the columns of rows [N, 4] and [N, 4, 11]; none of what is not known."""
    found = {} if forward is None else {FORWARD: _lists(forward)}
    if sums is not None:
        found |= {name: _lists(sums[:, :, i]) for i, name in enumerate(READ_SUMS)}
    return found


def _lists(values: np.ndarray) -> pa.Array:
    ends = np.arange(0, values.size + 1, 4, dtype=np.int32)
    return pa.ListArray.from_arrays(ends, np.ascontiguousarray(values, np.int64).ravel())


def arrays(table: pa.Table) -> tuple[IntArray | None, IntArray | None]:
    """Return forward reads [N, 4] and sums [N, 4, 11]; None of what any row lacks."""
    forward = _array(table, FORWARD)
    sums = [_or_none_of(table, name) if name == LATER else _array(table, name)
            for name in READ_SUMS]  # fmt: skip
    known = [s for s in sums if s is not None]
    return forward, np.stack(known, axis=2) if len(known) == len(sums) else None


def _or_none_of(table: pa.Table, name: str) -> IntArray:
    """Return a column [N, 4]; 0 in the rows that lack it."""
    found = np.zeros((len(table), 4), np.int64)
    if name in table.column_names:
        cells = table[name].combine_chunks()
        given = cells.is_valid().to_numpy(zero_copy_only=False)
        found[given] = cells.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, 4)
    return found


def _array(table: pa.Table, name: str) -> IntArray | None:
    if name not in table.column_names or table[name].null_count:
        return None
    cells = table[name].combine_chunks()
    return np.asarray(cells.flatten().to_numpy(zero_copy_only=False)).reshape(-1, 4)


def check(table: pa.Table, found: Found) -> None:
    """Tell of lists that have not four numbers, and of numbers that no reads have."""
    for name in (FORWARD, *READ_SUMS):
        if name not in table.column_names or table[name].null_count == len(table):
            continue
        cells = table[name]
        length = pc.fill_null(pc.list_value_length(cells), 4).to_numpy()
        found.rows(
            np.flatnonzero(length != 4), name, "four numbers, for A, C, G and T",
            lambda row, length=length: str(length[row]),
        )  # fmt: skip
        if (length != 4).any() or not set(BASES) <= set(table.column_names):
            continue
        given = pc.is_valid(cells).to_numpy()
        values = pc.list_flatten(cells).to_numpy()
        if len(values) != 4 * int(given.sum()) or values.dtype.kind != "i":
            continue  # nulls within a list, which have been told of
        values = values.reshape(-1, 4)
        most: Any = np.inf
        expected = "numbers of 0 or more"
        if name in _AT_MOST:
            reads = [pc.fill_null(table[base], 0).to_numpy()[given] for base in BASES]
            most, expected = np.stack(reads, axis=1), "numbers from 0 to those of the reads"
        wrong = ((values < 0) | (values > most)).any(axis=1)
        rows = np.flatnonzero(given)[wrong]
        at = dict(zip(rows.tolist(), values[wrong].tolist(), strict=True))
        found.rows(rows, name, expected, lambda row, at=at: str(at[row]))
