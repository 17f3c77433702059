"""What a table is: its columns and what they may hold.

How a file's columns become them is in `reading`; this needs no Arrow, so that help can
print a table at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

from flows.settings.base import FILE

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Kind:
    """A type of cells.

    Attributes
    ----------
    name
        What Arrow calls it, or its entries where cells are lists.
    words
        What people call it.
    of_lists
        Whether cells are lists of it.

    >>> str(list_of(TEXT)), str(list_of(TEXT).arrow)
    ('list of texts', 'list<item: string>')
    """

    name: str
    words: str
    of_lists: bool = False

    def __str__(self) -> str:
        return f"list of {self.words}s" if self.of_lists else self.words

    @property
    def arrow(self) -> pa.DataType:
        """Arrow's type."""
        import pyarrow as pa

        kind = pa.type_for_alias(self.name)
        return pa.list_(kind) if self.of_lists else kind


def list_of(kind: Kind) -> Kind:
    """Return the type of lists of a type."""
    return Kind(kind.name, kind.words, of_lists=True)


TEXT = Kind("string", "text")
NUMBER = Kind("double", "number")
FLAG = Kind("bool", "true or false")
INT8 = Kind("int8", "whole number")
INT32 = Kind("int32", "whole number")
INT64 = Kind("int64", "whole number")
ANY = Kind("null", "number, text, date, or true or false")
WORDS = list_of(TEXT)
NUMBERS = list_of(NUMBER)


@dataclass(frozen=True)
class Bound:
    """A limit of a column's numbers, both ends included, and how it is said."""

    words: str
    least: float | None = None
    most: float | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class PositiveLabel:
    """Which cells of a column are 1: some labels, or numbers from ``least`` on; others are 0.

    ``number`` is the column that the numbers themselves are kept in, "" for none; with ``order``
    these are the places of the labels in it, from 1. ``given`` is the column that labels are kept
    in as the file writes them, "" for none.
    """

    column: str
    labels: tuple[str, ...] = ()
    least: float | None = None
    number: str = ""
    order: tuple[str, ...] = ()
    given: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Lists never hold nulls; everything else that cells must fulfil is said here.

    Attributes
    ----------
    label
        What heads it in reports, with its unit where it has one; by default its name.
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
    gaps
        Whether numbers in its lists may be missing.
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
    type: Kind | pa.DataType
    meaning: str
    nullable: bool = False
    required: bool = True
    unit: str = ""
    accepts: tuple[Kind | pa.DataType, ...] = ()
    names: str = ""
    unique: bool = False
    finite: bool = False
    largest: float | None = None
    gaps: bool = False
    values: tuple[float, ...] = ()
    bounds: tuple[Bound, ...] = ()
    as_long_as: str = ""
    expected: str = ""
    remedy: str | None = None
    label: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """What its cells must fulfil and may be, in words."""
        values = () if self.accepts else self.values  # else labels in other words are among them
        conditions = {
            "may be absent": not self.required,
            "may be null": self.nullable,
            "unique over all files": self.unique,
            "finite": self.finite,
            " or ".join(f"{value:g}" for value in values): bool(values),
            f"as long as {self.as_long_as}": bool(self.as_long_as),
        }
        return (
            *(words for words, holds in conditions.items() if holds),
            *(b.words for b in self.bounds),
        )

    @property
    def arrow(self) -> pa.DataType:
        """Its type, as Arrow has it."""
        return self.type.arrow if isinstance(self.type, Kind) else self.type


def optional(name: str, type: Kind, meaning: str, **options: Any) -> Column:
    """Return a column that may be absent, and whose cells may be empty."""
    return Column(name, type, meaning, nullable=True, required=False, **options)


SD = Column("sd", NUMBER, "standard deviation around it")
LOW = Column("low", NUMBER, "lower end of its 95 % interval")
HIGH = Column("high", NUMBER, "its upper end")
HELD_OUT = Column("held_out", FLAG, "whether its label was kept from the fit")
CELLS = "numbers, text, dates, or true and false"
MEND_CELLS = "write each cell as one of these, or leave the column out (--exclude)"

ROW_ID = Column(
    "id",
    TEXT,
    "name of the row; by default the file's name and row number",
    required=False,
    accepts=(INT64,),
    names="row",
    unique=True,
    expected="names of rows (text, whole numbers or a dictionary of them)",
    remedy="write the names as text",
)
ROW_WEIGHT = Column(
    "weight",
    NUMBER,
    "how much the row counts in the fit, such as a survey weight (--column weight=YOURS)",
    nullable=True,
    accepts=(INT64,),
    finite=True,
    bounds=(
        Bound("a weight of at least 0", least=0, remedy="correct it, or leave it empty"),
        Bound("a weight of at most 1e15", most=10**15, remedy="divide all by one number"),
    ),
)


