"""What settings say of a table's columns and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.settings.base import RunSettings


def _column_of(word: str) -> str:
    """Return the column that a word of missing cells begins with; "" without, as of a time."""
    column, mark, rest = word.rpartition(":")
    return "" if not (mark and rest) or column.replace(":", "").isdigit() else column


def words_by_column(words: Sequence[str]) -> dict[str, list[str]]:
    """Return words by the column that is named before them; by "" those that come first.

    >>> words_by_column(("-9", "age:77", "99"))
    {'': ['-9'], 'age': ['77', '99']}
    """
    by_column: dict[str, list[str]] = {"": []}
    name = ""
    for word in words:
        column = _column_of(word)
        name = column or name
        by_column.setdefault(name, []).append(word.removeprefix(f"{column}:") if column else word)
    return by_column


class FileTableSettings(RunSettings):
    """Settings of a pipeline whose files a table with a line a file may describe."""

    file_is: ClassVar[str] = ""
    """The column of ours that the name of a file with a line is."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("file_table", "file_version"),
    }

    file_table: str | None = Field(
        None,
        description="A table with a line a file of the input, such as slides with their labels and "
        "patients: all rows of a file have the cells of its line. By default one of the sources "
        "whose cells name the others ('' for none), by the column that does (--column FILE=YOURS).",
    )
    file_version: str = Field("", description="The version of file_table; found, not given.")


class TableSettings(FileTableSettings):
    """Settings of a pipeline that reads a table of columns."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": ("categories", "missing", "exclude", "include", "decimal", "thousands", "dates"),
    }

    categories: tuple[str, ...] = Field(
        (), description="Columns that are categories whatever they hold, such as site,grade."
    )
    missing: tuple[str, ...] = Field(
        (),
        description="Words and numbers that are missing cells, in any column or after a column's "
        "name in that alone: -9,N/A,age:77,99. Blank cells, NA, N/A, #N/A, NaN, null, ., ?, -, -- "
        "and errors of Excel are in any case.",
    )
    exclude: tuple[str, ...] = Field(
        (), description="Columns that are not read, such as psu,age or id_*."
    )
    include: tuple[str, ...] = Field(
        (),
        description="The only columns that are used, also those that look like an id or free text.",
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="Decimal sign of numbers in text; by default by each column's cells."
    )
    thousands: Literal[",", ".", " ", "'"] | None = Field(
        None, description="Thousands separator of numbers in text; by default by the cells."
    )
    dates: Literal["dmy", "mdy", "ymd"] | None = Field(
        None,
        description="Order of day, month and year in dates such as 02/01/2020; by default by the "
        "cells, which must allow one order only.",
    )

    def missing_in(self, name: str) -> tuple[str, ...]:
        """Return the words of missing cells of a column, by the files' name of it.

        >>> TableSettings(missing=("-9", "age:77", "99", "t:u:x")).missing_in("age")
        ('-9', '77', '99')
        """
        words = words_by_column(self.missing)
        return (*words[""], *words.get(name, ()))

    def missing_columns(self) -> list[str]:
        """Return the columns that have words of missing cells of their own."""
        return [column for word in self.missing if (column := _column_of(word))]

    @model_validator(mode="after")
    def _with_label(self) -> Self:
        if (label := self.columns.get("label")) in self.exclude:
            raise ValueError(
                f"{label} is the column of labels (--column label={label}), and --exclude leaves "
                "it out; take one of the two away"
            )
        return self
