"""Excel, OpenDocument, SPSS, Stata and SAS files as Arrow tables, by packages that are extras.

A workbook's sheet is a table of cells with their types. A column of a statistics file whose values
all have labels is one of categories, in the order of its values; values that the file calls missing
are missing cells.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from flows.storage.errors import cannot_read
from flows.storage.file_options import file_options

SHEETS = (".xlsx", ".xls", ".xlsb", ".xlsm", ".ods")
STATISTICS = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
_MOST_TITLE = 20  # rows above the header
_SHOWN = 5


@dataclass
class CellTable:
    """A table and notes on how it was read, as ends of sentences."""

    table: pa.Table
    notes: list[str] = field(default_factory=list)


def read(url: str, path: str, end: str) -> CellTable:
    """Read a file.

    Raises `StorageError` if it is damaged, `ImportError` if what reads it is not installed.

    Parameters
    ----------
    url
        Its name, for messages.
    path
        Where it is on this machine.
    end
        The ending that says its format.
    """
    return _sheet(url, path) if end in SHEETS else _statistics(url, path, end)


def _sheet(url: str, path: str) -> CellTable:
    import python_calamine as calamine

    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            sheet, notes = _chosen(url, book)
            rows, merged = sheet.to_python(skip_empty_area=False), sheet.merged_cell_ranges or []
    except calamine.CalamineError as error:
        raise cannot_read(url, str(error), "a workbook") from error
    if not any(cell != "" for row in rows for cell in row):
        raise cannot_read(url, f"its sheet {sheet.name!r} is empty; name another")
    _fill_merged(rows, merged, notes)
    return _with_header(rows, notes)


def _chosen(url: str, book: Any) -> tuple[Any, list[str]]:
    """Return the sheet that is named, or the first one with a table that people see; and notes."""
    names, wanted = list(book.sheet_names), file_options().sheet
    if wanted is not None:
        if wanted not in names:
            raise cannot_read(url, f"it has no sheet {wanted!r}; its sheets are {', '.join(names)}")
        return book.get_sheet_by_name(wanted), []
    shown = {sheet.name for sheet in book.sheets_metadata if "Hidden" not in str(sheet.visible)}
    tables = [sheet for sheet in map(book.get_sheet_by_name, names) if sheet.height > 1]
    tables.sort(key=lambda sheet: (sheet.name not in shown, sheet.width < 2))
    if not tables:
        raise cannot_read(url, f"none of its sheets has a table ({', '.join(names)})")
    first, *others = tables
    if not others:
        return first, []
    more = ", ".join(
        sheet.name + ("" if sheet.name in shown else " (hidden)") for sheet in others[:_SHOWN]
    )
    return first, [f"its sheet {first.name} is read, not {more}; --set sheet=NAME reads another"]


def _fill_merged(rows: list[list[Any]], merged: Sequence[Any], notes: list[str]) -> None:
    """Give every cell of a merged one its value, where it reaches over several rows."""
    first = _header(rows)
    filled = 0
    for (top, left), (bottom, right) in merged:
        here = top < len(rows) and left < len(rows[top])
        value = rows[top][left] if here else ""
        if top <= first or top == bottom or value == "":
            continue
        for row in rows[top : bottom + 1]:
            for column in range(left, min(right + 1, len(row))):
                if row[column] == "":
                    row[column] = value
                    filled += 1
    if filled:
        notes.append(f"{filled:,} cells merged with the one above have its value")


def _header(rows: Sequence[Sequence[Any]]) -> int:
    """Return the number of the first row that is about as full as others."""
    filled = [sum(cell != "" for cell in row) for row in rows]
    width = max(filled[: _MOST_TITLE + 50])
    return next(i for i, n in enumerate(filled) if n >= max(1, 0.6 * width))


def _with_header(rows: Sequence[Sequence[Any]], notes: list[str]) -> CellTable:
    """Make a table of a sheet's cells, with the names in its first full row."""
    first = _header(rows)
    if above := sum(any(cell != "" for cell in row) for row in rows[:first]):
        what = "1 row" if above == 1 else f"{above} rows"
        notes.append(
            f"{what} above the names of the columns {'is' if above == 1 else 'are'} not read"
        )
    skip = file_options().skip_rows or 0
    if skip:
        notes.append(f"{skip} rows below the header are not read")
    body = [row for row in rows[first + 1 + skip :] if any(cell != "" for cell in row)]
    names: list[str] = []
    cells: list[list[Any]] = []
    for index, name in enumerate(rows[first]):
        values = [row[index] if index < len(row) and row[index] != "" else None for row in body]
        text = _text(name).strip()
        if not text and values.count(None) == len(values):
            continue
        if not text:
            text = f"column {index + 1}"
            notes.append(f"a column has no name and is called {text} here")
        names.append(text)
        cells.append(values)
    arrays = [_column(values) for values in cells]
    return CellTable(pa.Table.from_arrays(arrays, names=names), notes)


