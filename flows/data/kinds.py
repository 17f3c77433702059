"""The types of columns by name, so that a table is declared, and told of, without Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
