"""Faults of many rows: the first ones by row, the rest in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from flows.faults import Fault
from vbmodels.core.state import IntArray

MAX_ROWS = 20
"""Rows named for one kind of fault in one column; the rest is counted in one more sentence."""


def row_faults(rows: Sequence[int] | IntArray, make: Callable[[int], Fault]) -> list[Fault]:
    """Make a fault of each row, up to the limit, and one for the rest."""
    faults = [make(int(row)) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        like = faults[0]
        faults.append(
            Fault(
                file=like.file,
                column=like.column,
                expected=like.expected,
                found=f"the same in {len(rows) - MAX_ROWS} more rows",
                remedy=like.remedy,
            )
        )
    return faults


def wrong_names(column: pa.ChunkedArray, name: str, file: str) -> list[Fault]:
    """List why a column cannot name rows: its type, or text that is no UTF-8."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_text(kind):
        return invalid_text(column, name, file)
    if pa.types.is_integer(kind):
        return []
    return [
        Fault(
            file=file,
            column=name,
            expected="names of rows (text, whole numbers or a dictionary of them)",
            found=f"type {column.type}",
            remedy="write the names as text",
        )
    ]


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's for text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def invalid_text(column: pa.ChunkedArray, name: str, file: str) -> list[Fault]:
    """Text that is no UTF-8 (Arrow does not check it when a file is read)."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        rows = [row for row in range(len(column)) if not _readable(column, row)]
    else:
        return []
    return row_faults(
        rows,
        lambda row: Fault(
            file=file,
            column=name,
            expected="text in UTF-8",
            found="bytes that are none",
            row=row + 1,
            remedy="write the file again with its text encoded as UTF-8",
        ),
    )


def _readable(column: pa.ChunkedArray, row: int) -> bool:
    try:
        column[row].as_py()
    except UnicodeDecodeError:
        return False
    return True
