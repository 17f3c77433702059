"""Features as codes: most columns have few distinct numbers, and take a byte or two a row.

Shares of a few occurrences, logarithms of counts, marks: of 33 columns some 20 have at most 256
distinct numbers in a partition, and most others at most 65,536. A column is held as a table of its
numbers and each row's place in it, to the bit; one of more numbers as it is. Columns that go
together (counts, their logarithms, numbers of words) share a place where that takes fewer bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.keywords import coded_feature_kernels as kernels

Parts = tuple[
    IntArray, IntArray, IntArray, NDArray[np.uint8], NDArray[np.uint16], FloatArray, FloatArray
]
SHORTEST, LONGEST = 2**8, 2**16
"""Most distinct numbers of a column in codes of 8 and of 16 bits."""


@dataclass(frozen=True)
class CodedFeatures(State, kind="keywords.CodedFeatures"):
    """A matrix [W, P] of numbers.

    Parameters
    ----------
    kind
        [P] how each column is held; see `coded_feature_kernels`.
    place
        [P] its row in ``short``, ``long`` or ``plain``.
    start
        [P] where its numbers begin in ``values``.
    short, long, plain
        [., W] codes of 8 and of 16 bits, and columns as they are.
    values
        The distinct numbers of every column in codes.
    rows
        W.
    """

    kind: IntArray
    place: IntArray
    start: IntArray
    short: NDArray[np.uint8]
    long: NDArray[np.uint16]
    plain: FloatArray
    values: FloatArray
    rows: int

    @classmethod
    def of(cls, x: FloatArray, without: Container[int] = ()) -> Self:
        """Encode a matrix: columns of few numbers first, each where it adds the fewest bytes.

        ``without``: columns of which every number is held as 0.
        """
        rows, size = x.shape
        kind, place, start = (np.zeros(size, np.int64) for _ in range(3))
        alone: list[_Shared] = []
        plain: list[FloatArray] = []
        for j in range(size):
            values = np.zeros(rows) if j in without else np.ascontiguousarray(x[:, j])
            found = _encoded(values.view(np.uint64), LONGEST)
            if found is None or (own := _Shared(*found, [j])).size >= values.nbytes > 0:
                kind[j], place[j] = kernels.PLAIN, len(plain)
                plain.append(values)
            else:
                own.tables = [found[1].view(np.float64)]
                alone.append(own)
        groups: list[_Shared] = []
        for own in sorted(alone, key=lambda one: len(one.found)):
            joined = [(group.joined(own), i) for i, group in enumerate(groups)]
            options = [(one.size - groups[i].size, i, one) for one, i in joined if one is not None]
            added, i, best = min(options, default=(own.size, -1, own), key=lambda one: one[:2])
            if added < own.size:
                groups[i] = best
            else:
                groups.append(own)
        held: dict[int, list[NDArray[Any]]] = {k: [] for k in range(kernels.PLAIN)}
        tables: list[FloatArray] = []
        for group in groups:
            for j, table in zip(group.columns, group.tables, strict=True):
                kind[j], place[j] = group.kind, len(held[group.kind])
                start[j] = sum(map(len, tables))
                tables.append(table)
            held[group.kind].append(group.codes)
        return cls(
            kind,
            place,
            start,
            _rows(held[kernels.SHORT], rows, np.uint8),
            _rows(held[kernels.LONG], rows, np.uint16),
            _rows(plain, rows, np.float64),
            np.concatenate([np.zeros(0), *tables]),
            rows,
        )

    @property
    def parts(self) -> Parts:
        """What the kernels take of it."""
        return self.kind, self.place, self.start, self.short, self.long, self.plain, self.values

    def changed(self, j: int, change: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return a function of column j [W], computed once for each of its numbers."""
        place, table = self.place[j], self.values[self.start[j] :]
        if self.kind[j] == kernels.PLAIN:
            return change(self.plain[place])
        if self.kind[j] == kernels.CONSTANT:
            return np.repeat(change(table[:1]), self.rows)
        codes = (self.short if self.kind[j] == kernels.SHORT else self.long)[place]
        return np.asarray(change(table[: int(codes.max()) + 1])[codes])

    def dense(self, rows: IntArray | None = None) -> FloatArray:
        """Return the matrix [W, P] as it was, or some of its rows."""
        size, wanted = len(self.kind), np.arange(self.rows) if rows is None else rows
        x = np.empty((size, len(wanted)))
        columns = kernels.Columns(
            *self.parts, np.zeros((0, 0)), np.zeros(size), np.ones(size), np.arange(size)
        )
        kernels.standardised(columns, wanted, x)
        return x.T


@dataclass
class _Shared:
    """Columns with one code a row: their numbers, by code, and what was encoded."""

    codes: NDArray[np.uint16]
    found: NDArray[np.uint64]
    columns: list[int]
    tables: list[FloatArray] = field(default_factory=list)

    @property
    def kind(self) -> int:
        """How its columns are held."""
        count = len(self.found)
        return kernels.CONSTANT if count <= 1 else 1 + (count > SHORTEST)

    @property
    def size(self) -> int:
        """Bytes of its codes and tables: its kind is how many bytes a code takes."""
        return len(self.codes) * self.kind + 8 * len(self.found) * len(self.columns)

    def joined(self, other: _Shared) -> _Shared | None:
        """Return both in one code; None where that takes more bytes, or more than 16 bits."""
        columns = self.columns + other.columns
        kind = max(self.kind, other.kind)
        room = self.size + other.size - len(self.codes) * kind
        most = min(room // (8 * len(columns)), SHORTEST if kind == kernels.SHORT else LONGEST)
        if not self.kind or not other.kind or most < max(len(self.found), len(other.found)):
            return None
        both = self.codes.astype(np.uint64) << np.uint64(16) | other.codes
        if (encoded := _encoded(both, most)) is None:
            return None
        pairs = encoded[1] >> np.uint64(16), encoded[1] & np.uint64(LONGEST - 1)
        tables = [
            table[places]
            for one, places in zip((self, other), pairs, strict=True)
            for table in one.tables
        ]
        return _Shared(*encoded, columns, tables)


def _encoded(
    bits: NDArray[np.uint64], most: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint64]] | None:
    """Return every row's code and the distinct ones; None where there are more than ``most``."""
    most = min(most, len(bits))
    codes, found = np.empty(len(bits), np.uint16), np.empty(most, np.uint64)
    room = 2 << most.bit_length()
    keys, places = np.empty(room, np.uint64), np.full(room, -1, np.int32)
    count = kernels.encode(bits, codes, found, keys, places)
    return None if count < 0 else (codes, found[:count].copy())


def _rows(columns: list[NDArray[Any]], size: int, kind: type) -> NDArray[Any]:
    return np.array(columns, kind).reshape(len(columns), size)
