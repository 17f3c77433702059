"""Columns as they come: numbers, text, dates or categories, told apart by all of their cells.

A column is looked at piece by piece. What `Seen` counts adds, so its kind is the same for any
partitioning, and the same whether a file types its cells or writes them as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.reading import decoded, is_text, read_cells
from vbmodels.core.levels import DATE_CELL, NEARLY, NO, YES
from vbmodels.core.state import BoolArray, FloatArray

NUMBER, FLAG, DATE, CATEGORY = "number", "yes or no", "date", "category"

_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Seen:
    """How many cells of a column are of what kind; the sum of two is that of both.

    Attributes
    ----------
    cells
        Cells that are given.
    numbers, flags, dates
        Those that are, or read as, finite numbers; yes or no, true or false, 1 or 0; dates.
    declared
        Those of a dictionary: somebody has called them categories.
    """

    cells: int = 0
    numbers: int = 0
    flags: int = 0
    dates: int = 0
    declared: int = 0

    def __add__(self, other: Seen) -> Seen:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Seen(*(a + b for a, b in pairs))

    @property
    def kind(self) -> str:
        """What the column is.

        >>> Seen(3, 3).kind, Seen(3, 1, 3).kind, Seen(3, 2).kind, Seen(3, 3, declared=3).kind
        ('number', 'yes or no', 'category', 'category')
        """
        if self.declared or not self.cells:
            return CATEGORY
        for kind, count in ((NUMBER, self.numbers), (FLAG, self.flags), (DATE, self.dates)):
            if count == self.cells:
                return kind
        return CATEGORY

    @property
    def spoilt(self) -> bool:
        """Whether a few cells that are no numbers stand among numbers."""
        few = NEARLY * self.cells <= self.numbers < self.cells
        return bool(few and self.kind == CATEGORY and not self.declared)


Cells = pa.Array
"""Cells as `taken` gives them."""


def typed(cells: pa.Array) -> bool:
    """Say whether cells are numbers, and not text."""
    return bool(pa.types.is_floating(cells.type))


def taken(column: pa.ChunkedArray | pa.Array, missing: Sequence[str] = ()) -> tuple[pa.Array, Seen]:
    """Return a file's column as doubles or as text, and what it was seen to hold.

    Parameters
    ----------
    column
        Cells of a type that `flows.data.reading.can_read` takes as they come.
    missing
        Texts, or numbers as text, that stand for a missing cell.
    """
    declared = pa.types.is_dictionary(column.type)
    cells = decoded(column)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    kind = cells.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        cells = cells.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        cells = cells.cast(pa.timestamp("us")).cast(pa.string())
    elif pa.types.is_boolean(kind):
        given = len(cells) - cells.null_count
        return cells.cast(pa.int8()).cast(pa.float64()), Seen(given, flags=given)
    elif not is_text(kind) and not pa.types.is_null(kind):
        cells = cells.cast(pa.float64(), safe=False)
    if pa.types.is_floating(cells.type):
        cells = _without_numbers(cells, missing)
        return (texts(cells), _seen_text(texts(cells), True)) if declared else (
            cells, _seen_numbers(cells)
        )  # fmt: skip
    text = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    gone = pc.is_in(text, value_set=pa.array(["", *missing], pa.string()))
    text = pc.if_else(gone, pa.scalar(None, pa.string()), text)
    return text, _seen_text(text, declared)


def _without_numbers(cells: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Turn NaN, and numbers that stand for a missing cell, into nulls."""
    values = cells.to_numpy(zero_copy_only=False)
    read = pa.chunked_array([pa.array(list(missing), pa.string())])
    named = read_cells(read, pa.float64(), False, ";")[0].drop_null().to_numpy()
    return pa.array(values, mask=np.isnan(values) | np.isin(values, named))


