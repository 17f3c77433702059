"""Questions about Arrow's types."""

from __future__ import annotations

import pyarrow as pa


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Spell a dictionary out."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's for text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's for numbers."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)
