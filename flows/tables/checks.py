"""Whether files are what a table declares: read slab by slab, every fault with its row.

What only one family knows of its rows it looks for itself, in the chunks that a `Checker` hands
on, and reports in the same place (`Checker.found`)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, InputError, shown
from flows.tables import reading
from flows.tables.cells import as_it_comes, cast, decoded, is_text, of_codes, words_for
from flows.tables.names import Places, digests_of, row_of, seen_before
from flows.tables.table import Column, Table
from vbmodels.core.state import BoolArray, FloatArray, IntArray

EXACT = 2**53  # below it a float differs from its neighbours by less than one

Said = str | Callable[..., str]
"""A part of a sentence: the same for all rows, or made from the number of one."""


def broken_rules(
    cells: pa.ChunkedArray, column: Column
) -> Iterator[tuple[BoolArray, str, Said, str | None]]:
    """Yield which cells break each rule for single values, and how that is said."""
    given = np.asarray(cells.is_valid())

    def shown(row: int) -> str:
        return str(cells[row].as_py())

    if column.values:
        listed = ", ".join(f"{value:g}" for value in column.values)
        expected = f"{listed} or null" if column.nullable else listed
        yield given & ~np.isin(_floats(cells), column.values), expected, shown, column.remedy
    elif column.finite and not pa.types.is_list(column.arrow):
        numbers = _floats(cells)
        yield (
            ~np.isfinite(numbers) & (given | (not column.nullable)),
            "a finite number",
            lambda row: str(numbers[row]) if given[row] else "null",
            "fill the cell or leave the row out",
        )
    elif not (column.nullable or column.names):
        yield ~given, "a value", "null", None
    if column.bounds and given.any():
        number = pc.fill_null(cells, 0).to_numpy()
        for bound in column.bounds:
            low = bound.least is not None and number < bound.least
            high = bound.most is not None and number > bound.most
            yield given & (low | high), bound.words, shown, bound.remedy
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


class Found:
    """The faults of one file, gathered slab by slab: of each kind the first rows, and how many.

    ``file``: its name, for messages.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.first = 0  # row of the file at which the rows being read begin
        self.called: Mapping[str, str] = {}  # what the file calls columns otherwise
        self._kinds: dict[Hashable, list[Fault]] = {}
        self._more: Counter[Hashable] = Counter()

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def add(self, *faults: Fault) -> None:
        """Keep faults of the whole file or column, each once."""
        for fault in faults:
            self._kinds.setdefault(fault, [fault])

    def rows(
        self,
        rows: Sequence[int] | IntArray,
        column: str | None,
        expected: Said,
        found: Said,
        remedy: str | None = None,
        most: int = MAX_ROWS,
    ) -> None:
        """Keep one fault of each of the first rows, which count from 0 in the present slab."""
        if not len(rows):
            return
        kind = column, expected if isinstance(expected, str) else None, remedy
        kept = self._kinds.setdefault(kind, [])
        new = [int(row) for row in rows[: max(0, most - len(kept))]]
        self._more[kind] += len(rows) - len(new)
        kept += [
            Fault(
                self.file,
                _said(expected, row),
                _said(found, row),
                column,
                self.first + row + 1,
                remedy,
            )
            for row in new
        ]

    def faults(self) -> list[Fault]:
        """List them, kind by kind."""
        listed = []
        for kind, kept in self._kinds.items():
            listed += kept
            if more := self._more[kind]:
                listed.append(replace(kept[0], found=f"the same in {more} more rows", row=None))
        return [
            replace(fault, column=self.called.get(fault.column or "", fault.column))
            for fault in listed
        ]


def _said(part: Said, row: int) -> str:
    return part if isinstance(part, str) else part(row)


