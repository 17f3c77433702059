# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Columns of a few distinct numbers, to their codes and back."""

from __future__ import annotations

import numpy as np
from numba import njit

CONSTANT, SHORT, LONG, PLAIN = range(4)
"""How a column is held: as one number, in codes of 8 or 16 bits, or as it is."""


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
        mixed = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
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
def _decoded(codes, values, centre, factor, rows, out):
    """Fill (values[codes] - centre) * factor of some rows; those side by side as they lie."""
    n = len(rows)
    if n and rows[n - 1] - rows[0] == n - 1:
        near = codes[rows[0] : rows[0] + n]
        for i in range(n):
            out[i] = (values[near[i]] - centre) * factor
    else:
        for i in range(n):
            out[i] = (values[codes[rows[i]]] - centre) * factor


@njit(cache=True, nogil=True, error_model="numpy")
def standardised(kind, place, start, short, long, plain, values, beside, location, inverse, rows,
                 columns, out):  # fmt: skip
    """Fill as `corpus.likelihood_kernels.standardised` does, from codes."""
    size = len(kind)
    for j in range(len(columns)):
        k = columns[j]
        if k >= size or kind[k] == PLAIN:
            for i in range(len(rows)):
                x = plain[place[k], rows[i]] if k < size else beside[rows[i], k - size]
                out[j, i] = (x - location[k]) * inverse[k]
        elif kind[k] == CONSTANT:
            out[j, : len(rows)] = (values[start[k]] - location[k]) * inverse[k]
        elif kind[k] == SHORT:
            own = values[start[k] : start[k] + 256]
            _decoded(short[place[k]], own, location[k], inverse[k], rows, out[j])
        else:
            _decoded(long[place[k]], values[start[k] :], location[k], inverse[k], rows, out[j])
