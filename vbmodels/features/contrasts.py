"""What features do to the columns: shares of every category with a feature and without it.

Rows are as they are, so a feature's contrast is a mean over the other features that they have; it
is taken at draws of the weights and, given these, of the rows' features.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, xlogy

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.features.table import unit_offsets


def places(levels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the column and the number of every category; [C] each."""
    column = np.repeat(np.arange(len(levels)), levels)
    first = np.cumsum(levels) - levels
    return column, np.arange(len(column)) - first[column]


def contrast_sums(
    z: BoolArray, weights: FloatArray, levels: IntArray, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over rows [S, F, C] of every category's probability, with and without.

    Parameters
    ----------
    z, weights
        [S, N, F] features of the rows and [S, J, F + 1] biases and weights of every draw.
    levels
        [D] how many categories each column has.
    count
        [N] for how many each row counts.
    """
    draws, _, features = z.shape
    found = np.zeros((2, draws, features, int(np.sum(levels))))
    for s, own in enumerate(weights):
        for k in range(features):
            others, rows = _patterns(z[s], k, count)
            without = own[:, 0] + others @ own[:, 1:].T
            found[1, s, k] = _category_sums(without, rows, levels)
            found[0, s, k] = _category_sums(without + own[:, k + 1], rows, levels)
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
    return np.asarray((chance * count[:, None]).sum(0))


def information(
    with_it: FloatArray, without_it: FloatArray, pi: float, column: IntArray, columns: int
) -> FloatArray:
    """Return I_kd of every draw and column; [S, D]."""
    mix = pi * with_it + (1.0 - pi) * without_it
    safe = np.maximum(mix, 1e-300)
    terms = pi * xlogy(with_it, with_it / safe) + (1.0 - pi) * xlogy(without_it, without_it / safe)
    return np.asarray(terms @ (column[:, None] == np.arange(columns)))
