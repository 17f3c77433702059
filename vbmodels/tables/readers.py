"""Columns of a table in memory, read by the rule of files (`vbmodels.tables.columns`).

Cells of text are numbers, dates, yes or no, or categories by all cells of their column. Columns of
numbers, of yes and no, of dates, and what a table calls categories, are what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.tables.answers import has_answer
from vbmodels.tables.cells import DASH, MISSING, days_of, level_text, number_of
from vbmodels.tables.columns import Rule, Unclear
from vbmodels.tables.encoding import level_key
from vbmodels.tables.frames import cells_at, is_arrow, is_frame, is_missing, labels_of, text_of
from vbmodels.tables.levels import MOST, NO, YES, Levels
from vbmodels.tables.seen import Seen, seen_in, seen_numbers

_FIRST = datetime(1970, 1, 1)
_DAY = 86_400.0
_MISSING = frozenset(MISSING)
_NUMBERS = (int, float, Decimal, np.number, bool, np.bool_)


def as_numbers(table: Any) -> Any:
    """Return lists as an array, of numbers where they are nothing else."""
    if not isinstance(table, list | tuple):
        return table if hasattr(table, "dtype") or is_frame(table) else np.asarray(table)
    objects = np.array(table, dtype=object)
    try:
        numbers = np.array(table)
    except ValueError:
        return objects
    return numbers if numbers.dtype.kind in "biuf" else objects


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


def declared(table: Any, index: int) -> tuple[str, ...] | None:
    """Return the order of a column that a table calls one of categories; None where it is none.

    Categories without an order have an empty one.
    """
    if not is_frame(table):
        return None
    if is_arrow(table):
        kind = table.schema.types[index]
    else:
        kind = table.dtypes.iloc[index] if hasattr(table.dtypes, "iloc") else table.dtypes[index]
    if not str(kind).startswith(("dictionary", "category", "Categorical", "Enum")):
        return None
    names = getattr(kind, "categories", None)
    if names is None or not getattr(kind, "ordered", False):
        return ()
    return tuple(level_text(text_of(name)) for name in names)


def columns_in(table: Any) -> list[list[Any]]:
    """Return the cells of every column, None where one is missing or an empty text."""
    if is_frame(table):
        columns = [cells_at(table, position) for position in range(len(labels_of(table)))]
    else:
        columns = [list(column) for column in np.asarray(table, object).T]
    return [[None if _is_blank(cell) else cell for cell in column] for column in columns]


def _is_blank(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def seen_of(name: str, cells: Sequence[Any], order: tuple[str, ...] | None = None) -> Seen:
    """Return what a column's cells are.

    Parameters
    ----------
    name
        Of the column.
    cells
        None where one is missing.
    order
        That of the categories, where the table says that they are; see `declared`.

    Raises
    ------
    ValueError
        If a number is too large for a float.

    Examples
    --------
    >>> seen_of("a", ["1,5", "NA", None]).missing, seen_of("a", [True, False]).typed_flags
    (2, 2)
    """
    present = [cell for cell in cells if cell is not None]
    n, gone = len(present), len(cells) - len(present)
    if order is not None:
        return Seen(n, gone, declared=n, order=order)
    if not present:
        return Seen(missing=gone)
    if all(isinstance(cell, bool | np.bool_) for cell in present):
        ones = sum(map(bool, present))
        return Seen(
            n, gone, plain=n, point=n, comma=n, flags=n, ones=ones, typed_flags=n, low=0.0, high=1.0
        )
    if all(isinstance(c, _NUMBERS) and not isinstance(c, bool | np.bool_) for c in present):
        try:
            return seen_numbers(np.array([float(cell) for cell in present]), gone)
        except OverflowError:
            row = next(
                n for n, cell in enumerate(cells) if isinstance(cell, int) and _is_huge(cell)
            )
            raise ValueError(
                f"column {name!r}: expected numbers up to 1.8e308, found {_shown(cells[row])} in "
                f"row {row}; give the column in another unit, or make its cells text"
            ) from None
    if all(isinstance(cell, date | np.datetime64) for cell in present):
        return Seen(n, gone, dates=dict.fromkeys(("ymd", "dmy", "mdy"), n), odd=(str(present[0]),))
    return Seen(missing=gone) + seen_in(Counter(_text(cell) for cell in present))


def _is_huge(cell: Any) -> bool:
    return isinstance(cell, int) and cell.bit_length() > 1024


def _shown(cell: Any) -> str:
    """Return a cell as an error shows it."""
    return f"a whole number of {cell.bit_length()} bits" if _is_huge(cell) else repr(cell)


def _text(cell: Any) -> str:
    return str(_moment(cell)) if isinstance(cell, datetime) else text_of(cell).strip()


def refuse_unclear(name: str, cells: Sequence[Any], unclear: Unclear) -> None:
    """Raise `ValueError` for a column that cannot be read."""
    where = ""
    if unclear.mend:
        readers = [CellReader(name, Rule(kind)) for kind in ("number", "date")]
        odd = [
            n
            for n, cell in enumerate(cells)
            if not readers[0].gone(cell) and all(reader.parse(cell) is None for reader in readers)
        ]
        where = f" (row {odd[0]})" if odd else ""
    raise ValueError(
        f"column {name!r}: expected {unclear.expected}, found {unclear.found}{where}; correct "
        "these cells or make them None, or convert the column to numbers, dates or categories"
    )


@dataclass(frozen=True)
class CellReader:
    """How one column's cells are read, in the fit and in new rows.

    Attributes
    ----------
    name, rule
        The column, and its rule.
    declared
        Whether the table calls it one of categories, so that its words are no missing cells.
    """

    name: str
    rule: Rule
    declared: bool = False

    def gone(self, cell: Any) -> bool:
        """Say whether a cell is missing."""
        if not isinstance(cell, str):
            return is_missing(cell)
        text = cell.strip()
        if self.declared:
            return not text
        is_word = text in _MISSING or text == self.rule.absent
        return is_word or (text == DASH and self.rule.dash_is_missing)

    def level(self, cell: Any) -> str | None:
        """Return the category of a cell as text; None where it is missing.

        >>> read = CellReader("a", Rule("number", decimal=",")).level
        >>> read("4,0"), read(4), CellReader("a", Rule()).level("4.0"), read("NA")
        ('4', '4', '4', None)
        """
        if self.gone(cell):
            return "no" if self.rule.blank_is_no and _is_blank(cell) else None
        if self.rule.answer:
            return "yes" if has_answer(_text(cell), self.rule) else "no"
        if self.rule.kind == "yes or no":
            flag = _flag(cell, self.rule)
            if flag is None:
                return level_text(_text(cell))
            return "yes" if flag else "no"
        if self.rule.kind == "number" and isinstance(cell, str):
            value = number_of(cell.strip(), self.rule.decimal)
            return level_text(cell) if value is None else text_of(value)
        return level_text(_text(cell))

    def levels(self, cells: Sequence[Any]) -> tuple[list[str | None], Levels]:
        """Return the categories of cells, and how often each occurs."""
        known: dict[Any, str | None] = {}
        levels = []
        for cell in cells:
            if not isinstance(cell, str):
                levels.append(self.level(cell))
                continue
            if cell not in known:
                known[cell] = self.level(cell)
            levels.append(known[cell])
        counts = Counter(level for level in levels if level is not None)
        return levels, Levels(dict(counts), len(levels) - counts.total(), len(counts) > MOST)

    def parse(self, cell: Any) -> float | None:
        """Return a cell that is given as a number of the column's kind; None where it is none."""
        try:
            return _PARSE[self.rule.kind](cell, self.rule)
        except OverflowError:  # a whole number that no float holds
            return None

    def raw(self, cells: Sequence[Any]) -> FloatArray:
        """Return raw cells (`vbmodels.tables.encoding`), NaN where one is missing; [N].

        Raises
        ------
        ValueError
            If a cell is not of the column's kind, or infinite.
        """
        if self.rule.kind == "category":
            texts, levels = self.levels(cells)
            keys = {text: level_key(text) for text in levels.counts}
            return np.array([np.nan if text is None else keys[text] for text in texts])
        blank = 0.0 if self.rule.blank_is_no else np.nan
        values = np.full(len(cells), blank)
        known: dict[str, float] = {}
        for n, cell in enumerate(cells):
            if isinstance(cell, str) and cell in known:
                values[n] = known[cell]
            elif not self.gone(cell):
                value = self.parse(cell)
                if value is None:
                    raise ValueError(
                        f"expected a {self.rule.kind} in column {self.name!r}, as in the fit, "
                        f"found {_shown(cell)} in row {n}"
                    )
                values[n] = value
                if isinstance(cell, str):
                    known[cell] = value
            elif not _is_blank(cell):
                values[n] = np.nan
        if np.isinf(values).any():
            raise ValueError(f"expected finite numbers in column {self.name!r}, found infinity")
        return values

    def filled(self, raw: FloatArray) -> FloatArray:
        """Return raw numbers with blank cells as no, where the column has yes or nothing."""
        return np.where(np.isnan(raw), 0.0, raw) if self.rule.blank_is_no else raw


