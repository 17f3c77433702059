"""Probabilities of the categories of missing cells, and the true bound of a fit.

One yardstick for fits that came by different bounds is their true bound by Monte Carlo:

    E_q[log p(x | z, weights)] + E_q[log p(z | v)] + H[q(z)] - KL(q(weights), q(v))

with the logistic likelihood itself in place of any bound on it. The expectation over z and the
weights is a mean over draws, all else is in closed form. A draw takes one set of weights for all
rows; what a row draws depends on its answers alone, so partitions and grouping change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, xlog1py, xlogy

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.features.draw_kernels import draw_features, draw_uniform, row_keys
from vbmodels.features.ibp.model import FeatureGlobal, blocks, weight_kl
from vbmodels.features.ibp.sticks import best_sticks, bound_log_off, mean_log_on
from vbmodels.features.moment_kernels import sum_log_sigmoid
from vbmodels.features.table import MISSING, FeatureBatch, unit_offsets


@dataclass(frozen=True)
class HeldGlobal(State, kind="features/ibp.HeldGlobal"):
    """Polya-Gamma parameters that still move while the rows' features are held.

    Parameters
    ----------
    inner
        The parameters.
    left
        Sweeps that are left.
    """

    inner: FeatureGlobal
    left: int


_BOUND_STREAM = 4


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
    log_p = np.full(draws, entropy)
    for s in range(draws):
        noise = np.random.default_rng([_BOUND_STREAM, s]).standard_normal((most + 1, len(q.mean)))
        noise = noise[np.concatenate([[0], labels + 1])].T
        weights = q.mean + (factor @ noise[..., None])[..., 0]
        for rows in blocks(len(nu), batch.n_units):
            z = draw_uniform(row_keys(answers[rows], _BOUND_STREAM, s), most)[:, labels] < nu[rows]
            psi = weights[:, 0] + z @ weights[:, 1:].T
            log_p[s] += float(batch.count[rows] @ sum_log_sigmoid(batch.sign[rows], psi))
    return log_p


def fingerprints(batch: FeatureBatch) -> IntArray:
    """Return a number for each distinct row that depends on its cells alone; [U]."""
    return fingerprints_of(batch.codes)


def fingerprints_of(codes: NDArray[np.int16]) -> IntArray:
    """Return a number for each row of codes [N, D] that depends on them alone; [N]."""
    odd = np.random.default_rng(_BOUND_STREAM).integers(1, 2**62, codes.shape[1]) * 2 + 1
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
    rest = float(best_sticks(-np.sort(-on)[None], q.n_rows, q.alpha)[1][0])
    kl = weight_kl(q.mean, q.covariance, bias_variance, q.variance)
    value = float(likelihood.mean()) + rest - kl
    return value, float(likelihood.std(ddof=1) / np.sqrt(len(likelihood)))


_STREAM = 8


def category_probabilities(
    psi: FloatArray, levels: IntArray, columns: NDArray[np.intp]
) -> FloatArray:
    """Return P(category) of one column for each row of ``psi``; [M, R], 0 beyond R_d.

    P(r) = (1 - sigma(psi_r)) prod_{r' < r} sigma(psi_r'), the last takes what is left.

    Parameters
    ----------
    psi
        [M, J] log-odds of going on at each unit.
    levels
        [D] categories of each column.
    columns
        [M] column of each row to predict.
    """
    result = np.zeros((len(psi), int(np.max(levels))))
    first = unit_offsets(levels)
    for d in np.unique(columns):
        rows = np.flatnonzero(columns == d)
        result[rows, : levels[d]] = break_probabilities(psi[rows, first[d] : first[d + 1]])
    return result


def break_probabilities(psi: FloatArray) -> FloatArray:
    """Return the R category probabilities of R - 1 units' log-odds; [..., R]."""
    stop = np.concatenate([log_expit(-psi), np.zeros((*psi.shape[:-1], 1))], axis=-1)
    on = np.cumsum(log_expit(psi), axis=-1)
    reach = np.concatenate([np.zeros((*psi.shape[:-1], 1)), on], axis=-1)
    return np.asarray(np.exp(stop + reach))


def impute_sampled(
    q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray, draws: int = 20, sweeps: int = 3
) -> FloatArray:
    """Return P(category) of every missing cell, rows sampled under q(weights); [M, R].

    For each draw of the weights a row's features are drawn given them and the cells that it has,
    from q(z) on, and P(category) averages over the draws. q(z) itself, with mean
    weights, is too sure of itself: features that explain the same cells are independent there.
    What a row draws depends on its answers alone.

    Parameters
    ----------
    q
        Global parameters.
    batch, nu
        The partition and q(z = 1) of its distinct rows [U, K]; cells are in the order of
        `missing_cells`.
    draws, sweeps
        Draws of the weights, and of a row's features given each.
    """
    rows, columns = missing_cells(batch)
    needed, index = np.unique(batch.row_of[rows], return_inverse=True)
    total = np.zeros((len(rows), int(np.max(batch.levels))))
    if not len(rows):
        return total
    log_odds = mean_log_on(q.tau) - bound_log_off(q.tau)
    root = linalg.cholesky(q.covariance, "the covariance of the weights")
    answers, sign = fingerprints(batch)[needed], batch.sign[needed]
    for s in range(draws):
        noise = np.random.default_rng([_STREAM, s]).standard_normal((*q.mean.shape, 1))
        weights = q.mean + (root @ noise)[..., 0]
        start = draw_uniform(row_keys(answers, _STREAM, s), nu.shape[1])
        z = (start < nu[needed]).astype(np.int8)
        for sweep in range(sweeps):
            draw_features(sign, weights, log_odds, z, row_keys(answers, _STREAM, s, sweep))
        psi = weights[:, 0] + z @ weights[:, 1:].T
        total += category_probabilities(psi[index], batch.levels, columns) / draws
    return total


def missing_cells(batch: FeatureBatch) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (row, column) of every missing cell, row by row."""
    rows, columns = np.nonzero(batch.codes[batch.row_of] == MISSING)
    return rows, columns
