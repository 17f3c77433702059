# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Ranks within documents without a sort of all words."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def ranking(score, offsets, order, rank):
    """Fill `selection._ranking`: rows best first in each document, and ranks from 0; stable."""
    for d in range(len(offsets) - 1):
        first, last = offsets[d], offsets[d + 1]
        order[first:last] = first + np.argsort(-score[first:last], kind="mergesort")
        for i in range(last - first):
            rank[first + i] = i
