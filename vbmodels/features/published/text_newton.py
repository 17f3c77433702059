"""The joint Newton step of the text's weights: (phi, log sigma^2) of a category, all k at once.

With u = phi + sigma^2 / 2, T = sum_n xi_nd P_nr, its derivative t and its second derivative H in u
(T enters the bound as -T, and data enter through T and a = sum_n E[z_n] alone), the bound in one
category's weights is

    a . phi - T(u) - sum_k (phi_k^2 + sigma_k^2) / (2 v) + sum_k log(sigma_k^2) / 2,

v the prior variance. In (phi, log sigma^2) its gradient is (a - t - phi / v, 1/2 - sigma^2 (t +
1/v) / 2); minus its second derivative has the blocks H + I/v, H diag(sigma^2 / 2), and
diag(sigma^2 / 2) H diag(sigma^2 / 2) + diag(sigma^2 (t + 1/v) / 2).
"""

from __future__ import annotations

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray

LARGEST_STEP = 2.0


def newton_step(
    phi: FloatArray,
    log_variance: FloatArray,
    linear: FloatArray,
    slope: FloatArray,
    packed: FloatArray,
    precision: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the step in phi and in log sigma^2, each coordinate at most ``LARGEST_STEP``.

    Parameters
    ----------
    phi, log_variance
        [L, K + 1] where to step from.
    linear, slope
        [L, K + 1] a and t.
    packed
        [L, (K + 1)(K + 2) / 2] H.
    precision
        1 / v.
    """
    size, variance = phi.shape[1], np.exp(log_variance)
    pull = slope + precision
    gradient = np.concatenate(
        [linear - slope - precision * phi, 0.5 - 0.5 * variance * pull], axis=1
    )
    h, half = linalg.unpack(packed), 0.5 * variance
    curvature = np.empty((len(h), 2 * size, 2 * size))
    curvature[:, :size, :size] = h + precision * np.eye(size)
    curvature[:, :size, size:] = h * half[:, None, :]
    curvature[:, size:, :size] = h * half[:, :, None]
    curvature[:, size:, size:] = h * half[:, None, :] * half[:, :, None]
    place = size + np.arange(size)
    curvature[:, place, place] += half * pull
    factor = linalg.cholesky(curvature, "the curvature of a category", jitter=1e-12)
    step = np.clip(linalg.solve(factor, gradient), -LARGEST_STEP, LARGEST_STEP)
    return step[:, :size], step[:, size:]
