"""The weights of binary units: q(B_j) in closed form, and their learned prior variances.

Unit j's weights (b0_j, B_j) are normal with mean 0; the bias has a fixed variance, feature k's
weights v_k, all of them the same or each its own. Learned, 1 / v has a Gamma(1, 1) prior and v is
the mode of its logarithm: that prior's two pseudo-weights of size 1 keep v from falling to 0 where
the data ask for no feature.

With q(B_j) at its best, m its mean and gamma_k = sum_j (1 - var_jk / v_k) the number of weights
that the data determine (MacKay 1992), the bound is stationary where

    v_k = (sum_j m_jk^2 + 2) / (gamma_k + 2).

The step that is taken is the geometric mean of v_k and that: log det(I + V D) is concave in v, its
tangent lies above it, and the minimum under the tangent is just there (Wipf and Nagarajan 2008),
so the bound never falls. MacKay's own step is longer and may lower it; the EM step crawls where
gamma is small, as it is for features that no row has.

One variance for all has a price: a feature that all rows have is a second bias, its weights are
small, and it draws the variance of the others down.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.expfam import Gaussian
from vbmodels.core.state import FloatArray

ROUNDS = 3
"""Rounds of weights and variances in one global step: each raises the bound, so few will do."""


def fit_weights(
    linear: FloatArray,
    packed: FloatArray,
    bias: float,
    variance: FloatArray,
    *,
    learn: bool,
    each: bool,
    rounds: int = ROUNDS,
) -> tuple[Gaussian, FloatArray]:
    """Return q(weights) of all units and the prior variances v, jointly optimal.

    Parameters
    ----------
    linear, packed
        [J, K + 1] sum_n s_nj E[z_n] and [J, (K + 1)(K + 2) / 2] sum_n E[omega_nj] E[z_n z_n'].
    bias
        Prior variance of the biases.
    variance
        [K] v, where to start.
    learn
        Whether v moves.
    each
        Whether every feature has its own.
    rounds
        Most rounds; one is made where v does not move.
    """
    data = linalg.unpack(packed)
    for _ in range(rounds):
        prior = 1.0 / np.concatenate([[bias], variance])
        factor = linalg.cholesky(data + np.diag(prior), "the precision of the weights")
        if not learn:
            break
        covariance = linalg.inverse(factor)
        mean = (covariance @ linear[:, :, None])[:, :, 0]
        spread = np.diagonal(covariance, axis1=1, axis2=2)[:, 1:]
        known = (1.0 - spread / variance).sum(0)
        square = (mean[:, 1:] ** 2).sum(0)
        if not each:
            known, square = np.full_like(known, known.sum()), np.full_like(known, square.sum())
        new = np.sqrt(variance * (square + 2.0) / (np.maximum(known, 0.0) + 2.0))
        done = bool(np.all(np.abs(new - variance) < 1e-6 * variance))
        variance = new
        if done:
            break
    return Gaussian(linalg.solve(factor, linear), factor), variance


def weight_kl(mean: FloatArray, covariance: FloatArray, bias: float, variance: FloatArray) -> float:
    """Return KL(q(weights) || p(weights)) of all units; arguments as above and in `Gaussian`."""
    prior = np.concatenate([[bias], variance])
    square = np.diagonal(covariance, axis1=1, axis2=2) + mean**2
    log_det = linalg.log_det(linalg.cholesky(covariance, "the covariance of the weights"))
    kl = 0.5 * ((square / prior).sum(1) - prior.size + np.log(prior).sum() - log_det)
    return float(kl.sum())


def log_prior(variance: FloatArray, *, each: bool) -> float:
    """Return the log prior of log v, up to a constant."""
    free = variance if each else variance[:1]
    return float(-(np.log(free) + 1.0 / free).sum())
