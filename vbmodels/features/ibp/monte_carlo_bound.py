"""One yardstick for fits that came by different bounds: their true bound by Monte Carlo.

    E_q[log p(x | z, weights)] + E_q[log p(z | v)] + H[q(z)] - KL(q(weights), q(v))

with the logistic likelihood itself in place of any bound on it. The expectation over z and the
weights is a mean over draws, all else is in closed form. A draw takes one set of weights for all
rows; what a row draws depends on its answers alone, so partitions and grouping change nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.ibp.model import FeatureGlobal, blocks, weight_kl
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.moment_kernels import sum_log_sigmoid
from vbmodels.features.table import FeatureBatch

_STREAM = 4


def likelihood_draws(
    q: FeatureGlobal,
    batch: FeatureBatch,
    nu: FloatArray,
    draws: int,
    labels: IntArray | None = None,
) -> FloatArray:
    """Return log p(x | z, weights) + H[q(z)] of a partition for every draw; [S].

    Parameters
    ----------
    q
        Global parameters.
    batch, nu
        The partition and q(z = 1) of its distinct rows [U, K].
    draws
        S.
    labels
        [K] which random numbers each feature takes, from 0; by default its place. Fits that
        share features compare closely where these have the same labels in both.
    """
    labels = np.arange(nu.shape[1]) if labels is None else labels
    most = int(labels.max(initial=-1)) + 1
    entropy = -float(batch.count @ (xlogy(nu, nu) + xlog1py(1.0 - nu, -nu)).sum(1))
    factor = np.linalg.cholesky(q.covariance)
    answers = fingerprints(batch)
    found = np.full(draws, entropy)
    for s in range(draws):
        noise = np.random.default_rng([_STREAM, s]).standard_normal((most + 1, len(q.mean)))
        noise = noise[np.concatenate([[0], labels + 1])].T
        weights = q.mean + (factor @ noise[..., None])[..., 0]
        for rows in blocks(len(nu), batch.n_units):
            z = draw_uniform(row_keys(answers[rows], _STREAM, s), most)[:, labels] < nu[rows]
            psi = weights[:, 0] + z @ weights[:, 1:].T
            found[s] += float(batch.count[rows] @ sum_log_sigmoid(batch.sign[rows], psi))
    return found


def fingerprints(batch: FeatureBatch) -> IntArray:
    """Return a number for each distinct row that depends on its cells alone; [U]."""
    return fingerprints_of(batch.codes)


def fingerprints_of(codes: NDArray[np.int16]) -> IntArray:
    """Return a number for each row of codes [N, D] that depends on them alone; [N]."""
    odd = np.random.default_rng(_STREAM).integers(1, 2**62, codes.shape[1]) * 2 + 1
    with np.errstate(over="ignore"):
        result: IntArray = (codes.astype(np.int64) + 2) @ odd
    return result


def measured(
    q: FeatureGlobal, on: FloatArray, likelihood: FloatArray, bias_variance: float
) -> tuple[float, float]:
    """Return the yardstick, with the sticks at their best, and its Monte-Carlo error.

    Parameters
    ----------
    q
        Global parameters.
    on
        [K] sum of q(z = 1) over the rows.
    likelihood
        `likelihood_draws` summed over the partitions; [S], S at least 2.
    bias_variance
        Prior variance of the biases.
    """
    falling = -np.sort(-on)[None]
    rest = float(best_sticks(falling, q.n_rows, q.alpha)[1][0])
    kl = weight_kl(q.mean, q.covariance, bias_variance, q.variance)
    value = float(likelihood.mean()) + rest - kl
    return value, float(likelihood.std(ddof=1) / np.sqrt(len(likelihood)))