@dataclass(frozen=True)
class Either:
    """Columns that every row needs one of."""

    columns: tuple[str, str]
    remedy: str
    fill: str  # what to do about a row that has neither
    called: tuple[str, ...] = ()  # what people call the first of them, the most likely first


class ColumnMapping(Protocol):
    """How files write a table.

    For a column of lists of numbers, the files' name may be a pattern such as ``f*``: the numbers
    of the columns that it matches, in the order of the file, are then one list.
    """

    @property
    def columns(self) -> Mapping[str, str]:
        """The files' name of each column that has another one there."""

    @property
    def list_separator(self) -> str:
        """The separator of the entries of a list."""


@dataclass(frozen=True)
class Table:
    """A named table: what it is for and its columns, in order.

    Attributes
    ----------
    row
        What a row is.
    either
        Two columns; one of them must be there.
    named
        Columns that are read only where settings name the files' column of them.
    others
        What each column is that is not among ``columns``; where it is None, such columns are
        not looked at. One that is required means that there is at least one.
    called
        See `ColumnMapping`, as
    separator
        is.
    missing
        Words and numbers that are missing cells.
    excluded, included
        Columns of the files that are not read; the only ones among ``others`` that are. Patterns
        too.
    positive
        Which labels denote 1; None where they are written as 1 and 0, or as yes and no.
    levels
        Levels of text columns in lists of numbers: each is a number that is 1 in rows that have it.
    commas, decimal
        Columns of the files whose numbers have a decimal comma; the decimal sign of all numbers in
        text, None where it is not said.
    formats
        Of the files, in words.
    or_else
        What may be given in its place, for help.
    details
        Columns that help has only where all settings are wanted.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    row: str = "row"
    either: Either | None = None
    named: tuple[Column, ...] = ()
    others: Column | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    separator: str = ";"
    missing: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    positive: PositiveLabel | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commas: tuple[str, ...] = ()
    decimal: str | None = None
    formats: str = "Parquet, CSV, TSV, JSON lines, Arrow, Excel, ODS, SPSS, Stata or SAS"
    or_else: Table | None = None
    details: tuple[str, ...] = ()

    def of(self, spelling: ColumnMapping) -> Table:
        """Return this table as some files have it, as the settings of a run say."""
        return replace(
            self,
            columns=(*self.columns, *(c for c in self.named if c.name in spelling.columns)),
            called={ours: name for ours, name in spelling.columns.items() if ours != FILE},
            separator=spelling.list_separator,
            missing=tuple(getattr(spelling, "missing", ())),
            excluded=tuple(getattr(spelling, "exclude", ())),
            included=tuple(getattr(spelling, "include", ())),
            levels=levels_by_column(getattr(spelling, "levels", ())),
            commas=tuple(getattr(spelling, "decimal_comma", ())),
            decimal=getattr(spelling, "decimal", None),
        )

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema; its meaning, and each field's unit, meaning and label, are metadata."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field(
                    c.name,
                    c.arrow,
                    nullable=c.nullable,
                    metadata={"unit": c.unit, "meaning": c.meaning, "label": c.label},
                )
                for c in self.columns
            ],
            metadata={"meaning": self.meaning},
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

    def others_in(self, names: list[str]) -> list[str]:
        """Return the names of a file's columns that are not among ``columns``."""
        declared = {c.name for c in self.columns}
        return [name for name in names if name not in declared]

    def declared(self, names: list[str]) -> dict[str, Column]:
        """Return what is known of a file's columns, those that are not looked at left out."""
        known = {c.name: c for c in self.columns if c.name in names}
        return known | dict.fromkeys(self.others_in(names), self.others) if self.others else known


def levels_by_column(levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the levels of each column from texts ``column=level``, in their order.

    >>> levels_by_column(["stain=HE", "stain=IHC"])
    {'stain': ('HE', 'IHC')}
    """
    by_column: dict[str, tuple[str, ...]] = {}
    for text in levels:
        name, _, level = text.partition("=")
        by_column[name] = (*by_column.get(name, ()), level)
    return by_column


def is_pattern(name: str) -> bool:
    """Whether a name may be that of several columns: a pattern, or names with commas between."""
    return any(sign in name for sign in "*?,")


def matches(name: str, pattern: str) -> bool:
    """Say whether a column is meant by a name, a pattern, or several with commas between.

    >>> matches("f1", "f*"), matches("b", "a, b"), matches("a, b", "a, b"), matches("c", "a,b")
    (True, True, True, False)
    """
    parts = (part.strip() for part in pattern.split(","))
    return name == pattern or any(name == part or fnmatchcase(name, part) for part in parts)
