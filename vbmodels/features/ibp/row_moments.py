"""Moments of a block of rows under q(z) and q(omega), as matrix products that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vbmodels.core.special import polya_gamma_mean
from vbmodels.core.state import FloatArray

BLOCK = 512
"""Rows worked on at once: their second moments stay in the cache."""


def blocks(n: int) -> Iterator[slice]:
    """Cut rows so that their second moments stay in the cache."""
    return (slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK))


def with_one(nu: FloatArray) -> FloatArray:
    """Return E[z] with its leading 1; [B, K + 1]."""
    return np.concatenate([np.ones((len(nu), 1)), nu], axis=1)


def row_moments(z: FloatArray) -> FloatArray:
    """E[z z'] of every row, z with its leading 1; [B, (K + 1)^2]."""
    moments = z[:, :, None] * z[:, None, :]
    diagonal = np.arange(z.shape[1])
    moments[:, diagonal, diagonal] = z
    return moments.reshape(len(z), -1)


def tilt_of(nu: FloatArray, second: FloatArray) -> FloatArray:
    """Return c_nj = sqrt(E[psi_nj^2]); [B, J]."""
    return np.sqrt(row_moments(with_one(nu)) @ second.T)


def mean_omega(tilt: FloatArray, sign: FloatArray) -> FloatArray:
    """E[omega] of the units that were asked, 0 elsewhere; [B, J]."""
    return np.abs(sign) * polya_gamma_mean(tilt)


def log_two_cosh(tilt: FloatArray) -> FloatArray:
    """log(2 cosh(c / 2)), what a unit costs at its best c; [B, J]."""
    a = np.abs(tilt)
    result: FloatArray = 0.5 * a + np.log1p(np.exp(-a))
    return result
