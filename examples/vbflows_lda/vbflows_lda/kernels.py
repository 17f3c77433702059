"""The two loops over words: compiled, and the same in NumPy."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy.special import digamma, gammaln

from vbmodels.core.state import FloatArray, IntArray

SUMS = {"reassoc", "contract"}
"""What the compiler may do with sums over topics: order them for the processor."""


@njit(cache=True, fastmath=False)
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


@njit(cache=True, fastmath=False, forceinline=True)
def _exp_digamma(x: float) -> float:
    """Return exp(digamma(x)), x > 0, without a logarithm; relative error below 1e-13.

    With y = x - 1/2, exp(digamma(x)) ~ y (1 + 1 / (24 y^2) - 37 / (5760 y^4) + ...): the
    exponential of digamma's own series about 1/2. Below 8 x goes up by 8, as digamma(x) =
    digamma(x + 8) - 1 / x - ... - 1 / (x + 7), which is one fraction.
    """
    above, below, shift = 0.0, 1.0, 0.0
    if x < 8.0:
        for i in range(8):
            above = above * (x + i) + below
            below *= x + i
        shift = 8.0
    y = x + shift - 0.5
    z = 1.0 / (y * y)
    tail = 2709398569 / 367873228800 - z * (499769010050743 / 24103053950976000)
    tail = 10313 / 2903040 - z * (5509121 / 1393459200 - z * tail)
    return y * (1.0 + z * (1 / 24 - z * (37 / 5760 - z * tail))) * math.exp(-above / below)


@njit(cache=True, fastmath=SUMS, forceinline=True)
def _climb(
    gamma: FloatArray, share: FloatArray, new: FloatArray, weights: FloatArray, word: IntArray,
    count: FloatArray, alpha: float, inner: int, tol: float,
) -> None:  # fmt: skip
    """Update one document's gamma [K] in place; a factor common to its share changes nothing."""
    topics = len(gamma)
    for _ in range(inner):
        for k in range(topics):
            share[k] = _exp_digamma(gamma[k])
            new[k] = 0.0
        for i in range(len(word)):
            row, norm = weights[word[i]], 1e-300
            for k in range(topics):
                norm += share[k] * row[k]
            scale = count[i] / norm
            for k in range(topics):
                new[k] += scale * row[k]
        change = 0.0
        for k in range(topics):
            new[k] = alpha + share[k] * new[k]
            change += abs(new[k] - gamma[k])
        if change < tol * topics:
            break
        gamma[:] = new


@njit(cache=True, fastmath=SUMS, forceinline=True)
def _value(
    gamma: FloatArray, share: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray,
    alpha: float,
) -> float:  # fmt: skip
    """Return one document's part of the bound, but for constants."""
    total = gamma.sum()
    shift, value = _digamma(total), -math.lgamma(total)
    for k in range(len(gamma)):
        mean_log = _digamma(gamma[k]) - shift
        value += math.lgamma(gamma[k]) - (gamma[k] - alpha) * mean_log
        share[k] = math.exp(mean_log)
    for i in range(len(word)):
        row, norm = weights[word[i]], 1e-300
        for k in range(len(gamma)):
            norm += share[k] * row[k]
        value += count[i] * math.log(norm)
    return value


@njit(cache=True, fastmath=SUMS)
def settle(
    gamma: FloatArray, cold: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray,
    offsets: IntArray, alpha: float, inner: int, tol: float,
) -> FloatArray:  # fmt: skip
    """Return the better end of two climbs of each document: from gamma [D, K] and from cold [D, K].

    Where no state is warm, ``gamma`` has no rows. ``weights`` is exp E log beta, [V, K].
    """
    out = cold.copy()
    share, new = np.empty(cold.shape[1]), np.empty(cold.shape[1])
    for d in range(len(cold)):
        words, counts = word[offsets[d] : offsets[d + 1]], count[offsets[d] : offsets[d + 1]]
        _climb(out[d], share, new, weights, words, counts, alpha, inner, tol)
        if len(gamma) > 0:
            warm = gamma[d].copy()
            _climb(warm, share, new, weights, words, counts, alpha, inner, tol)
            if np.abs(warm - out[d]).sum() < tol * len(warm):
                out[d] = warm  # one end, and the later one where both are cut short
            elif _value(warm, share, weights, words, counts, alpha) >= _value(
                out[d], share, weights, words, counts, alpha
            ):
                out[d] = warm
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
    gamma: FloatArray, cold: FloatArray, weights: FloatArray, word: IntArray, count: FloatArray,
    offsets: IntArray, alpha: float, inner: int, tol: float,
) -> FloatArray:  # fmt: skip
    """Return what `settle` does."""
    out = cold.copy()
    for d in range(len(cold)):
        here = slice(offsets[d], offsets[d + 1])
        rows, counts = weights[word[here]], count[here]
        ends = []
        for start in (gamma[d], cold[d]) if len(gamma) else (cold[d],):
            at = start
            for step in range(inner + 1):
                mean_log = digamma(at) - digamma(at.sum())
                norm = rows @ np.exp(mean_log) + 1e-300
                value = gammaln(at).sum() - gammaln(at.sum()) - ((at - alpha) * mean_log).sum()
                value += counts @ np.log(norm)
                new = alpha + np.exp(mean_log) * ((counts / norm) @ rows)
                if step == inner or np.abs(new - at).sum() < tol * len(new):
                    break
                at = new
            ends.append((value, at))
        out[d] = max(ends, key=lambda end: end[0])[1]
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