def readers_of(
    names: Sequence[str],
    cells: Sequence[Sequence[Any]],
    seen: Sequence[Seen],
    rules: Mapping[str, Rule],
    unclear: Mapping[str, Unclear],
) -> list[CellReader]:
    """Return how every column is read; ``rules`` and ``unclear`` are by place, as names may repeat.

    Raises
    ------
    ValueError
        If a column cannot be read.
    """
    for position, error in unclear.items():
        refuse_unclear(names[int(position)], cells[int(position)], error)
    return [
        CellReader(name, rule, bool(column.declared))
        for name, rule, column in zip(names, rules.values(), seen, strict=True)
    ]


def one_gap(raw: FloatArray) -> FloatArray:
    """Return raw cells with one bit pattern for all missing ones, which hashes depend on."""
    gone = np.isnan(raw)
    return np.where(gone, np.nan, raw) if gone.any() else raw


def _number(cell: Any, rule: Rule) -> float | None:
    if isinstance(cell, str):
        return number_of(cell.strip(), rule.decimal)
    return float(cell) if isinstance(cell, _NUMBERS) else None


def _flag(cell: Any, rule: Rule) -> float | None:
    if isinstance(cell, str):
        word = cell.strip().lower()
        if word in ((rule.yes,) if rule.yes else YES):
            return 1.0
        return 0.0 if word in NO else None
    return float(cell) if isinstance(cell, _NUMBERS) and cell in (0, 1) else None


def _moment(cell: datetime) -> datetime:
    return cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell


def _date(cell: Any, rule: Rule) -> float | None:
    if isinstance(cell, np.datetime64):
        return float((cell - np.datetime64("1970-01-01")) / np.timedelta64(1, "D"))
    if isinstance(cell, str):
        return days_of(cell.strip(), rule.order)
    if isinstance(cell, datetime):
        return float((_moment(cell) - _FIRST).total_seconds() / _DAY)
    return float(cell.toordinal() - _FIRST.toordinal()) if isinstance(cell, date) else None


_PARSE: Mapping[str, Callable[[Any, Rule], float | None]] = {
    "number": _number,
    "yes or no": _flag,
    "date": _date,
}
