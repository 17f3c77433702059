"""What settings say of a table's columns and cells."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from flows.settings.base import RunSettings


class TableSettings(RunSettings):
    """Settings of a pipeline that reads a table of columns."""

    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            "categories", "missing", "exclude", "include", "decimal", "thousands", "dates",
        ),
    }  # fmt: skip

    categories: tuple[str, ...] = Field(
        (), description="Columns that are categories whatever they hold, such as site,grade."
    )
    missing: tuple[str, ...] = Field(
        (),
        description="Words and numbers that are missing cells, such as -9,99. Blank cells, NA, "
        "N/A, #N/A, NaN, null, ., ?, -, -- and errors of Excel are in any case.",
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

    @model_validator(mode="after")
    def _with_label(self) -> Self:
        if (label := self.columns.get("label")) in self.exclude:
            raise ValueError(
                f"{label} is the column of labels (--column label={label}), and --exclude leaves "
                "it out; take one of the two away"
            )
        return self
