"""Tables read by our names for their columns, which the user may call otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from vbmodels.estimators.base import parameter
from vbmodels.estimators.tables import cells_at, is_frame, names_of


@dataclass(eq=False, repr=False)
class NamedColumns:
    """The parameter ``columns`` of estimators that look for columns of certain names."""

    columns: Any = parameter(
        None,
        [dict, None],
        'Your names of a table\'s columns, by ours: ``{"bag_id": "patient"}``; of bags\' '
        "``features`` also a list of columns or a pattern such as ``f*``.",
    )


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
