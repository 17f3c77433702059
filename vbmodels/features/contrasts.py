"""What features do to the columns: shares of every category with a feature and without it.

Rows are as they are, so a feature's contrast is a mean over the other features that they have; it
is taken at draws of q(weights) and of the rows' features.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, xlogy

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.table import unit_offsets

FEWEST_DRAWS, MOST_DRAWS, WORK = 16, 256, 20_000
"""Draws of the weights: `WORK` over units times features, within these."""
_STREAM = 7


def places(levels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the column and the number of every category; [C] each."""
    column = np.repeat(np.arange(len(levels)), levels)
    first = np.cumsum(levels) - levels
    return column, np.arange(len(column)) - first[column]


def contrast_sums(
    nu: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    levels: IntArray,
    row_id: IntArray,
    count: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over rows [S, F, C] of every category's probability, with and without.

    Parameters
    ----------
    nu
        [N, F] probabilities of the features.
    mean, covariance
        [J, F + 1] and [J, F + 1, F + 1] of biases and weights.
    levels
        [D] how many categories each column has.
    row_id, count
        [N] numbers of the rows, by which they draw, and for how many each counts.
    """
    features = nu.shape[1]
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    draws = min(max(WORK // max(nu.shape[1] * len(mean), 1), FEWEST_DRAWS), MOST_DRAWS)
    found = np.zeros((2, draws, features, int(np.sum(levels))))
    for s in range(draws):
        noise = np.random.default_rng([_STREAM, s]).standard_normal((*mean.shape, 1))
        weights = mean + (root @ noise)[..., 0]
        z = draw_uniform(row_keys(row_id, _STREAM, s), features) < nu
        for k in range(features):
            others, own = _patterns(z, k, count)
            without = weights[:, 0] + others @ weights[:, 1:].T
            found[1, s, k] = _category_sums(without, own, levels)
            found[0, s, k] = _category_sums(without + weights[:, k + 1], own, levels)
    return found[0], found[1]


def _patterns(z: BoolArray, k: int, count: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return the distinct rows of z [N, F] without feature k, and what counts for each."""
    others = z.copy()
    others[:, k] = False
    bits = np.packbits(others, axis=1)
    _, first, place = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    return others[first], np.bincount(place.reshape(-1), count).astype(np.float64)


def _category_sums(psi: FloatArray, count: FloatArray, levels: IntArray) -> FloatArray:
    """Return the sum over rows of every category's probability; psi is [B, J], the sum [C]."""
    column, category = places(levels)
    first = unit_offsets(levels)
    unit = first[column] + category
    last = category == np.asarray(levels)[column] - 1
    go_on = np.concatenate([np.zeros((len(psi), 1)), np.cumsum(log_expit(psi), axis=1)], axis=1)
    stop = np.concatenate([log_expit(-psi), np.zeros((len(psi), 1))], axis=1)
    reach = go_on[:, unit] - go_on[:, first[column]]
    chance = np.exp(reach + stop[:, np.where(last, psi.shape[1], unit)])
    total: FloatArray = (chance * count[:, None]).sum(0)
    return total


Spread = tuple[FloatArray, FloatArray] | None
"""Covariances of contrasts by q, and with what q leaves out."""


def widening(spread: Spread, along: FloatArray) -> FloatArray:
    """Return by what the sd of contrasts along directions [C, M] is larger than under q; [M]."""
    if spread is None:
        return np.ones(along.shape[1])
    narrow, whole = (np.sum(along * (one @ along), axis=0) for one in spread)
    result: FloatArray = np.sqrt(np.maximum(whole, 1e-300) / np.maximum(narrow, 1e-300))
    return result


def information(
    with_it: FloatArray, without_it: FloatArray, pi: float, column: IntArray, columns: int
) -> FloatArray:
    """Return I_kd of every draw and column; [S, D]."""
    mix = pi * with_it + (1.0 - pi) * without_it
    safe = np.maximum(mix, 1e-300)
    terms = pi * xlogy(with_it, with_it / safe) + (1.0 - pi) * xlogy(without_it, without_it / safe)
    result: FloatArray = terms @ (column[:, None] == np.arange(columns))
    return result
