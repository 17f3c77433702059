# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""TextRank of many small graphs without a call for each."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def textrank(documents, offsets, row, col, count, edge_offsets, damping, out):
    """Fill [W] with `graph.textrank` of some documents, by Cholesky's U'U = I - d Q.

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
        root = np.sqrt(np.where(degree > 0.0, degree, 1.0))
        u = room[:n, :n]
        u[:] = 0.0
        for i in range(n):
            u[i, i] = 1.0
        for e in range(edge_offsets[d], edge_offsets[d + 1]):
            i, j = row[e], col[e]  # i <= j: the upper triangle
            u[i, j] -= damping * count[e] / (root[i] * root[j])
        b = 1.0 / root
        for k in range(n):
            u[k, k:] /= np.sqrt(u[k, k])
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
