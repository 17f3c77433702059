"""Columns as they come, for an estimator: numbers, dates, yes or no, or categories, by their cells.

The rules are those of the pipeline ``experts`` (`vbmodels.experts.encoding`): a column whose cells
all read as numbers is one of numbers, also where they are text; then come words for yes and no, and
dates; what is left, and what its table calls categories, are categories.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from vbmodels.core.levels import DATE_CELL, NEARLY, NO, YES
from vbmodels.core.state import FloatArray
from vbmodels.estimators.tables import cells_at, is_arrow, is_frame, is_missing, labels_of, text_of
from vbmodels.experts.encoding import Kind, level_key

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_DATE = re.compile(DATE_CELL)
_FIRST = datetime(1970, 1, 1)
_DAY = 86_400.0


def as_numbers(table: Any) -> Any:
    """Return lists as an array, of numbers where they are nothing else."""
    if not isinstance(table, list | tuple):
        return table if hasattr(table, "dtype") or is_frame(table) else np.asarray(table)
    found = np.array(table, dtype=object)
    try:
        numbers = np.array(table)
    except ValueError:
        return found
    return numbers if numbers.dtype.kind in "biuf" else found


def all_numbers(table: Any) -> bool:
    """Say whether all columns of a table, or an array, have a type of numbers."""
    if not is_frame(table):
        return getattr(table, "dtype", np.dtype(object)).kind in "biuf"
    if is_arrow(table):
        return all(str(kind).rstrip("0123456789") in _ARROW for kind in table.schema.types)
    return all(_of_numbers(kind) for kind in table.dtypes)


_ARROW = ("int", "uint", "float", "double", "halffloat", "bool")


def _of_numbers(kind: Any) -> bool:
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "biuf"


def declared(table: Any, place: int) -> bool:
    """Say whether a table calls a column one of categories."""
    if not is_frame(table):
        return False
    if is_arrow(table):
        return str(table.schema.types[place]).startswith("dictionary")
    kind = table.dtypes.iloc[place] if hasattr(table.dtypes, "iloc") else table.dtypes[place]
    return str(kind).startswith(("category", "Categorical", "Enum"))


def columns_in(table: Any) -> list[list[Any]]:
    """Return the cells of every column, None where one is missing or an empty text."""
    if is_frame(table):
        columns = [cells_at(table, place) for place in range(len(labels_of(table)))]
    else:
        columns = [list(column) for column in np.asarray(table, object).T]
    return [[None if _gone(cell) else cell for cell in column] for column in columns]


def _gone(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def kind_of(name: str, cells: Sequence[Any]) -> Kind:
    """Return what a column is.

    Raises
    ------
    ValueError
        If a few cells that are none stand among numbers.

    Examples
    --------
    >>> kind_of("a", [1, None, "2.5"]), kind_of("a", ["yes", "No"]), kind_of("a", ["u", "1"])
    ('number', 'yes or no', 'category')
    >>> kind_of("a", ["2024-02-29", date(2024, 1, 1)])
    'date'
    """
    given = [cell for cell in cells if cell is not None]
    if not given:
        return "category"
    flags = any(isinstance(cell, bool | np.bool_) for cell in given)
    numbers = _readable(given, _number)
    if numbers == len(given) and not flags:
        return "number"
    for kind in ("yes or no", "date"):
        if _readable(given, _READ[kind]) == len(given):
            return kind
    if numbers >= NEARLY * len(given):
        place = next(n for n, c in enumerate(cells) if c is not None and _number(c) is None)
        odd = cells[place]
        raise ValueError(
            f"expected a number in column {name!r}, as nearly all of its cells are, found {odd!r} "
            f"in row {place}: mend the cell, make it None, or give the column as categories"
        )
    return "category"


def _readable(cells: Sequence[Any], read: Callable[[Any], float | None]) -> int:
    return sum(read(cell) is not None for cell in cells)


def raw_column(name: str, cells: Sequence[Any], kind: Kind) -> FloatArray:
    """Return a column's raw cells (`vbmodels.experts.encoding`), NaN where one is missing; [N].

    Raises
    ------
    ValueError
        If a cell is not of the column's kind, or infinite.
    """
    if kind == "category":
        known: dict[str, float] = {}
        texts = [None if cell is None else text_of(cell).strip() for cell in cells]
        for text in texts:
            if text is not None and text not in known:
                known[text] = level_key(text)
        return np.array([np.nan if text is None else known[text] for text in texts])
    read = _READ[kind]
    values = np.full(len(cells), np.nan)
    for n, cell in enumerate(cells):
        if cell is None:
            continue
        value = read(cell)
        if value is None:
            raise ValueError(
                f"expected a {kind} in column {name!r}, as in the fit, found {cell!r} in row {n}"
            )
        values[n] = value
    if np.isinf(values).any():
        raise ValueError(f"expected finite numbers in column {name!r}, found infinity")
    return values


def one_gap(raw: FloatArray) -> FloatArray:
    """Return raw cells with one bit pattern for all missing ones, on which hashes hang."""
    gone = np.isnan(raw)
    return np.where(gone, np.nan, raw) if gone.any() else raw


def levels_of(cells: Sequence[Any]) -> Counter[str]:
    """Count the levels of a column of categories."""
    return Counter(text_of(cell).strip() for cell in cells if cell is not None)


def _number(cell: Any) -> float | None:
    if isinstance(cell, str):
        text = cell.strip()
        found = float(text) if _NUMBER.fullmatch(text) else np.inf
        return found if np.isfinite(found) else None
    if isinstance(cell, int | float | Decimal | np.number | np.bool_):
        return float(cell)
    return None


def _flag(cell: Any) -> float | None:
    if isinstance(cell, str):
        word = cell.strip().lower()
        return 1.0 if word in YES else 0.0 if word in NO else None
    value = _number(cell)
    return value if value in (0.0, 1.0) else None


def _date(cell: Any) -> float | None:
    if isinstance(cell, np.datetime64):
        return float((cell - np.datetime64("1970-01-01")) / np.timedelta64(1, "D"))
    if isinstance(cell, str):
        text = cell.strip()
        if not _DATE.fullmatch(text):
            return None
        try:
            cell = datetime.fromisoformat(text.removesuffix("Z"))
        except ValueError:
            return None
    if isinstance(cell, datetime):
        moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
        return float((moment - _FIRST).total_seconds() / _DAY)
    if isinstance(cell, date):
        return float(cell.toordinal() - _FIRST.toordinal())
    return None


_READ: dict[str, Callable[[Any], float | None]] = {
    "number": _number,
    "yes or no": _flag,
    "date": _date,
}
