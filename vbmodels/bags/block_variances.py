"""Prior variances of the blocks: a hierarchical prior, and the search for their mode.

    log v_m = log .5 + g + d_m,   g ~ N(0, 1.5^2),   d_m ~ N(0, .8^2)

so log v is N(log .5, C), C = .64 I + 2.25 1 1'. Searched are log Z_EP(v) + log p(log v) in
coordinates in which C is a multiple of the unit matrix.
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
CONSTANT = 10.0
"""Prior variance of the constant."""


def _root(count: int) -> FloatArray:
    covariance = APART**2 * np.eye(count) + TOGETHER**2
    return cholesky(covariance, "the prior of the log variances") * UNIT


def variances(at: FloatArray) -> FloatArray:
    """Return v of the blocks, [M], at searched coordinates [M]."""
    result: FloatArray = np.exp(np.clip(MIDDLE + _root(at.size) @ at, -40.0, 40.0))
    return result


def log_prior(at: FloatArray) -> float:
    """Return log p(log v) without its constant, in nats."""
    return -0.5 * UNIT**2 * float(at @ at)


def searched_slope(at: FloatArray, slope: FloatArray) -> FloatArray:
    """Return the gradient of the objective from d log Z / d log v, [M]."""
    result: FloatArray = _root(at.size).T @ slope - UNIT**2 * at
    return result
