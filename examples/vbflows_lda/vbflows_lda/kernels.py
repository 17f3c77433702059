"""The two loops over words: compiled, and the same in NumPy."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import digamma

from vbmodels.core.state import FloatArray, IntArray

SUMS = {"reassoc", "contract"}
"""What the compiler may do with sums over topics: order them for the processor."""


@njit(cache=True)
def _digamma(x: float) -> float:
    """Return digamma(x), x > 0: upwards to 10 by its recurrence, then Stirling's series."""
    total = 0.0
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    tail = 1 / 240 - y * (1 / 132 - y * 691 / 32760)
    tail = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * tail)))
    return total + math.log(x) - 0.5 / x - tail


@njit(cache=True, fastmath=SUMS)
def settle(
    gamma: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray, offsets: IntArray,
    alpha: float, inner: int, tol: float,
) -> FloatArray:  # fmt: skip
    """Update each document's gamma [D, K] until it changes by less than ``tol`` on average.

    ``weights`` is exp E log beta, [V, K].
    """
    documents, topics = gamma.shape
    out = gamma.copy()
    share, new = np.empty(topics), np.empty(topics)
    for d in range(documents):
        for _ in range(inner):
            total = 0.0
            for k in range(topics):
                total += out[d, k]
            shift = _digamma(total)
            for k in range(topics):
                share[k] = math.exp(_digamma(out[d, k]) - shift)
                new[k] = 0.0
            for i in range(offsets[d], offsets[d + 1]):
                row, norm = weights[word[i]], 1e-300
                for k in range(topics):
                    norm += share[k] * row[k]
                scale = count[i] / norm
                for k in range(topics):
                    new[k] += scale * row[k]
            change = 0.0
            for k in range(topics):
                value = alpha + share[k] * new[k]
                change += abs(value - out[d, k])
                out[d, k] = value
            if change < tol * topics:
                break
    return out


@njit(cache=True, fastmath=SUMS)
def collect(
    share: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray, offsets: IntArray
) -> tuple[FloatArray, float]:
    """Return expected counts [V, K], and sum_dw n_dw log sum_k share_dk weights_wk."""
    documents, topics = share.shape
    counts = np.zeros(weights.shape)
    total = 0.0
    for d in range(documents):
        for i in range(offsets[d], offsets[d + 1]):
            row, norm = weights[word[i]], 1e-300
            for k in range(topics):
                norm += share[d, k] * row[k]
            total += count[i] * math.log(norm)
            scale = count[i] / norm
            for k in range(topics):
                counts[word[i], k] += scale * share[d, k] * row[k]
    return counts, total


def settle_plain(
    gamma: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray, offsets: IntArray,
    alpha: float, inner: int, tol: float,
) -> FloatArray:  # fmt: skip
    """Return what `settle` does."""
    out = gamma.copy()
    for d in range(len(gamma)):
        here = slice(offsets[d], offsets[d + 1])
        rows = weights[word[here]]
        for _ in range(inner):
            share = np.exp(digamma(out[d]) - digamma(out[d].sum()))
            new = alpha + share * ((count[here] / (rows @ share + 1e-300)) @ rows)
            change = np.abs(new - out[d]).sum()
            out[d] = new
            if change < tol * len(new):
                break
    return out


def collect_plain(
    share: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray, offsets: IntArray
) -> tuple[FloatArray, float]:
    """Return what `collect` does."""
    joint = np.repeat(share, np.diff(offsets), axis=0) * weights[word]
    norm = joint.sum(axis=1) + 1e-300
    counts = np.zeros(weights.shape)
    np.add.at(counts, word, joint * (count / norm)[:, None])
    return counts, float(count @ np.log(norm))
