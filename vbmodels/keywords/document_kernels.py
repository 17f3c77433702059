# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Loops over documents without a call for each: ranks, parts of others, TextRank of graphs."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def ranking(score, offsets, order, rank):
    """Fill `selection._ranking`: rows best first in each document, and ranks from 0; stable."""
    for d in range(len(offsets) - 1):
        first, last = offsets[d], offsets[d + 1]
        best = np.argsort(-score[first:last], kind="mergesort")
        for i in range(last - first):
            order[first + i], rank[first + i] = first + best[i], i


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
        order = np.argsort(score[first:last], kind="mergesort")  # as in `ranking`: compiled once
        low = 0
        while low < size:
            high = low + 1
            while high < size and score[first + order[high]] == score[first + order[low]]:
                high += 1
            for i in range(low, high):
                rank[first + order[i]] = (low + 0.5 * (high - low)) / size
            low = high
        first = last


@njit(cache=True, nogil=True, error_model="numpy")
def keep_wholes(rows, size, ends, by_phrase, first, beyond, phrase, start, end, kept):
    """Mark of some candidates, best first, those that `selection.without_parts` keeps.

    Parameters
    ----------
    rows, size
        The candidates, and the words of each [M].
    ends, by_phrase
        [M + 1] and [O] occurrences of each candidate.
    first, beyond
        [O] the occurrences that each may be inside of.
    phrase, start, end
        [O] candidate, first word and the word behind the last of each occurrence.
    kept
        [M] whether a candidate is kept.
    """
    for row in rows:
        for i in by_phrase[ends[row] : ends[row + 1]]:
            whole = True
            for o in range(first[i], beyond[i]):
                shared = min(end[o], end[i]) - max(start[o], start[i])
                longer = 2 * shared > size[row] and shared < end[o] - start[o]
                whole &= not (longer and kept[phrase[o]])
            kept[row] |= whole


@njit(cache=True, nogil=True, error_model="numpy")
def textrank(documents, offsets, row, col, count, edge_offsets, damping, out):
    """Fill [W] with TextRank, (1 - d) D^1/2 B^-1 D^-1/2 1, of documents, by Cholesky's U'U = B.

    Parameters
    ----------
    documents
        Numbers of the documents.
    offsets, row, col, count, edge_offsets
        As in `KeywordBatch`.
    """
    most = 0
    for d in documents:
        most = max(most, offsets[d + 1] - offsets[d])
    room = np.empty((most, most))
    for d in documents:
        first, n = offsets[d], offsets[d + 1] - offsets[d]
        degree = np.zeros(n)
        for e in range(edge_offsets[d], edge_offsets[d + 1]):
            degree[row[e]] += count[e]
            if row[e] != col[e]:
                degree[col[e]] += count[e]
        root, b = np.empty(n), np.empty(n)
        u = room[:n, :n]
        for i in range(n):
            root[i] = math.sqrt(degree[i] if degree[i] > 0.0 else 1.0)
            b[i] = 1.0 / root[i]
            for j in range(n):
                u[i, j] = 1.0 if i == j else 0.0
        for e in range(edge_offsets[d], edge_offsets[d + 1]):
            i, j = row[e], col[e]  # i <= j: the upper triangle
            u[i, j] -= damping * count[e] / (root[i] * root[j])
        for k in range(n):
            pivot = math.sqrt(u[k, k])
            for j in range(k, n):
                u[k, j] /= pivot
            b[k] /= u[k, k]
            for i in range(k + 1, n):
                share = u[k, i]
                if share != 0.0:
                    for j in range(i, n):
                        u[i, j] -= share * u[k, j]
                    b[i] -= share * b[k]
        for k in range(n - 1, -1, -1):
            for j in range(k + 1, n):
                b[k] -= u[k, j] * b[j]
            b[k] /= u[k, k]
            out[first + k] = (1.0 - damping) * root[k] * b[k]