def _column(cells: Sequence[Any]) -> pa.Array:
    """Return cells in their type, None where one is missing; text where there are several types."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if all(issubclass(kind, int | float) and kind is not bool for kind in kinds):
        return _numbers([None if cell is None else float(cell) for cell in cells])
    if kinds == {bool}:
        return pa.array(cells, pa.bool_())
    if all(issubclass(kind, datetime.date) for kind in kinds):
        return pa.array(map(_moment, cells), pa.timestamp("us"))
    return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())


def _numbers(values: Sequence[float | None]) -> pa.Array:
    """Return numbers, as whole ones where all are."""
    whole = all(value is None or (value.is_integer() and abs(value) < 2**53) for value in values)
    if whole and any(value is not None for value in values):
        return pa.array([None if v is None else int(v) for v in values], pa.int64())
    return pa.array(values, pa.float64(), from_pandas=True)


def _moment(cell: datetime.date | None) -> datetime.datetime | None:
    if cell is None or isinstance(cell, datetime.datetime):
        return cell
    return datetime.datetime.combine(cell, datetime.time())


def _text(cell: Any) -> str:
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def _statistics(url: str, path: str, end: str) -> CellTable:
    what = {".dta": "Stata", ".sas7bdat": "SAS", ".xpt": "SAS"}.get(end, "SPSS")
    import pyreadstat

    reader: Callable[..., Any] = getattr(pyreadstat, _READERS[end])
    options: dict[str, Any] = {"output_format": "dict"}
    if file_options().encoding and end != ".xpt":
        options["encoding"] = file_options().encoding
    try:
        cells, meta = reader(path, **options)
        ranges = _missing_ranges(reader, path, end, options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise cannot_read(url, f"it is damaged or no {what} file ({error})") from error
    labels: Mapping[str, Mapping[Any, str]] = getattr(meta, "variable_value_labels", {}) or {}
    arrays, named = [], []
    for name in meta.column_names:
        values = [
            None if cell is None or cell == "" or cell != cell else cell
            for cell in np.asarray(cells[name], object).tolist()
        ]
        categories = _labelled(values, labels.get(name, {}))
        if categories is not None:
            n, of = (len({*cells_of} - {None}) for cells_of in (categories.to_pylist(), values))
            named.append(name if n == of else f"{name} ({n} labels of {of} values)")
        arrays.append(_column(values) if categories is None else categories)
    notes = []
    rows = pa.Table.from_arrays(arrays, names=list(meta.column_names))
    if skip := file_options().skip_rows:
        rows = rows.slice(skip)
        notes.append(f"its first {skip} rows are not read")
    if named:
        notes.append(f"value labels are the categories of {_listed(named)}")
    if ranges:
        notes.append(
            f"values that the file calls missing are missing cells of {_listed(list(ranges))}"
        )
    return CellTable(rows, notes)


def _missing_ranges(
    reader: Callable[..., Any], path: str, end: str, options: dict[str, Any]
) -> Mapping[str, Any]:
    """Return the variables of an SPSS file with values that it calls missing."""
    if end not in (".sav", ".zsav"):
        return {}
    _, meta = reader(path, metadataonly=True, user_missing=True, **options)
    ranges: Mapping[str, Any] = meta.missing_ranges
    return ranges


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _labelled(cells: Sequence[Any], labels: Mapping[Any, str]) -> pa.Array | None:
    """Return categories in the order of their values; None where some value has no label."""
    present = {cell for cell in cells if cell is not None}
    known = {key: str(text).strip() for key, text in labels.items()}
    if not present or not present <= set(known):
        return None
    order = sorted(key for key in known if key in present or not isinstance(key, str))
    names = list(dict.fromkeys(known[key] for key in order))
    code_of = {key: names.index(known[key]) for key in order}
    codes = pa.array([None if cell is None else code_of[cell] for cell in cells], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string()), ordered=True)
