"""Draws from the model, whose features are known."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from vbmodels.core.state import BoolArray, FloatArray, IntArray


def simulate_table(
    rng: np.random.Generator,
    n_rows: int,
    levels: IntArray,
    prevalence: FloatArray,
    weight_sd: float = 2.0,
    missing: float = 0.0,
) -> tuple[IntArray, BoolArray, FloatArray]:
    """Draw a table from the stick-breaking model.

    Returns
    -------
    codes, z, weights
        [N, D] categories with -1 where missing, [N, K] features, [J, K + 1] weights, bias first.
    """
    k, units = len(prevalence), int(np.sum(np.asarray(levels) - 1))
    z = rng.random((n_rows, k)) < prevalence
    weights = rng.normal(0.0, weight_sd, (units, k + 1))
    weights[:, 0] = rng.normal(-0.5, 1.0, units)
    psi = weights[:, 0] + z @ weights[:, 1:].T
    on = rng.random(psi.shape) < expit(psi)
    codes, first = np.zeros((n_rows, len(levels)), dtype=np.int64), 0
    for d, r in enumerate(levels):
        block = on[:, first : first + int(r) - 1]
        codes[:, d] = np.cumprod(block, axis=1).sum(1)
        first += int(r) - 1
    codes[rng.random(codes.shape) < missing] = -1
    return codes, z, weights
