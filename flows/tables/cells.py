"""Cells of a column: questions about their types, and text read as values."""

from __future__ import annotations

import ast
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables.table import ANY, Column, Kind
from vbmodels.core.state import BoolArray
from vbmodels.tables.levels import NO, YES

_NUMBER = r"^\s*[-+]?((\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|inf|infinity)\s*$"
_COMMAS = {
    ",": r"^(\s*[-+]?\d*),(\d+\s*)()()$",
    None: r"^(?:(\s*[-+]?0*),(\d+\s*)|(\s*[-+]?\d+),(\d{1,2}\s*|\d{4,}\s*))$",
}
"""What stands before and after a decimal comma: any, or one that sets no thousands apart."""
_WHOLE = r"^\s*[-+]?\d+\s*$"


def read_cells(
    cells: pa.ChunkedArray,
    kind: pa.DataType,
    yes_and_no: bool,
    separator: str,
    decimal: str | None = ".",
) -> tuple[pa.ChunkedArray, BoolArray]:
    """Read text as values of a type; what cannot be read is null.

    Parameters
    ----------
    cells
        Text, null where a cell is missing.
    kind
        What they are read as.
    yes_and_no
        Whether numbers are ones and zeros that may be spelt yes and no, or true and false.
    separator
        The separator of the entries of a list. A list may also be written as in JSON or Python.
    decimal
        Decimal sign of numbers; None: a comma where no number has a point, but one before three
        digits may set thousands apart.

    Returns
    -------
    cells, wrong
        The values, and which cells [N] hold something else.
    """
    if pa.types.is_list(kind):
        return _lists(cells, kind, separator)
    if pa.types.is_boolean(kind):
        read = _yes_or_no(cells)
    elif pa.types.is_integer(kind):
        read = _matching(cells, _WHOLE, kind)
    elif pa.types.is_floating(kind):
        if decimal != "." and not pc.any(pc.match_substring_regex(cells, r"\d\.|\.\d")).as_py():
            cells = pc.replace_substring_regex(cells, _COMMAS[decimal], r"\1\3.\2\4")
        read = _matching(cells, _NUMBER, kind)
    else:
        return cells, np.zeros(len(cells), bool)
    if yes_and_no:
        # Spelt out first: "yes" is no number.
        words = _yes_or_no(cells).cast(pa.int8()).cast(kind)
        read = pc.coalesce(words, read)
    wrong = np.asarray(pc.and_(pc.is_null(read), pc.is_valid(cells)))
    return read, wrong


def _matching(cells: pa.ChunkedArray, pattern: str, kind: pa.DataType) -> pa.ChunkedArray:
    fits = pc.match_substring_regex(cells, pattern, ignore_case=True)
    matching = pc.if_else(pc.fill_null(fits, False), cells, pa.scalar(None, cells.type))
    trimmed = pc.utf8_ltrim(pc.utf8_trim_whitespace(matching), "+")
    try:
        return trimmed.cast(kind)
    except pa.ArrowInvalid:  # a whole number too large for its type
        return pa.chunked_array([[_number(cell.as_py(), kind) for cell in trimmed]], kind)


def _number(text: str | None, kind: pa.DataType) -> Any:
    try:
        return None if text is None else pa.scalar(text).cast(kind).as_py()
    except pa.ArrowInvalid:
        return None


