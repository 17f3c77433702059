"""Probabilities of the categories of missing cells.

The weights of Polya-Gamma for features that another form has found, which are held.

The forms of the papers have weights of their own; reports, missing cells and new rows are read
from these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.features.draw_kernels import draw_features, draw_uniform, row_keys
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.ibp.monte_carlo_bound import fingerprints
from vbmodels.features.ibp.sticks import bound_log_off, mean_log_on
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


def weights_of_held(q: object) -> FeatureGlobal:
    """Return the Polya-Gamma parameters of a state that has reached them.

    Raises
    ------
    TypeError
        If the features are not found yet.
    """
    if not isinstance(q, HeldGlobal):
        raise TypeError(f"expected Polya-Gamma parameters, got a {type(q).__name__}")
    return q.inner


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
    most = int(np.max(levels))
    result = np.zeros((len(psi), most))
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
    needed, place = np.unique(batch.row_of[rows], return_inverse=True)
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
        total += category_probabilities(psi[place], batch.levels, columns) / draws
    return total


def missing_cells(batch: FeatureBatch) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (row, column) of every missing cell, row by row."""
    rows, columns = np.nonzero(batch.codes[batch.row_of] == MISSING)
    return rows, columns
