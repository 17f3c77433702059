"""What a table is: its columns, what they may hold, and how a file's columns become them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.cells import read_cells
from flows.data.names import row_names
from flows.data.storage import CELLS
from flows.faults import Fault
from vbmodels.core.state import BoolArray, FloatArray

TEXT = pa.string()
WORDS = pa.list_(pa.string())
NUMBERS = pa.list_(pa.float64())


@dataclass(frozen=True)
class Bound:
    """A limit of a column's numbers, both ends included, and how it is said."""

    words: str
    least: int | None = None
    most: int | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Lists never hold nulls; everything else that cells must fulfil is said here.

    Attributes
    ----------
    nullable
        Whether cells may be null.
    required
        Whether the column must be there at all; one that may be absent reads as null.
    accepts
        Further Arrow types that are cast without loss when a table is read. A column of text
        that accepts floats reads them as codes of categories, which are whole numbers.
    names
        What its cells are the names of ("document"): they are neither null nor empty, and
    unique
        no two of them are alike, in a file and over files.
    finite
        Whether its numbers, or those in its lists, must be finite, and at most
    largest
        this in size.
    values
        The only values that it may have.
    bounds
        Limits of its numbers.
    as_long_as
        Another column of lists: where both have a list, these are equally long.
    expected, remedy
        What is expected in place of a column of another type, and what to do then.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    required: bool = True
    unit: str = ""
    accepts: tuple[pa.DataType, ...] = ()
    names: str = ""
    unique: bool = False
    finite: bool = False
    largest: float | None = None
    values: tuple[float, ...] = ()
    bounds: tuple[Bound, ...] = ()
    as_long_as: str = ""
    expected: str = ""
    remedy: str | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """What its cells must fulfil and may be, in words."""
        conditions = {
            "may be absent": not self.required,
            "may be null": self.nullable,
            "unique over all files": self.unique,
            "finite": self.finite,
            " or ".join(f"{value:g}" for value in self.values): bool(self.values),
            f"as long as {self.as_long_as}": bool(self.as_long_as),
        }
        return (
            *(words for words, holds in conditions.items() if holds),
            *(b.words for b in self.bounds),
        )

    @property
    def of_codes(self) -> bool:
        """Whether floats stand for categories."""
        return bool(self.type == TEXT) and any(map(pa.types.is_floating, self.accepts))

    def reads(self, kind: pa.DataType) -> bool:
        """Whether a file's column of this type can be read as it."""
        if pa.types.is_null(kind):
            return self.nullable
        return any(_same(kind, wanted) for wanted in (self.type, *self.accepts))

    def read(self, column: pa.ChunkedArray) -> pa.Array:
        """Return a file's column in the type that this one has.

        Raises
        ------
        pyarrow.ArrowInvalid
            If a value has no place in that type.
        """
        column = decoded(column)
        if self.of_codes and pa.types.is_floating(column.type):
            missing = pa.scalar(None, column.type)
            column = pc.if_else(pc.is_nan(column), missing, column).cast(pa.int64())
        # A whole number beyond 2**53 is taken for the float next to it.
        column = column.cast(self.type, safe=not pa.types.is_floating(self.type))
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


ROW_ID = Column(
    "id",
    TEXT,
    "name of the row; the file's name and the row's number when absent",
    required=False,
    accepts=(pa.int64(),),
    names="row",
    unique=True,
    expected="names of rows (text, whole numbers or a dictionary of them)",
    remedy="write the names as text",
)


@dataclass(frozen=True)
class Either:
    """Columns of which every row needs one."""

    columns: tuple[str, str]
    remedy: str
    fill: str  # what to do about a row that has neither


class Spelling(Protocol):
    """How files write a table.

    For a column of lists of numbers, the files' name may be a pattern such as ``f*``: the numbers
    of the columns that it matches, in the order of the file, are then one list.
    """

    @property
    def columns(self) -> Mapping[str, str]:
        """The files' name of each column that has another one there."""

    @property
    def list_separator(self) -> str:
        """What stands between the entries of a list."""


