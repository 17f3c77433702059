"""What a table is: its columns, and whether a file can be read as it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from flows.faults import Fault


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    accepts
        Further Arrow types that are cast without loss when a table is read.
    required
        Whether the column must be there at all; one that may be absent reads as null.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    required: bool = True
    unit: str = ""
    accepts: tuple[pa.DataType, ...] = ()


@dataclass(frozen=True)
class Table:
    """A named table: what it is for and its columns, in order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

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

    def faults(self, found: pa.Schema, file: str) -> list[Fault]:
        """List what keeps a file with this schema from being read as this table."""
        faults = []
        for column in self.columns:
            index = found.get_field_index(column.name)
            if index < 0:
                if column.required:
                    faults.append(
                        Fault(
                            file=file,
                            column=column.name,
                            expected=f"a column of type {column.type}",
                            found=f"none; the columns are {', '.join(found.names) or 'none'}",
                        )
                    )
            elif not _reads_as(found.field(index).type, column):
                faults.append(
                    Fault(
                        file=file,
                        column=column.name,
                        expected=f"type {column.type}",
                        found=f"type {found.field(index).type}",
                    )
                )
        return faults


def _reads_as(found: pa.DataType, column: Column) -> bool:
    return any(_same(found, wanted) for wanted in (column.type, *column.accepts))


def _same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type holds the same values: large, view and dictionary forms are read too."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        return _same(found.value_type, wanted)
    if pa.types.is_string(wanted):
        return (
            pa.types.is_string(found)
            or pa.types.is_large_string(found)
            or pa.types.is_string_view(found)
        )
    if pa.types.is_list(wanted):
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        return any(test(found) for test in lists) and _same(found.value_type, wanted.value_type)
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(found)
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(found) or pa.types.is_integer(found)
    return bool(found == wanted)


TEXT = pa.string()


WORDS = pa.list_(pa.string())
