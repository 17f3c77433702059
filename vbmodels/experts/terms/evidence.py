"""The log evidence of a block that a fit lacks, by sums of the fit's residuals over levels.

With r_n = t_n sigma(-t_n f_n) the slope of a row, Phi the functions of a block and M those that the
fit has of the same columns, its score is Phi'r and, as rows vary, its variance Phi' diag(r^2) Phi,
both freed of M (Schur complement). A block's coefficients N(0, v I) then have the log evidence

    L(v) = h'(A + I/v)^-1 h / 2 - log |I + v A| / 2,

A and h its variance and score. r^2 in place of p (1 - p): a row of tiny p that is wrong would
else make tens of nats by itself. Both are sums over rows, and of levels alone: sum r and sum r^2
for every level say all.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import FloatArray

_RIDGE = 1e-3


def freed(
    functions: FloatArray, own: FloatArray, first: FloatArray, second: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return A [q, q] and h [q].

    Parameters
    ----------
    functions
        Phi at the levels; [L, q].
    own
        M; [L, m].
    first, second
        Sums of r and of r^2 of the levels; [L].
    """
    weighted = own * second[:, None]
    inner = own.T @ weighted
    inner[np.diag_indices(len(inner))] += _RIDGE * np.trace(inner) / len(inner) + 1e-300
    cross = weighted.T @ functions
    solved = np.linalg.solve(inner, np.column_stack([cross, own.T @ first]))
    a = functions.T @ (functions * second[:, None]) - cross.T @ solved[:, :-1]
    return a, functions.T @ first - cross.T @ solved[:, -1]


def evidence(a: FloatArray, h: FloatArray, variances: FloatArray) -> FloatArray:
    """Return L of A [..., q, q] and h [..., q] at variances [V]; [..., V]."""
    size, axes = np.linalg.eigh(a)
    size = np.maximum(size, 0.0)[..., None, :]
    square = np.einsum("...ji,...j->...i", axes, h)[..., None, :] ** 2
    v = variances[:, None]
    gain = v * square / (1.0 + v * size) - np.log1p(v * size)
    return np.asarray(0.5 * gain.sum(-1))
