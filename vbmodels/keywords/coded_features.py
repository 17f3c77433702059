"""Features as codes: most columns have few distinct numbers, and take a byte or two a row.

Shares of a few occurrences, logarithms of counts, marks: of 33 columns some 20 have at most 256
distinct numbers in a partition, and most others at most 65,536. A column is held as a table of its
numbers and each row's place in it, to the bit; one of more numbers as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    def of(cls, x: FloatArray) -> Self:
        """Encode a matrix."""
        size = x.shape[1]
        kind, place, start = (np.zeros(size, np.int64) for _ in range(3))
        held: tuple[list[NDArray[Any]], ...] = ([], [], [], [])
        tables: list[FloatArray] = []
        filled = 0
        keys = np.empty(2 * LONGEST, np.uint64)
        codes = np.empty(len(x), np.uint16)
        found = np.empty(LONGEST, np.uint64)
        for j in range(size):
            values = np.ascontiguousarray(x[:, j])
            column: NDArray[Any]
            count = kernels.encode(
                values.view(np.uint64), codes, found, keys, np.full(len(keys), -1, np.int32)
            )
            if count < 0:
                kind[j], column = kernels.PLAIN, values
            else:
                tables.append(found[:count].copy().view(np.float64))
                start[j], filled = filled, filled + count
                if count <= 1:
                    kind[j], column = kernels.CONSTANT, codes[:0]
                elif count <= SHORTEST:
                    kind[j], column = kernels.SHORT, codes.astype(np.uint8)
                else:
                    kind[j], column = kernels.LONG, codes.copy()
            place[j] = len(held[kind[j]])
            held[kind[j]].append(column)
        return cls(
            kind,
            place,
            start,
            _rows(held[kernels.SHORT], len(x), np.uint8),
            _rows(held[kernels.LONG], len(x), np.uint16),
            _rows(held[kernels.PLAIN], len(x), np.float64),
            np.concatenate([np.zeros(0), *tables]),
            len(x),
        )

    @property
    def parts(self) -> Parts:
        """What the kernels take of it."""
        return self.kind, self.place, self.start, self.short, self.long, self.plain, self.values

    def dense(self) -> FloatArray:
        """Return the matrix [W, P] as it was."""
        size = len(self.kind)
        x = np.empty((size, self.rows))
        columns = kernels.Columns(
            *self.parts, np.zeros((0, 0)), np.zeros(size), np.ones(size), np.arange(size)
        )
        kernels.standardised(columns, np.arange(self.rows), x)
        return x.T


def _rows(columns: list[NDArray[Any]], size: int, kind: type) -> NDArray[Any]:
    return np.array(columns, kind).reshape(len(columns), size)