def _yes_or_no(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    yes, no = (pc.is_in(words, value_set=pa.array(words_of_kind)) for words_of_kind in (YES, NO))
    return pc.if_else(yes, True, pc.if_else(no, False, pa.scalar(None, pa.bool_())))


def _lists(
    cells: pa.ChunkedArray, kind: pa.DataType, separator: str
) -> tuple[pa.ChunkedArray, BoolArray]:
    read, wrong = [], np.zeros(len(cells), bool)
    for row, cell in enumerate(cells.to_pylist()):
        entries = None if cell is None else _entries(cell, separator)
        if entries is not None:
            values = pa.chunked_array([pa.array(entries, pa.string())])
            parsed, odd = read_cells(values, kind.value_type, False, separator)
            wrong[row] = bool(odd.any())
            entries = None if odd.any() else parsed.to_pylist()
        read.append(entries)
    return pa.chunked_array([pa.array(read, kind)]), wrong


def _entries(cell: str, separator: str) -> list[str]:
    """Return the entries of a list, which may be written as JSON or Python write one."""
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        for parse in (json.loads, ast.literal_eval):
            try:
                parsed = parse(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(parsed, list) and not any(isinstance(e, list | dict) for e in parsed):
                return [str(entry) for entry in parsed]
    return [entry for part in text.split(separator) if (entry := part.strip())]


def words_for(kind: pa.DataType, separator: str) -> str:
    """Return what is expected of a cell of text that is read as this type, in words."""
    if pa.types.is_list(kind):
        return f"{words_for(kind.value_type, separator)}, or several with {separator!r} between"
    if pa.types.is_boolean(kind):
        return "yes or no, true or false, 1 or 0"
    return "a whole number" if pa.types.is_integer(kind) else "a number"


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Spell a dictionary out."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


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
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_null,
        is_text,
    )
    return any(test(kind) for test in tests)


def holds_same(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type holds the same values: large, view and dictionary forms are read too."""
    if pa.types.is_null(kind):
        return True
    if pa.types.is_dictionary(kind):
        return holds_same(kind.value_type, wanted)
    if pa.types.is_string(wanted):
        return is_text(kind)
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(kind) for test in lists) and holds_same(kind.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(kind)
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(kind) or pa.types.is_integer(kind)
    return bool(kind == wanted)


def of_codes(column: Column) -> bool:
    """Whether floats in a column of text denote categories."""
    return bool(column.arrow == pa.string()) and any(map(pa.types.is_floating, _accepted(column)))


def as_it_comes(column: Column) -> bool:
    """Whether a column's cells are taken in whatever type a file has them."""
    return column.type == ANY


def can_read(column: Column, kind: pa.DataType) -> bool:
    """Whether a file's column of this type can be read as a declared one."""
    if as_it_comes(column):
        return is_single(kind)
    if pa.types.is_null(kind):
        return column.nullable
    return any(holds_same(kind, wanted) for wanted in (column.arrow, *_accepted(column)))


def cast(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray | pa.Array:
    """Return a file's column in the type that is declared; one of any type is not copied.

    Raises `pyarrow.ArrowInvalid` if a value has no place in that type.
    """
    if as_it_comes(column):
        return cells
    cells = decoded(cells)
    if of_codes(column) and pa.types.is_floating(cells.type):
        missing = pa.scalar(None, cells.type)
        cells = pc.if_else(pc.is_nan(cells), missing, cells).cast(pa.int64())
    if pa.types.is_list(column.arrow) and not is_list(cells.type):
        return _lists_of_one(cells, column.arrow)
    # A whole number beyond 2**53 is taken for the float next to it.
    cells = cells.cast(column.arrow, safe=not pa.types.is_floating(column.arrow))
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def _lists_of_one(cells: pa.ChunkedArray | pa.Array, kind: pa.ListType) -> pa.Array:
    """Return single cells as lists of one, null where a cell is missing."""
    values = cells.cast(kind.value_type)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    ends = np.concatenate([[0], np.cumsum(np.asarray(values.is_valid()))])
    offsets = pa.array(ends, pa.int32(), mask=np.append(np.asarray(values.is_null()), False))
    return pa.ListArray.from_arrays(offsets, values.drop_null()).cast(kind)


def is_list(kind: pa.DataType) -> bool:
    """Whether cells are lists."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _accepted(column: Column) -> list[pa.DataType]:
    return [kind.arrow if isinstance(kind, Kind) else kind for kind in column.accepts]
