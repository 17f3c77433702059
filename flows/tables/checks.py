"""Whether rows are what a table declares: every fault with its row, added up over partitions.

What only one family knows of its rows it looks for itself, in the rows that a `Checker` hands on,
and reports in the same place (`Checker.faults`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, shown
from flows.tables import reading
from flows.tables.cells import as_it_comes, cast, decoded, is_text, of_codes, words_for
from flows.tables.names import option, row_of, seen_before
from flows.tables.table import Column, Table
from vbmodels.core.state import BoolArray, FloatArray, IntArray

EXACT = 2**53  # below it a float differs from its neighbours by less than one

Wording = str | Callable[..., str]
"""A part of a sentence: the same for all rows, or made from the number of one."""


def broken_rules(
    cells: pa.ChunkedArray, column: Column
) -> Iterator[tuple[BoolArray, str, Wording, str | None]]:
    """Yield which cells break each rule for single values, and how that is said."""
    present = np.asarray(cells.is_valid())

    def shown(row: int) -> str:
        return str(cells[row].as_py())

    if column.values:
        listed = ", ".join(f"{value:g}" for value in column.values)
        expected = f"{listed} or null" if column.nullable else listed
        yield present & ~np.isin(_floats(cells), column.values), expected, shown, column.remedy
    elif column.finite and not pa.types.is_list(column.arrow):
        numbers = _floats(cells)
        yield (
            ~np.isfinite(numbers) & (present | (not column.nullable)),
            "a finite number",
            lambda row: str(numbers[row]) if present[row] else "null",
            "fill the cell or leave the row out",
        )
    elif not (column.nullable or column.names):
        yield ~present, "a value", "null", None
    if column.bounds and present.any():
        number = pc.fill_null(cells, 0).to_numpy()
        for bound in column.bounds:
            low = bound.least is not None and number < bound.least
            high = bound.most is not None and number > bound.most
            yield present & (low | high), bound.words, shown, bound.remedy
    if of_codes(column) and pa.types.is_floating(cells.type):
        codes = cells.to_numpy().astype(np.float64)
        sound = np.isfinite(codes) & (codes == np.floor(codes)) & (np.abs(codes) < EXACT)
        yield (
            ~np.isnan(codes) & ~sound,
            "whole numbers as codes of categories, below 2**53",
            lambda row: f"{codes[row]:g}",
            "cut the column into classes or leave it out",
        )


def _floats(cells: pa.ChunkedArray) -> FloatArray:
    return np.asarray(pc.cast(cells, pa.float64(), safe=False).to_numpy(), np.float64)


MAX_ROWS = 20
"""Rows named for one kind of fault in one column; the rest is counted in one more sentence."""


@dataclass(frozen=True)
class Kind:
    """Faults of one kind in rows of a file; the sum of two is that of both.

    Attributes
    ----------
    faults
        The first ones, by row.
    more
        How many there are beyond these.
    most
        How many are named.
    rest
        How the others are said: in a sentence of their own, as cells in the first one's, or not at
        all, as they say the same.
    """

    faults: list[Fault]
    more: int = 0
    most: int = MAX_ROWS
    rest: Literal["rows", "cells", "none"] = "rows"

    def __add__(self, other: Kind) -> Kind:
        most = max(self.most, other.most)
        faults = sorted([*self.faults, *other.faults], key=lambda fault: fault.row or 0)
        more = self.more + other.more + len(faults[most:])
        return Kind(faults[:most], more, most, self.rest)

    def listed(self) -> list[Fault]:
        """List them, and how many there are more."""
        if not self.more or self.rest == "none":
            return self.faults
        first = self.faults[0]
        if self.rest == "rows":
            others = replace(first, found=f"the same in {self.more} more rows", row=None)
            return [*self.faults, others]
        return [replace(first, found=f"{first.found} and {self.more:,} more such cells")]


Kinds = dict[str, Kind]
"""Faults by what sets their kind apart."""


def add_up(parts: Iterable[Kinds]) -> Kinds:
    """Add the faults in several parts of a file."""
    total: Kinds = {}
    for part in parts:
        for name, kind in part.items():
            total[name] = total[name] + kind if name in total else kind
    return total


def faults_of(kinds: Kinds) -> tuple[Fault, ...]:
    """List faults, kind by kind."""
    return tuple(fault for kind in kinds.values() for fault in kind.listed())


class FileFaults:
    """Faults in rows of a file: of each kind the first ones, and how many.

    Attributes
    ----------
    file
        Its name, for messages.
    rows_of
        Numbers of the rows in the file, from 0, or only that of the first.
    called
        What the file calls columns otherwise.
    kinds
        The faults.
    """

    def __init__(
        self, file: str, rows_of: int | IntArray = 0, called: Mapping[str, str] | None = None
    ) -> None:
        self.file, self.rows_of, self.called = file, rows_of, called or {}
        self.kinds: Kinds = {}

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def number_of(self, row: int) -> int:
        """Return the number in the file, from 1, of a row, which counts from 0."""
        return 1 + int(self.rows_of + row if isinstance(self.rows_of, int) else self.rows_of[row])

    def add(self, *faults: Fault) -> None:
        """Keep faults of the whole file or column, each once."""
        for fault in faults:
            name = self.called.get(fault.column or "", fault.column)
            self.kinds.setdefault(
                repr(replace(fault, row=None)), Kind([replace(fault, column=name)], 0, 1, "none")
            )

    def add_rows(
        self,
        rows: Sequence[int] | IntArray,
        column: str | None,
        expected: Wording,
        found: Wording,
        remedy: str | None = None,
        most: int = MAX_ROWS,
        count: int | None = None,
        rest: Literal["rows", "cells"] = "rows",
    ) -> None:
        """Keep one fault of each of the first rows, which count from 0.

        ``count``: of such rows, where these are the first alone.
        """
        if not len(rows):
            return
        name = repr((column, expected if isinstance(expected, str) else None, remedy))
        faults = [
            Fault(
                self.file,
                _words_of(expected, row),
                _words_of(found, row),
                self.called.get(column or "", column),
                self.number_of(row),
                remedy,
            )
            for row in map(int, rows[:most])
        ]
        more = (len(rows) if count is None else count) - len(faults)
        self.kinds = add_up([self.kinds, {name: Kind(faults, more, most, rest)}])

    def listed(self) -> tuple[Fault, ...]:
        """List them, kind by kind."""
        return faults_of(self.kinds)


def _words_of(wording: Wording, row: int) -> str:
    return wording if isinstance(wording, str) else wording(row)


class Checker:
    """Reads rows of a file as a declared table and gathers what is wrong.

    Attributes
    ----------
    faults
        Those so far.
    rows
        The number of rows.
    columns
        The names of the file's columns.
    names
        The names of the rows.
    numbers
        What columns of text hold that are read as numbers.
    """

    def __init__(self, table: Table, file: str, rows_of: int | IntArray = 0) -> None:
        """Begin with a file.

        Parameters
        ----------
        table, file
            What the file is to be, and its name.
        rows_of
            Numbers of the rows in the file, from 0, or only that of the first.
        """
        self.table = table
        self.faults = FileFaults(file, rows_of, table.called)
        self.rows = 0
        self.columns: tuple[str, ...] = ()
        self.separator = ""  # of columns, in a file of text
        self.names: list[str] = []
        self.numbers = reading.SeenNumbers()  # in columns of text
        self._theirs: tuple[str, ...] = ()  # the names of its columns as the file has them

    @property
    def named(self) -> bool:
        """Whether the file names its rows."""
        return self.table.id is not None and self.table.id.name in self.columns

    @property
    def where(self) -> Callable[[int], str]:
        """Says where a row is."""
        return row_of(self.faults.file, self.faults.rows_of)

    def read_header(self, header: pa.Table, rows: int) -> None:
        """Check what a file's footer says.

        ``header``: its columns, without rows. ``rows``: the number of its rows.
        """
        self.rows = rows
        parsed = self._parse_cells(header)
        if parsed is not None:
            self._head(parsed[0])
        if not rows:
            self.faults.add(
                Fault(
                    self.faults.file,
                    f"at least one {self.table.row}",
                    "0 rows",
                    remedy="leave the file out or fill it",
                )
            )

    def read(self, rows: pa.Table) -> pa.Table:
        """Check rows; return their columns as they are declared.

        Columns that cannot be read are left out, and values that are not allowed are null.
        """
        self.rows = rows.num_rows
        parsed = self._parse_cells(rows)
        if parsed is None:
            return pa.table({})
        cells, misspelt = parsed
        return self._read(cells, self._head(cells) | misspelt)

    def _head(self, rows: pa.Table) -> set[str | None]:
        """Report columns that are missing or cannot be read; return the latter."""
        faults = reading.faults(self.table, rows.schema, self.faults.file, self._theirs)
        self.faults.add(*faults)
        self.columns = tuple(rows.column_names)
        return {fault.column for fault in faults}

    def _parse_cells(self, rows: pa.Table) -> tuple[pa.Table, set[str | None]] | None:
        """Read a file's columns, and cells of text as the values they denote; report others.

        None where columns cannot be put together.
        """
        self.separator = reading.separator_of(rows.schema)
        self._theirs = tuple(rows.column_names)
        self.numbers.where = self.where
        try:
            rows = reading.given(self.table, rows, self.numbers)
        except reading.UnreadableCells as error:
            self._unreadable(error)
            return None
        read, wrong = reading.parse_text_columns(self.table, rows)
        for name, cells in wrong.items():
            self.faults.add_rows(
                np.flatnonzero(cells),
                name,
                words_for(read[name].type, self.table.separator),
                lambda row, name=name: shown(rows[name][row].as_py()),
                self.table.declared([name])[name].remedy,
            )
        return read, set(wrong)

    def _unreadable(self, error: reading.UnreadableCells) -> None:
        """Report cells of a column of numbers that are none."""
        expected, remedy = error.expected, "correct these cells, or name them as missing"
        remedy += " (--set missing=WORD)"
        if not error.is_label:
            remedy += f", or leave the column out ({option('--exclude', error.column)})"
        if error.other:
            sign = {",": "point", ".": "comma"}[error.other]
            expected += f", with a decimal {sign} as in the first rows"
            remedy = f"write a column's numbers in one way, or --set decimal={error.other}"
        cell, count = shown(error.cell), error.count
        self.faults.add_rows([error.row], error.column, expected, cell, remedy, 1, count, "cells")

    def _read(self, rows: pa.Table, wrong: set[str | None]) -> pa.Table:
        read: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, column in self.table.declared(rows.column_names).items():
            if name in wrong or self._broken(rows[name], name):
                continue
            cells = rows[name] if as_it_comes(column) else decoded(rows[name])
            sound = self._allowed(cells, column, name)
            try:
                read[name] = cast(sound, column)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                found = f"{rows[name].type}: {str(error).splitlines()[0]}"
                self.faults.add(Fault(self.faults.file, f"type {column.arrow}", found, name))
                continue
            self._filled(read[name], column, name)
        self._require_one_of(read)
        for name in read:
            self._lengths(read, name)
        return pa.table(read)

    def _broken(self, column: pa.ChunkedArray, name: str) -> bool:
        """Report text that is no UTF-8 (Arrow does not check it when a file is read)."""
        if not _holds_text(column.type):
            return False
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            rows = [row for row in range(len(column)) if not _readable(column, row)]
            self.faults.add_rows(
                rows, name, "text in UTF-8", "bytes that are none", "write the file again in UTF-8"
            )
            return bool(rows)
        return False

    def _allowed(self, cells: pa.ChunkedArray, column: Column, name: str) -> pa.ChunkedArray:
        """Report values that the column may not have; return the others."""
        refused = np.zeros(len(cells), bool)
        for wrong, expected, found, remedy in broken_rules(cells, column):
            rows = np.flatnonzero(wrong)
            # Of a column of measurements one row says as much as twenty.
            measured = of_codes(column) and 2 * len(rows) > max(len(cells), 2 * MAX_ROWS)
            most = 1 if measured else MAX_ROWS
            self.faults.add_rows(rows, name, expected, found, remedy, most)
            refused |= wrong
        if not refused.any():
            return cells
        return pc.if_else(pa.array(~refused), cells, pa.scalar(None, cells.type))

    def _filled(self, cells: pa.Array, column: Column, name: str) -> None:
        """Report names that are missing, and of gaps in lists."""
        if column.names:
            empty = np.flatnonzero(pc.equal(pc.fill_null(cells, ""), ""))
            self.faults.add_rows(
                empty,
                name,
                f"the name of a {column.names}",
                lambda row: "an empty text" if cells[row].is_valid else "null",
                f"give every {column.names} a name",
            )
            if column.unique:
                self.names = pc.fill_null(cells, "").to_pylist()
        if pa.types.is_list(column.arrow):
            if column.finite:
                self._finite(cells, column, name)
            else:
                wrong = np.asarray(pc.is_null(cells.flatten()))
                rows = np.unique(np.asarray(pc.list_parent_indices(cells))[wrong])
                self.faults.add_rows(
                    rows,
                    name,
                    "a list without nulls",
                    lambda row: f"a null at place {cells[row].as_py().index(None) + 1}",
                    "leave the null out or fill it",
                )

    def _finite(self, cells: pa.ListArray, column: Column, name: str) -> None:
        """Report lists with a number that is missing, not finite or too large."""
        largest = np.inf if column.largest is None else column.largest
        values = cells.flatten().to_numpy(zero_copy_only=False)
        wrong = ~((np.abs(values) <= largest) & np.isfinite(values))
        parents = np.asarray(pc.list_parent_indices(cells))
        has_number = np.zeros(len(cells), bool)
        if column.gaps:
            has_number = np.bincount(parents[~np.isnan(values)], minlength=len(cells)) > 0
            wrong &= ~np.isnan(values) | ~has_number[parents]
        places = np.flatnonzero(wrong)
        rows, first = np.unique(parents[places], return_index=True)
        first_wrong = dict(zip(rows.tolist(), places[first].tolist(), strict=True))
        starts = np.searchsorted(parents, rows)
        start = dict(zip(rows.tolist(), starts.tolist(), strict=True))
        entries = cells.flatten()

        def expected(row: int) -> str:
            if np.isfinite(values[first_wrong[row]]):
                return f"numbers of at most {largest:g} in size"
            return "finite numbers"

        def found(row: int) -> str:
            entry = entries[first_wrong[row]].as_py()
            text = "null" if entry is None else str(entry).replace("nan", "NaN")
            return f"{text} at place {first_wrong[row] - start[row] + 1}"

        remedy = "fill the gap, rescale the numbers or leave the row out"
        self.faults.add_rows(rows, name, expected, found, remedy)

    def _require_one_of(self, read: Mapping[str, pa.Array]) -> None:
        """Report rows that have none of two columns."""
        either = self.table.either
        there = [name for name in either.columns if name in read] if either else []
        if either and there:
            missing = np.all([np.asarray(read[name].is_null()) for name in there], axis=0)
            self.faults.add_rows(
                np.flatnonzero(missing),
                there[0],
                f"a {' or '.join(either.columns)}",
                "null",
                either.fill,
            )

    def _lengths(self, read: Mapping[str, pa.Array], name: str) -> None:
        """Report lists whose length differs from that of the list they go with."""
        other = self.table.declared([name])[name].as_long_as
        if not other or other not in read:
            return
        lengths, wanted = (lengths_of(read[column]) for column in (name, other))
        self.faults.add_rows(
            np.flatnonzero((lengths >= 0) & (lengths != wanted)),
            name,
            lambda row: f"{max(wanted[row], 0)} entries, one for each of the {other}",
            lambda row: str(lengths[row]),
            f"give each {other.removesuffix('s')} its {name}, or leave the list null",
        )


def repeated_names(table: Table, file: str, names: Sequence[str]) -> list[Fault]:
    """List the names that rows of a file share.

    Where names are a column like the others, say once that it is none.
    """
    again = seen_before(names)
    if table.id is None or not again:
        return []
    faults, column = FileFaults(file, called=table.called), table.id.name
    if table.others is None:
        faults.add_rows(
            list(again),
            column,
            "a name used once",
            lambda row: f"{names[row]!r}, which row {again[row] + 1} has too",
            f"give every {table.row} its own name",
        )
        return [*faults.listed()]
    later, before = min(again.items())
    theirs = table.called.get(column, column)
    more = f", and {len(again) - 1:,} more that repeat" if len(again) > 1 else ""
    return [
        Fault(
            file,
            f"a name of its own for every {table.row}",
            f"{names[later]!r} in rows {before + 1} and {later + 1}{more}",
            theirs,
            remedy=f"if it names no {table.row}, leave it out ({option('--exclude', theirs)})",
        )
    ]


def lengths_of(lists: pa.ListArray) -> IntArray:
    """Return the length of each list, -1 for null."""
    lengths = pc.fill_null(pc.list_value_length(lists), -1)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _holds_text(kind: pa.DataType) -> bool:
    value_type = getattr(kind, "value_type", None)
    return is_text(kind) or (value_type is not None and _holds_text(value_type))


def _readable(column: pa.ChunkedArray, row: int) -> bool:
    try:
        column[row].as_py()
    except UnicodeDecodeError:
        return False
    return True
