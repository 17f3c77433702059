"""Names that must be unique: over the slabs of a file, and over files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from flows.data.row_faults import row_faults
from flows.faults import Fault


def repeated_names(
    names: Sequence[Sequence[str]], file: str, column: str, remedy: str
) -> list[Fault]:
    """List the rows whose name stands in an earlier slab of the file.

    Parameters
    ----------
    names
        The names of the rows of every slab; empty ones are not compared.
    """
    again = seen_before(names)
    at = Places(names)
    return row_faults(
        list(again),
        lambda row: Fault(
            file=file,
            column=column,
            expected="a name used once",
            found=f"{at.name(row)!r}, which row {again[row] + 1} has too",
            row=row + 1,
            remedy=remedy,
        ),
    )


class Places:
    """Names of several lists, found by their place in all of them."""

    def __init__(self, names: Sequence[Sequence[str]]) -> None:
        self._names = names
        self.starts = np.cumsum([0, *map(len, names)])

    def of(self, place: int) -> tuple[int, int]:
        """Return (number of the list, place in it)."""
        number = int(np.searchsorted(self.starts, place, side="right")) - 1
        return number, place - int(self.starts[number])

    def name(self, place: int) -> str:
        """Return a name."""
        number, row = self.of(place)
        return self._names[number][row]


def seen_before(names: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the places of names that stand in an earlier list, with their first place.

    No table of all names is made: their hashes are sorted, and only names with equal ones are
    compared. Empty names are not.
    """
    if len(names) < 2:
        return {}
    at = Places(names)
    every = itertools.chain.from_iterable(names)
    prints = np.fromiter(map(hash, every), np.int64, int(at.starts[-1]))
    order = np.argsort(prints, kind="stable")
    same = np.flatnonzero(prints[order][1:] == prints[order][:-1])
    first: dict[str, int] = {}
    again = {}
    for place in np.unique(np.concatenate([order[same], order[same + 1]])).tolist():
        name = at.name(place)
        before = first.setdefault(name, place)
        if name and at.of(before)[0] != at.of(place)[0]:
            again[place] = before
    return again


def shared_names(names: Mapping[str, Sequence[str]]) -> list[Fault]:
    """List the names that stand in more than one file.

    Parameters
    ----------
    names
        File to its names, each once.
    """
    files = sorted(names)
    lists = [names[file] for file in files]
    again = seen_before(lists)
    at = Places(lists)
    rows: dict[int, list[int]] = {}
    for place in again:
        rows.setdefault(at.of(place)[0], []).append(place)
    return [
        fault
        for number, places in rows.items()
        for fault in row_faults(
            places,
            lambda place, file=files[number]: Fault(
                file=file,
                column="doc_id",
                expected="a name used once over all files",
                found=f"{at.name(place)!r}, which {files[at.of(again[place])[0]]} has too",
                row=at.of(place)[1] + 1,
                remedy="give every document its own name",
            ),
        )
    ]
