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


@njit(cache=True, nogil=True, error_model="numpy")
def middle_ranks(score, document, rank):
    """Fill (b + e/2) / m [W]: of a document's m units b are lower, e the same, itself among them.

    ``document`` [W] is the number of each unit's document, those of one side by side.
    """
    first = 0
    while first < len(score):
        last = first + 1
        while last < len(score) and document[last] == document[first]:
            last += 1
        size = last - first
        order = np.argsort(score[first:last])
        low = 0
        while low < size:
            high = low + 1
            while high < size and score[first + order[high]] == score[first + order[low]]:
                high += 1
            for i in range(low, high):
                rank[first + order[i]] = (low + 0.5 * (high - low)) / size
            low = high
        first = last
