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


def is_single(kind: pa.DataType) -> bool:
    """Whether cells are single values: numbers, text, dates, or true and false."""
    if pa.types.is_dictionary(kind):
        return is_single(kind.value_type)
    tests = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal,
        pa.types.is_date, pa.types.is_timestamp, pa.types.is_null, is_text,
    )  # fmt: skip
    return any(test(kind) for test in tests)


def holds_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type holds the same values: large, view and dictionary forms are read too."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return holds_same(found.value_type, wanted)
    if pa.types.is_string(wanted):
        return is_text(found)
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(found) for test in lists) and holds_same(
            found.value_type, wanted.value_type
        )
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(found)
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(found) or pa.types.is_integer(found)
    return bool(found == wanted)