class Checker:
    """Reads a file as a declared table and gathers what is wrong.

    Attributes
    ----------
    found
        The faults so far.
    rows
        The number of rows so far.
    columns
        The names of the file's columns, once a slab of it was read.
    numbers
        What columns of text hold that are read as numbers.
    """

    def __init__(self, table: Table, file: str, rows_of: IntArray | None = None) -> None:
        """Begin with a file.

        Parameters
        ----------
        table, file
            What the file is to be, and its name.
        rows_of
            Numbers of the rows in the file, from 0, where these are only some.
        """
        self.table, self.rows_of = table, rows_of
        self.found = Found(file)
        self.found.called = table.called
        self.rows = 0
        self.columns: tuple[str, ...] = ()
        self.separator = ""  # of columns, in a file of text
        self.numbers = reading.SeenNumbers()  # in columns of text
        self._known = False  # whether the names of its columns were looked at
        self._theirs: tuple[str, ...] = ()  # the names of its columns as the file has them
        self._names: list[list[str]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rows; none where something is wrong."""
        return () if self.found else tuple(itertools.chain(*self._names))

    @property
    def digests(self) -> IntArray:
        """The names of the rows as digests."""
        return digests_of(itertools.chain(*self._names))

    @property
    def named(self) -> bool:
        """Whether the file names its rows."""
        return self.table.id is not None and self.table.id.name in self.columns

    @property
    def where(self) -> Callable[[int], str]:
        """Says where a row of the present slab is."""
        return row_of(self.found.file, self.found.first if self.rows_of is None else self.rows_of)

    def refuse(self) -> None:
        """Raise `InputError` where something was found."""
        if self.found:
            raise InputError(self.found.faults())

    def read_header(self, header: pa.Table, rows: int) -> None:
        """Check what a file's footer says.

        ``header``: its columns, without rows. ``rows``: the number of its rows.
        """
        self.rows = rows
        self._head(self._parse_cells(header)[0])
        if not rows:
            self._none()

    def chunks(self, pieces: Iterable[tuple[int, pa.Table]]) -> Iterator[pa.Table]:
        """Check a file given as (first row, rows); yield its columns as they are declared.

        Columns that cannot be read are left out, and values that are not allowed are null.
        """
        wrong: set[str | None] | None = None
        for first, given in pieces:
            self.found.first = first
            self.rows += given.num_rows
            given, misspelt = self._parse_cells(given)
            if wrong is None:
                wrong = self._head(given)
            if given.num_rows:
                read = self._read(given, wrong | misspelt)
                given = None  # of a slab no more is held than is handed on
                yield read
                read = None
        row, found = self.table.row, self.found
        if not self.rows:
            self._none()
        if self.table.id is not None and sum(map(len, self._names)) == self.rows:
            again, at = seen_before(self._names), Places(self._names)
            found.first = 0
            if again and self.table.others is not None:
                self._repeated(again, at)
                return
            found.rows(
                list(again),
                self.table.id.name,
                "a name used once",
                lambda place: f"{at.name(place)!r}, which row {again[place] + 1} has too",
                f"give every {row} its own name",
            )

    def _repeated(self, again: Mapping[int, int], at: Places) -> None:
        """Say once that a column of names is none: it repeats."""
        place, before = min(again.items())
        name = self.table.id.name if self.table.id else ""
        theirs = self.table.called.get(name, name)
        more = f", and {len(again) - 1:,} more that repeat" if len(again) > 1 else ""
        self.found.add(
            Fault(
                self.found.file,
                f"a name of its own for every {self.table.row}",
                f"{at.name(place)!r} in rows {before + 1} and {place + 1}{more}",
                theirs,
                remedy=f"if it names no {self.table.row}, leave it out (--exclude {theirs})",
            )
        )

    def _head(self, given: pa.Table) -> set[str | None]:
        """Report columns that are missing or cannot be read; return the latter."""
        faults = reading.faults(self.table, given.schema, self.found.file, self._theirs)
        self.found.add(*faults)
        self.columns = tuple(given.column_names)
        return {fault.column for fault in faults}

    def _none(self) -> None:
        self.found.add(
            Fault(
                self.found.file,
                f"at least one {self.table.row}",
                "0 rows",
                remedy="leave the file out or fill it",
            )
        )

    def _parse_cells(self, given: pa.Table) -> tuple[pa.Table, set[str | None]]:
        """Read a file's columns, and cells of text as the values they denote; report others."""
        if not self._known:
            self.separator = reading.separator_of(given.schema)
            self._known = True
            self._theirs = tuple(given.column_names)
        try:
            self.numbers.where = self.where
            given = reading.given(self.table, given, self.numbers)
        except reading.UnreadableCells as error:
            more = f" and {error.count - 1:,} more such cells" if error.count > 1 else ""
            expected, remedy = error.expected, "correct these cells, or name them as missing"
            remedy += " (--set missing=WORD)"
            if not error.is_label:
                remedy += f", or leave the column out (--exclude {error.column})"
            if error.other:
                sign = {",": "point", ".": "comma"}[error.other]
                expected += f", with a decimal {sign} as in the first rows"
                remedy = f"write a column's numbers in one way, or --set decimal={error.other}"
            cell = f"{shown(error.cell)}{more}"
            self.found.rows([error.row], error.column, expected, cell, remedy)
            raise InputError(self.found.faults()) from error
        read, wrong = reading.spelt(self.table, given)
        for name, cells in wrong.items():
            self.found.rows(
                np.flatnonzero(cells),
                name,
                words_for(read[name].type, self.table.separator),
                lambda row, name=name: shown(given[name][row].as_py()),
                self.table.declared([name])[name].remedy,
            )
        return read, set(wrong)

    def _read(self, given: pa.Table, wrong: set[str | None]) -> pa.Table:
        read: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, column in self.table.declared(given.column_names).items():
            if name in wrong or self._broken(given[name], name):
                continue
            cells = given[name] if as_it_comes(column) else decoded(given[name])
            sound = self._allowed(cells, column, name)
            try:
                read[name] = cast(sound, column)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                found = f"{given[name].type}: {str(error).splitlines()[0]}"
                self.found.add(Fault(self.found.file, f"type {column.arrow}", found, name))
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
            self.found.rows(
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
            self.found.rows(rows, name, expected, found, remedy, most)
            refused |= wrong
        if not refused.any():
            return cells
        return pc.if_else(pa.array(~refused), cells, pa.scalar(None, cells.type))

    def _filled(self, cells: pa.Array, column: Column, name: str) -> None:
        """Report names that are missing, and of gaps in lists."""
        if column.names:
            empty = np.flatnonzero(pc.equal(pc.fill_null(cells, ""), ""))
            self.found.rows(
                empty,
                name,
                f"the name of a {column.names}",
                lambda row: "an empty text" if cells[row].is_valid else "null",
                f"give every {column.names} a name",
            )
            if column.unique:
                self._names.append(pc.fill_null(cells, "").to_pylist())
        if pa.types.is_list(column.arrow):
            if column.finite:
                self._finite(cells, column, name)
            else:
                wrong = np.asarray(pc.is_null(cells.flatten()))
                rows = np.unique(np.asarray(pc.list_parent_indices(cells))[wrong])
                self.found.rows(
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
        some = np.zeros(len(cells), bool)
        if column.gaps:
            some = np.bincount(parents[~np.isnan(values)], minlength=len(cells)) > 0
            wrong &= ~np.isnan(values) | ~some[parents]
        places = np.flatnonzero(wrong)
        rows, first = np.unique(parents[places], return_index=True)
        place = dict(zip(rows.tolist(), places[first].tolist(), strict=True))
        starts = np.searchsorted(parents, rows)
        start = dict(zip(rows.tolist(), starts.tolist(), strict=True))
        entries = cells.flatten()

        def expected(row: int) -> str:
            if np.isfinite(values[place[row]]):
                return f"numbers of at most {largest:g} in size"
            return "finite numbers"

        def found(row: int) -> str:
            entry = entries[place[row]].as_py()
            text = "null" if entry is None else str(entry).replace("nan", "NaN")
            return f"{text} at place {place[row] - start[row] + 1}"

        remedy = "fill the gap, rescale the numbers or leave the row out"
        self.found.rows(rows, name, expected, found, remedy)

    def _require_one_of(self, read: Mapping[str, pa.Array]) -> None:
        """Report rows that have none of two columns."""
        either = self.table.either
        there = [name for name in either.columns if name in read] if either else []
        if either and there:
            missing = np.all([np.asarray(read[name].is_null()) for name in there], axis=0)
            self.found.rows(
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
        own, wanted = (lengths_of(read[column]) for column in (name, other))
        self.found.rows(
            np.flatnonzero((own >= 0) & (own != wanted)),
            name,
            lambda row: f"{max(wanted[row], 0)} entries, one for each of the {other}",
            lambda row: str(own[row]),
            f"give each {other.removesuffix('s')} its {name}, or leave the list null",
        )


def lengths_of(lists: pa.ListArray) -> IntArray:
    """Return the length of each list, -1 for null."""
    lengths = pc.fill_null(pc.list_value_length(lists), -1)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _holds_text(kind: pa.DataType) -> bool:
    of = getattr(kind, "value_type", None)
    return is_text(kind) or (of is not None and _holds_text(of))


def _readable(column: pa.ChunkedArray, row: int) -> bool:
    try:
        column[row].as_py()
    except UnicodeDecodeError:
        return False
    return True