def _seen_numbers(cells: pa.Array) -> Seen:
    values = cells.to_numpy(zero_copy_only=False)
    given = len(values) - cells.null_count
    finite = int(np.count_nonzero(np.isfinite(values)))
    return Seen(given, finite, int(np.count_nonzero((values == 0.0) | (values == 1.0))))


def _seen_text(text: pa.Array, declared: bool) -> Seen:
    counted = pc.value_counts(text.drop_null())
    values, count = counted.field("values"), counted.field("counts").to_numpy()
    given = int(count.sum())
    if declared:
        return Seen(given, declared=given)
    of = [int(count[~wrong].sum()) for _, wrong in (_read(values, k) for k in (NUMBER, FLAG, DATE))]
    return Seen(given, *of)


def numbers(cells: pa.Array, kind: str) -> tuple[FloatArray, BoolArray]:
    """Return cells as numbers of a kind, and which cannot be read.

    Parameters
    ----------
    cells
        As `taken` gives them.
    kind
        `NUMBER`, `FLAG` (1 and 0) or `DATE` (days since 1970-01-01).

    Returns
    -------
    values, wrong
        NaN where a cell is missing or cannot be read; [N] each.
    """
    if pa.types.is_floating(cells.type):
        values = np.array(cells.to_numpy(zero_copy_only=False))
        values[np.isnan(values)] = np.nan  # of one bit pattern
        wrong = np.isinf(values)
        if kind != NUMBER:
            wrong = ~np.isnan(values) & ~(np.isin(values, [0.0, 1.0]) & (kind == FLAG))
        return np.where(wrong, np.nan, values) if wrong.any() else values, wrong
    return _read(cells, kind)


def _read(text: pa.Array, kind: str) -> tuple[FloatArray, BoolArray]:
    """Return text as numbers of a kind, and which cells are given and are none."""
    if kind == NUMBER:
        read = read_cells(pa.chunked_array([text]), pa.float64(), False, ";")[0]
        values = np.array(read.to_numpy(), np.float64)
        values[~np.isfinite(values)] = np.nan
    elif kind == FLAG:
        words = pc.utf8_lower(text)
        yes, no = (pc.is_in(words, value_set=pa.array(some)).to_numpy(False) for some in (YES, NO))
        values = np.where(yes, 1.0, np.where(no, 0.0, np.nan))
    else:
        values = _days(text)
    given = np.asarray(text.is_valid())
    return values, given & np.isnan(values)


def _days(text: pa.Array) -> FloatArray:
    fits = pc.fill_null(pc.match_substring_regex(text, f"^{DATE_CELL}$"), False)
    kept = pc.utf8_rtrim(pc.if_else(fits, text, pa.scalar(None, pa.string())), "Z")
    try:
        read = kept.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # a day that its month does not have
        read = pa.array([_moment(one) for one in kept], pa.timestamp("us"))
    since = read.cast(pa.int64())
    values = np.full(len(text), np.nan)
    given = np.asarray(since.is_valid())
    values[given] = since.drop_null().to_numpy() / _DAY
    return values


def _moment(one: pa.Scalar) -> object:
    try:
        return one.cast(pa.timestamp("us")).as_py()
    except pa.ArrowInvalid:
        return None


def texts(cells: pa.Array) -> pa.Array:
    """Return cells as text; a whole number is written without a point.

    >>> texts(pa.array([1.0, 0.5, None])).to_pylist()
    ['1', '0.5', None]
    """
    if not pa.types.is_floating(cells.type):
        return cells
    encoded = cells.dictionary_encode()
    words = pa.array([_word(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return words.take(encoded.indices)


def _word(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """Join pieces of one column as `taken` gives them: numbers become text beside text."""
    kinds = {piece.type for piece in pieces if piece.null_count < len(piece)}
    if len(kinds) > 1:
        return pa.concat_arrays([texts(piece) for piece in pieces])
    kind = next(iter(kinds), pieces[0].type)
    return pa.concat_arrays([piece.cast(kind) for piece in pieces])
