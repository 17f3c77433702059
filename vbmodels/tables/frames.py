"""Tables in whatever form they come: pandas, polars, Arrow, NumPy, and back to the same.

No library of tables is imported. A table is read through the few methods that these have in
common, and a new one is made by the class of the one that was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_MISSING = ("NAType", "NaTType")


def is_arrow(table: Any) -> bool:
    """Say whether this is an Arrow table."""
    return hasattr(table, "column_names") and hasattr(table, "itercolumns")


def is_frame(table: Any) -> bool:
    """Say whether this is a table with named columns.

    Raises
    ------
    TypeError
        If its rows are not in memory: a lazy frame, or one of a cluster.
    """
    for call in ("collect", "compute"):
        if hasattr(table, call):
            kind = f"{type(table).__module__.partition('.')[0]} {type(table).__name__}"
            raise TypeError(
                f"expected a table in memory, found a {kind}: call .{call}() on it first"
            )
    return is_arrow(table) or (hasattr(table, "columns") and hasattr(table, "__getitem__"))


def native(table: Any) -> Any:
    """Return the table that narwhals holds; anything else as it is."""
    return table.to_native() if hasattr(table, "to_native") else table


def values_of(column: Any) -> list[Any]:
    """Return a column by itself as a list: an array, a list, or a Series or column of a library.

    Examples
    --------
    >>> values_of(np.arange(2)), values_of(("a", "b"))
    ([np.int64(0), np.int64(1)], ['a', 'b'])
    """
    for call in ("to_pylist", "to_list"):
        if hasattr(column, call):
            values: list[Any] = getattr(column, call)()
            return values
    return list(column)


def names_of(table: Any) -> list[str]:
    """Return the names of the columns as text."""
    return [str(name) for name in labels_of(table)]


def labels_of(table: Any) -> Any:
    """Return the names of the columns as the table has them: pandas takes numbers too."""
    return table.column_names if is_arrow(table) else table.columns


def cells_of(table: Any, name: str) -> list[Any]:
    """Return the column of this name, as text, as Python objects, None where one is missing."""
    return cells_at(table, names_of(table).index(name))


def cells_at(table: Any, position: int) -> list[Any]:
    """Return one column by its place as Python objects, None where a cell is missing."""
    if is_arrow(table):
        cells = table.column(position).to_pylist()
    elif hasattr(table, "iloc"):
        cells = table.iloc[:, position].to_list()
    else:
        cells = table[labels_of(table)[position]].to_list()
    return [None if is_missing(cell) else cell for cell in cells]


def objects_of(table: Any) -> Any:
    """Return a table's cells as an array of objects [N, D], None where one is missing."""
    columns = [cells_at(table, position) for position in range(len(labels_of(table)))]
    result = np.empty((len(columns[0]) if columns else 0, len(columns)), object)
    for d, cells in enumerate(columns):
        for n, cell in enumerate(cells):
            result[n, d] = cell
    return result


def is_missing(cell: Any) -> bool:
    """Say whether a cell is None, NaN or pandas' NA.

    Examples
    --------
    >>> [is_missing(cell) for cell in (None, float("nan"), 0, "", "nan")]
    [True, True, False, False, False]
    """
    if cell is None or type(cell).__name__ in _MISSING:
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def text_of(cell: Any) -> str:
    """Return a category as text: 1, 1.0 and "1" are one, True is "true".

    >>> [text_of(cell) for cell in (1, 1.0, "1", True, 0.5)]
    ['1', '1', '1', 'true', '0.5']
    """
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def numbers_of(table: Any, names: Sequence[str]) -> np.ndarray:
    """Return columns as an array [N, D]; a missing cell is NaN.

    Raises
    ------
    ValueError
        If a column holds something else than numbers.
    """
    columns = []
    for name in names:
        cells = [np.nan if cell is None else cell for cell in cells_of(table, name)]
        try:
            columns.append(np.array(cells, np.float64))
        except (TypeError, ValueError):
            odd = next(c for c in cells if not isinstance(c, int | float | np.number))
            raise ValueError(f"expected numbers in the column {name!r}, found {odd!r}") from None
    rows = len(cells_of(table, names_of(table)[0])) if not columns else len(columns[0])
    return np.column_stack(columns) if columns else np.empty((rows, 0))


def as_matrix(table: Any) -> Any:
    """Return an Arrow table as its columns side by side, anything else as it is.

    Numbers stay numbers; with text among them the cells are objects.
    """
    if not is_arrow(table):
        return table
    names = table.column_names
    try:
        return numbers_of(table, names)
    except ValueError:
        return objects_of(table)


def like(template: Any, columns: Mapping[str, Any], rows: bool = True, labels: Any = None) -> Any:
    """Return columns as a table of the kind of ``template``.

    Parameters
    ----------
    template
        What was passed in: its class makes the result. For an array (or a list) the columns
        are stacked where they are all numbers of one kind, and are else the fields of a
        structured array.
    columns
        The columns by name, all of one length.
    rows
        Whether the result's rows are those of ``template``, so that pandas keeps their index.
    labels
        Names of a table's columns in place of those in ``columns``; see `labels_of`.

    Examples
    --------
    >>> like(np.zeros((2, 1)), {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 0.5])})
    array([[1. , 0.5],
           [2. , 0.5]])
    """
    if hasattr(template, "to_native"):  # narwhals, whose tables are made by name of their library
        table = type(template).from_dict(dict(columns), backend=template.implementation)
        return table if labels is None else table.rename(dict(zip(columns, labels, strict=True)))
    if is_arrow(template):
        table = type(template).from_pydict(dict(columns))
        return table if labels is None else table.rename_columns(labels)
    if is_frame(template):
        table = type(template)(dict(columns))
        if rows and hasattr(template, "index") and hasattr(table, "index"):
            table.index = template.index
        if labels is not None:
            table.columns = labels
        return table
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    kinds = {array.dtype for array in arrays.values()}
    if len(kinds) == 1 and next(iter(kinds)).kind == "f":
        return np.column_stack(list(arrays.values()))
    fields = np.dtype([(name, array.dtype) for name, array in arrays.items()])
    result = np.empty(len(next(iter(arrays.values()))), fields)
    for name, array in arrays.items():
        result[name] = array
    return result
