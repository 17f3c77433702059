# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Columns of a few distinct numbers, to their codes and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vbmodels.core.draws import GOLDEN
from vbmodels.core.state import FloatArray, IntArray

CONSTANT, SHORT, LONG, PLAIN = range(4)
"""How a column is held: as one number, in codes of 8 or 16 bits, or as it is."""


class Columns(NamedTuple):
    """Columns of a partition, and how they are standardised.

    Attributes
    ----------
    kind, place, start, short, long, plain, values
        The P columns in codes; see `coded_features.CodedFeatures`.
    further
        [P', W] more columns, as they are.
    location, inverse
        [P + P'] centre and inverse scale of every column.
    used
        The columns to be standardised.
    """

    kind: IntArray
    place: IntArray
    start: IntArray
    short: NDArray[np.uint8]
    long: NDArray[np.uint16]
    plain: FloatArray
    values: FloatArray
    further: FloatArray
    location: FloatArray
    inverse: FloatArray
    used: IntArray


@njit(cache=True, nogil=True, error_model="numpy")
def encode(bits, codes, found, keys, places):
    """Fill each row's code, distinct bits being numbered as they come; return how many there are.

    -1 where there are more than ``found`` has room for.

    Parameters
    ----------
    bits
        [W] the numbers' bits.
    codes
        [W] to be filled.
    found
        To be filled with the distinct ones.
    keys, places
        Room of 2^m rows, with ``places`` -1: a table with open addresses.
    """
    count = 0
    mask = np.uint64(len(keys) - 1)
    for i in range(len(bits)):
        key = bits[i]
        if i and key == bits[i - 1]:
            codes[i] = codes[i - 1]
            continue
        mixed = (key ^ (key >> np.uint64(32))) * GOLDEN
        at = (mixed ^ (mixed >> np.uint64(29))) & mask
        while places[at] >= 0 and keys[at] != key:
            at = (at + np.uint64(1)) & mask
        if places[at] < 0:
            if count == len(found):
                return -1
            keys[at], places[at], found[count] = key, count, key
            count += 1
        codes[i] = places[at]
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def _taken(values, rows):
    """Return the values of some rows; a view where these lie side by side."""
    n = len(rows)
    if n and rows[n - 1] - rows[0] == n - 1:
        return values[rows[0] : rows[0] + n]
    return values[rows]


@njit(cache=True, nogil=True, error_model="numpy")
def _decoded(codes, values, centre, factor, rows, out):
    """Fill (values[codes] - centre) * factor of some rows."""
    near = _taken(codes, rows)
    for i in range(len(near)):
        out[i] = (values[near[i]] - centre) * factor


@njit(cache=True, nogil=True, error_model="numpy")
def _scaled(values, centre, factor, rows, out):
    """Fill (values - centre) * factor of some rows."""
    near = _taken(values, rows)
    for i in range(len(near)):
        out[i] = (near[i] - centre) * factor


@njit(cache=True, nogil=True, error_model="numpy")
def standardised(columns, rows, out):
    """Fill [P, W] with (x - location) * inverse of rows and of the columns in use."""
    size = len(columns.kind)
    for j in range(len(columns.used)):
        k = columns.used[j]
        centre, factor = columns.location[k], columns.inverse[k]
        if k >= size:
            _scaled(columns.further[k - size], centre, factor, rows, out[j])
            continue
        kind, place, start = columns.kind[k], columns.place[k], columns.start[k]
        if kind == PLAIN:
            _scaled(columns.plain[place], centre, factor, rows, out[j])
        elif kind == CONSTANT:
            out[j, : len(rows)] = (columns.values[start] - centre) * factor
        elif kind == SHORT:
            own = columns.values[start : start + 256]
            _decoded(columns.short[place], own, centre, factor, rows, out[j])
        else:
            _decoded(columns.long[place], columns.values[start:], centre, factor, rows, out[j])