@dataclass(frozen=True)
class Table:
    """A named table: what it is for and its columns, in order.

    Attributes
    ----------
    row
        What a row is.
    either
        Two columns of which one must be there.
    others
        What each column is that is not among ``columns``; where it is None, such columns are
        not looked at. One that is required means that there is at least one.
    called
        See `Spelling`, as
    separator
        is.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    row: str = "row"
    either: Either | None = None
    others: Column | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    separator: str = ";"

    def of(self, spelling: Spelling) -> Table:
        """Return this table as some files have it, as the settings of a run say."""
        return replace(self, called=spelling.columns, separator=spelling.list_separator)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, with unit and meaning as field metadata."""
        return pa.schema(
            [
                pa.field(
                    c.name,
                    c.type,
                    nullable=c.nullable,
                    metadata={"unit": c.unit, "meaning": c.meaning},
                )
                for c in self.columns
            ]
        )

    @property
    def id(self) -> Column | None:
        """The column that names the rows, each once."""
        return next((c for c in self.columns if c.unique), None)

    @property
    def in_files(self) -> list[str] | None:
        """The columns of a file that are needed; None for all of them."""
        if self.others or any(map(is_pattern, self.called.values())):
            return None
        return [self.called.get(c.name, c.name) for c in self.columns]

    def given(self, rows: pa.Table) -> pa.Table:
        """Return a file's columns by the table's names; a pattern's columns become one."""
        if not self.called:
            return rows
        taken: dict[str, pa.ChunkedArray] = {}
        gone: set[str] = set()
        for own, theirs in self.called.items():
            gone.add(own)
            if is_pattern(theirs):
                wide = [name for name in rows.column_names if fnmatchcase(name, theirs)]
                gone |= set(wide)
                odd = [name for name in wide if not _may_be_numbers(rows[name].type)]
                if wide:
                    columns = [rows[name] for name in wide]
                    taken[own] = rows[odd[0]] if odd else _one_list(columns)
            elif theirs in rows.column_names:
                gone.add(theirs)
                taken[own] = rows[theirs]
        kept = [i for i, name in enumerate(rows.column_names) if name not in gone]
        fields = [rows.schema.field(i) for i in kept]
        fields += [pa.field(name, column.type) for name, column in taken.items()]
        cells = [rows.column(i) for i in kept] + list(taken.values())
        schema = pa.schema(fields, rows.schema.metadata)
        return pa.Table.from_arrays(cells, schema=schema)

    def named(self, rows: pa.Table, file: str, first: int) -> pa.Table:
        """Name rows after their file and number, where names may be absent and are.

        Parameters
        ----------
        rows
            A file's columns by the table's names.
        file
            The file.
        first
            Rows of the file before these.
        """
        column = self.id
        if column is None or column.required or column.name in rows.column_names:
            return rows
        return rows.append_column(column.name, row_names(len(rows), file, first))

    def spelt(self, rows: pa.Table) -> tuple[pa.Table, dict[str, BoolArray]]:
        """Read columns of text, where a file has nothing else, as what they stand for.

        Returns
        -------
        rows, wrong
            The columns in their types, and by name which cells could not be read and are null.
        """
        if (rows.schema.metadata or {}).get(CELLS) != b"text":
            return rows, {}
        wrong = {}
        for place, name in enumerate(rows.column_names):
            column = self.declared([name]).get(name)
            if column is None or not is_text(rows[name].type) or column.type == TEXT:
                continue
            cells, odd = read_cells(rows[name], column.type, bool(column.values), self.separator)
            rows = rows.set_column(place, name, cells)
            if odd.any():
                wrong[name] = odd
        return rows, wrong

    def others_in(self, names: list[str]) -> list[str]:
        """Return the names of a file's columns that are not among ``columns``."""
        own = {c.name for c in self.columns}
        return [name for name in names if name not in own]

    def declared(self, names: list[str]) -> dict[str, Column]:
        """Return what is known of a file's columns, those that are not looked at left out."""
        known = {c.name: c for c in self.columns if c.name in names}
        return known | dict.fromkeys(self.others_in(names), self.others) if self.others else known

    def read(self, given: pa.Table) -> pa.Table:
        """Return columns, by the table's names, in the types that are declared.

        Absent ones are null.
        """
        given, _ = self.spelt(given)
        names = given.column_names
        own = {c.name: c for c in self.columns} | self.declared(names)
        return pa.table(
            {
                name: c.read(given[name]) if name in names else pa.nulls(len(given), c.type)
                for name, c in own.items()
            }
        )

    def faults(self, found: pa.Schema, file: str) -> list[Fault]:
        """List what keeps a file with this schema from being read as this table."""
        names = found.names
        listed = ", ".join(names) or "none"
        own = self.declared(names)
        faults = [
            Fault("settings", f"columns out of {', '.join(c.name for c in self.columns)}", name,
                  "columns", remedy="write --column OURS=YOURS")
            for name in self.called
            if self.others is None and name not in {c.name for c in self.columns}
        ]  # fmt: skip
        faults += [
            Fault(file, f"a column of type {c.type}", f"none; the columns are {listed}", c.name)
            for c in self.columns
            if c.required and c.name not in names
        ]
        for name, column in own.items():
            if names.count(name) > 1:
                faults.append(
                    Fault(file, "a name used once", "it twice", name, remedy="rename one")
                )
            elif not column.reads(kind := found.field(name).type):
                expected = column.expected or f"type {column.type}"
                faults.append(Fault(file, expected, f"type {kind}", name, remedy=column.remedy))
        if self.either and not set(self.either.columns) & set(names):
            expected = " or ".join(f"a column {name}" for name in self.either.columns)
            only = f"only {', '.join(names) or 'no columns'}"
            faults.append(Fault(file, expected, only, remedy=self.either.remedy))
        if self.others and self.others.required and not self.others_in(names):
            beside = " and ".join(c.name for c in self.columns)
            faults.append(Fault(file, f"at least one {self.others.name}", f"none beside {beside}"))
        return faults


def is_pattern(name: str) -> bool:
    """Whether a name stands for several columns."""
    return "*" in name or "?" in name


def _one_list(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Join columns of numbers to one of lists; a row without any number has no list."""
    read = [
        read_cells(column, pa.float64(), False, ";")[0] if is_text(column.type) else column
        for column in columns
    ]
    numbers = np.stack([_floats(column) for column in read], axis=1)
    missing = np.isnan(numbers)
    cells = pa.array(numbers.ravel(), pa.float64(), mask=missing.ravel())
    ends = pa.array(np.arange(len(numbers) + 1) * numbers.shape[1], pa.int64())
    lists = pa.LargeListArray.from_arrays(ends, cells)
    none = pa.array(missing.all(axis=1))
    return pa.chunked_array([pc.if_else(none, pa.scalar(None, lists.type), lists)])


def _may_be_numbers(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, is_text)
    return any(test(kind) for test in tests)


def _floats(column: pa.ChunkedArray) -> FloatArray:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Spell a dictionary out."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's for text."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type holds the same values: large, view and dictionary forms are read too."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _same(found.value_type, wanted)
    if pa.types.is_string(wanted):
        return is_text(found)
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(found) for test in lists) and _same(found.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(found)
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(found) or pa.types.is_integer(found)
    return bool(found == wanted)
