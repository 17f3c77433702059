"""Prior variances of the blocks: a hierarchical prior, and the search for their mode.

    log v_m = log .5 + g + d_m,   g ~ N(0, 1.5^2),   d_m ~ N(0, .8^2)

so log v is N(log .5, C), C = .64 I + 2.25 1 1'. Searched are log Z_EP(v) + log p(log v) in
coordinates in which C is a multiple of the unit matrix.

Near the mode `stepped` needs no search: with a_m = |w_m|^2/v_m and g_m = D_m - tr(A^-1)_mm/v_m the
slope in log v_m is (a_m - g_m)/2, and its own slope about -g_m/2, what MacKay's v_m <- |w_m|^2/g_m
(1992) rests on.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.linalg import cholesky
from vbmodels.core.state import FloatArray

MIDDLE = float(np.log(0.5))
TOGETHER, APART = 1.5, 0.8
"""Prior sds of what all blocks' log variances share, and of each one's own."""
UNIT = 0.1
"""Prior sds of one step of the searched coordinates: curvature of the evidence is below 1 there."""
FARTHEST = 1.5
"""Farthest that a step takes a block's log variance."""
HIGHEST = float(np.log(1e6))
"""Largest log variance: of numbers without noise it has no maximum."""
CONSTANT = 10.0
"""Prior variance of the constant."""


def _root(count: int) -> FloatArray:
    covariance = APART**2 * np.eye(count) + TOGETHER**2
    return cholesky(covariance, "the prior of the log variances") * UNIT


def variances(at: FloatArray) -> FloatArray:
    """Return v of the blocks, [M], at searched coordinates [M]."""
    return np.exp(np.clip(MIDDLE + _root(at.size) @ at, -40.0, HIGHEST))


def log_prior(at: FloatArray) -> float:
    """Return log p(log v) without its constant, in nats."""
    return -0.5 * UNIT**2 * float(at @ at)


def searched_slope(at: FloatArray, slope: FloatArray) -> FloatArray:
    """Return the gradient of the objective from d log Z / d log v, [M]."""
    return _root(at.size).T @ slope - UNIT**2 * at


def stepped(at: FloatArray, size: FloatArray, determined: FloatArray) -> tuple[FloatArray, float]:
    """Return coordinates one step nearer to the mode, and the rise in nats that it promises.

    Parameters
    ----------
    at
        Searched coordinates, [M].
    size, determined
        a and g, [M].
    """
    root = _root(at.size)
    slope = searched_slope(at, 0.5 * (size - determined))
    bend = 0.5 * np.maximum(np.maximum(size, determined), 0.0)
    step = np.linalg.solve(root.T @ (bend[:, None] * root) + UNIT**2 * np.eye(at.size), slope)
    share = FARTHEST / max(float(np.abs(root @ step).max()), FARTHEST)
    return at + share * step, 0.5 * float(slope @ step)
