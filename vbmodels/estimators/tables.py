"""Tables in whatever form they come: pandas, polars, Arrow, NumPy, and back to the same.

No library of tables is imported. A table is read through the few methods that these have in
common, and a new one is made by the class of the one that was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
            found: list[Any] = getattr(column, call)()
            return found
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


def cells_at(table: Any, place: int) -> list[Any]:
    """Return one column by its place as Python objects, None where a cell is missing."""
    if is_arrow(table):
        cells = table.column(place).to_pylist()
    elif hasattr(table, "iloc"):
        cells = table.iloc[:, place].to_list()
    else:
        cells = table[labels_of(table)[place]].to_list()
    return [None if is_missing(cell) else cell for cell in cells]


def objects_of(table: Any) -> Any:
    """Return a table's cells as an array of objects [N, D], None where one is missing."""
    columns = [cells_at(table, place) for place in range(len(labels_of(table)))]
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


def like(given: Any, columns: Mapping[str, Any], rows: bool = True, labels: Any = None) -> Any:
    """Return columns as a table of the kind of ``given``.

    Parameters
    ----------
    given
        What was passed in: its class makes the result. For an array (or a list) the columns
        are stacked where they are all numbers of one kind, and are else the fields of a
        structured array.
    columns
        The columns by name, all of one length.
    rows
        Whether the result's rows are those of ``given``, so that pandas keeps their index.
    labels
        Names of a table's columns in place of those in ``columns``; see `labels_of`.

    Examples
    --------
    >>> like(np.zeros((2, 1)), {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 0.5])})
    array([[1. , 0.5],
           [2. , 0.5]])
    """
    if hasattr(given, "to_native"):  # narwhals, whose tables are made by name of their library
        made = type(given).from_dict(dict(columns), backend=given.implementation)
        return made if labels is None else made.rename(dict(zip(columns, labels, strict=True)))
    if is_arrow(given):
        made = type(given).from_pydict(dict(columns))
        return made if labels is None else made.rename_columns(labels)
    if is_frame(given):
        made = type(given)(dict(columns))
        if rows and hasattr(given, "index") and hasattr(made, "index"):
            made.index = given.index
        if labels is not None:
            made.columns = labels
        return made
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    kinds = {array.dtype for array in arrays.values()}
    if len(kinds) == 1 and next(iter(kinds)).kind == "f":
        return np.column_stack(list(arrays.values()))
    fields = np.dtype([(name, array.dtype) for name, array in arrays.items()])
    result = np.empty(len(next(iter(arrays.values()))), fields)
    for name, array in arrays.items():
        result[name] = array
    return result


@dataclass(frozen=True)
class Renamed:
    """Some columns of a table under other names, as `vbmodels.estimators.tables` reads one.

    Attributes
    ----------
    table
        The table as it was given.
    places
        The place of each column in it, by the name that it has here.
    """

    table: Any
    places: dict[str, int]

    @property
    def columns(self) -> list[str]:
        """The names here."""
        return list(self.places)

    def __getitem__(self, name: str) -> _Cells:
        return _Cells(self.table, self.places[name])


@dataclass(frozen=True)
class _Cells:
    table: Any
    place: int

    def to_list(self) -> list[Any]:
        return cells_at(self.table, self.place)


def by_our_names(
    table: Any,
    columns: Mapping[str, Any] | None,
    known: Sequence[str],
    absent: Sequence[str] = (),
    several: str = "",
) -> Any:
    """Return a table by our names for its columns.

    Parameters
    ----------
    table
        A table; anything else is returned as it is.
    columns
        The user's name of each of our columns that is called otherwise.
    known
        Our names.
    absent
        Those whose columns may be absent.
    several
        One of ours that may be several columns: a list of names, or a pattern such as ``f*``. They
        keep their names, and columns that nobody named are left out.

    Raises
    ------
    ValueError
        If ``columns`` names what we do not know, or the table has no such column.

    Examples
    --------
    >>> from vbmodels.estimators.tables import cells_of
    >>> import numpy as np
    >>> class Frame(dict):
    ...     columns = property(list)
    >>> class Cells(list):
    ...     to_list = list.copy
    >>> table = Frame(patient=Cells("ab"), f1=Cells([1.0, 2.0]), other=Cells([0, 0]))
    >>> ours = by_our_names(
    ...     table, {"bag_id": "patient", "features": "f*"}, ["bag_id", "features"], (), "features"
    ... )
    >>> ours.columns, cells_of(ours, "bag_id")
    (['bag_id', 'f1'], ['a', 'b'])
    """
    if columns is None:
        return table
    odd = [name for name in columns if name not in known]
    if odd:
        raise ValueError(f"columns: expected names out of {', '.join(known)}, found {odd[0]!r}")
    if not is_frame(table):
        return table
    names = names_of(table)
    places: dict[str, int] = {}
    gone: set[str] = set(columns)
    wide: list[str] = []
    for ours, theirs in columns.items():
        if ours == several and (not isinstance(theirs, str) or "*" in theirs or "?" in theirs):
            wide = _matched(ours, theirs, names)
        elif str(theirs) in names:
            places[ours] = names.index(str(theirs))
            gone.add(str(theirs))
        elif ours not in absent:
            raise ValueError(
                f"expected a column {str(theirs)!r} for {ours}, found {', '.join(names[:20])}"
            )
    others = [n for n in names if n not in gone and (n in known or not wide)]
    for name in (*others, *wide):
        places.setdefault(name, names.index(name))
    return Renamed(table, places)


def _matched(ours: str, theirs: Any, names: Sequence[str]) -> list[str]:
    """Return the columns of a pattern, or of a list of names."""
    if isinstance(theirs, str):
        found = [name for name in names if fnmatchcase(name, theirs)]
        missing = [] if found else [theirs]
    else:
        found = [str(name) for name in theirs]
        missing = [name for name in found if name not in names]
    if missing:
        raise ValueError(
            f"expected columns {missing[0]!r} for {ours}, found {', '.join(names[:20])}"
        )
    return found
