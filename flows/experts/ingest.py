"""Tables of numbers with a label: checked, summed and turned to arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.row_faults import wrong_names
from flows.faults import Fault
from vbmodels.core.state import FloatArray, IntArray

ID, LABEL = "id", "label"
MAX_ROWS = 20
"""Rows named for one kind of fault in one column; the rest is counted in one more sentence."""


def columns_of(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that predict."""
    return [name for name in schema.names if name not in (ID, LABEL)]


def check_table(table: pa.Table, file: str) -> list[Fault]:
    """List all faults of one file."""
    columns = columns_of(table.schema)
    faults = []
    if ID not in table.column_names:
        found = f"only {', '.join(table.column_names[:20]) or 'none'}"
        faults.append(Fault(file, "a column with the rows' names", found, ID))
    if not columns:
        faults.append(Fault(file, "at least one numeric column", "none beside id and label"))
    if not table.num_rows:
        return [*faults, Fault(file, "at least one row", "0 rows", remedy="leave the file out")]
    for name in sorted({n for n in table.column_names if table.column_names.count(n) > 1}):
        faults.append(Fault(file, "a name used once", "it twice", name, remedy="rename one"))
    if faults:
        return faults
    for name in columns:
        faults += _numbers(table[name], name, file)
    if LABEL in table.column_names:
        faults += _labels(table[LABEL], file)
    return faults + (wrong_names(table[ID], ID, file) or _ids(table[ID], file))


def _numbers(column: pa.ChunkedArray, name: str, file: str) -> list[Fault]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        remedy = "turn categories into columns of 0 and 1, or leave the column out"
        return [Fault(file, "numbers", f"type {kind}", name, remedy=remedy)]
    values = _floats(column)
    return _faults(
        np.flatnonzero(~np.isfinite(values)),
        lambda row: Fault(
            file,
            "a finite number",
            "null" if column[row].as_py() is None else str(values[row]),
            name,
            row + 1,
            "fill the cell or leave the row out",
        ),
    )


def _labels(column: pa.ChunkedArray, file: str) -> list[Fault]:
    kind = column.type
    remedy = "code the two classes as 0 and 1, and rows to predict as null"
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if not any(test(kind) for test in known):
        return [Fault(file, "labels 0, 1 or null", f"type {kind}", LABEL, remedy=remedy)]
    values = _floats(column)
    missing = np.asarray(column.is_null())
    return _faults(
        np.flatnonzero(~missing & (values != 0.0) & (values != 1.0)),
        lambda row: Fault(file, "0, 1 or null", str(column[row].as_py()), LABEL, row + 1, remedy),
    )


def _ids(column: pa.ChunkedArray, file: str) -> list[Fault]:
    remedy = "give every row its own name"
    names = names_of(column)
    empty = [i for i, name in enumerate(names) if not name]
    faults = _faults(empty, lambda row: Fault(file, "a name", "null", ID, row + 1, remedy))
    first: dict[str, int] = {}
    again = [i for i, name in enumerate(names) if name and first.setdefault(name, i) != i]

    def twice(row: int) -> Fault:
        found = f"{names[row]!r}, which row {first[names[row]] + 1} has too"
        return Fault(file, "a name used once", found, ID, row + 1, remedy)

    return faults + _faults(again, twice)


def _faults(rows: Sequence[int] | IntArray, make: Callable[[int], Fault]) -> list[Fault]:
    faults = [make(int(row)) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        like = faults[0]
        found = f"the same in {len(rows) - MAX_ROWS} more rows"
        faults.append(Fault(like.file, like.expected, found, like.column, remedy=like.remedy))
    return faults


def _floats(column: pa.ChunkedArray) -> FloatArray:
    # Not the safe cast: a whole number beyond 2**53 is taken for the one next to it.
    number = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(number.to_numpy(zero_copy_only=False), np.float64)


def names_of(column: pa.ChunkedArray) -> list[str]:
    """Return the names of rows as text, empty for null."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return [name or "" for name in pc.cast(column, pa.string()).to_pylist()]


def numbers_of(table: pa.Table, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return x [N, D], and t [N]: 1 and -1 for the labels 1 and 0, 0 for null."""
    x = np.column_stack([_floats(table[name]) for name in columns])
    label = _floats(table[LABEL]) if LABEL in table.column_names else np.full(len(x), np.nan)
    return x, np.where(np.isnan(label), 0.0, 2.0 * label - 1.0)


def keys_of(names: Sequence[str]) -> IntArray:
    """Return a number of each row's own, from its name alone; [N]."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
