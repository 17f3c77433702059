"""The compiled step of latent classes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray

ROWS = 64
"""Rows whose responsibilities are worked out at once."""


@njit(cache=True)
def _log_responsibilities(codes, first, pi, theta, edges, r):  # type: ignore[no-untyped-def]
    """Set the log responsibilities r [N, L], up to a constant that leaves 0 the largest."""
    for n in range(len(codes)):
        own = r[n]
        for k in range(len(pi)):
            own[k] = pi[k]
        for d in range(codes.shape[1]):
            if codes[n, d] >= 0:
                of_level = theta[first[d] + codes[n, d]]
                for k in range(len(pi)):
                    own[k] += of_level[k]
        for lane in range(len(edges) - 1):
            top = -np.inf
            for k in range(edges[lane], edges[lane + 1]):
                top = max(top, own[k])
            for k in range(edges[lane], edges[lane + 1]):
                own[k] -= top


@njit(cache=True)
def _add_rows(codes, count, first, edges, r, rows, cells):  # type: ignore[no-untyped-def]
    """Add rows to the sums; r [N, L] are responsibilities up to a factor."""
    for n in range(len(codes)):
        own = r[n]
        for lane in range(len(edges) - 1):
            total = 0.0
            for k in range(edges[lane], edges[lane + 1]):
                total += own[k]
            for k in range(edges[lane], edges[lane + 1]):
                own[k] *= count[n] / total
        for k in range(len(own)):
            rows[k] += own[k]
        for d in range(codes.shape[1]):
            if codes[n, d] >= 0:
                cell = cells[first[d] + codes[n, d]]
                for k in range(len(own)):
                    cell[k] += own[k]


def class_sums(
    codes: NDArray[np.int16],
    count: FloatArray,
    levels: IntArray,
    pi: FloatArray,
    theta: FloatArray,
    edges: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the expected rows [L] of each class and its cells' categories [L, C].

    Parameters
    ----------
    codes, count
        [N, D] categories, -1 where missing, and [N] rows that each row counts for.
    levels
        [D] categories of each column.
    pi, theta
        [L] and [L, C] log weights of classes and of categories in them.
    edges
        First class of each lane, and L.
    """
    first = np.concatenate([[0], np.cumsum(levels)[:-1]]).astype(np.int64)
    rows, cells = np.zeros(len(pi)), np.zeros((theta.shape[1], len(pi)))
    by_category = np.ascontiguousarray(theta.T)
    for start in range(0, len(codes), ROWS):
        part = slice(start, start + ROWS)
        r = np.empty((len(codes[part]), len(pi)))
        _log_responsibilities(codes[part], first, pi, by_category, edges, r)
        _add_rows(codes[part], count[part], first, edges, np.exp(r, out=r), rows, cells)
    return rows, np.ascontiguousarray(cells.T)
