"""From Bayes factors to calls: local false discovery rates, q-values, e-BH."""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray

MOST_LFDR = 0.5


def local_fdr(log_bf: FloatArray, pi: float) -> FloatArray:
    """Return P(H0 | data) = (1-pi) / (1-pi + pi BF), [U]."""
    log_odds = np.log(pi) - np.log1p(-pi) + log_bf
    return np.asarray(np.exp(-np.logaddexp(0.0, log_odds)))


def q_values(lfdr: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Return the running mean of the sorted local fdr, made monotone from the top, [U].

    Calling all units with q <= .05 calls the longest prefix whose expected share of false
    calls is at most .05.

    Parameters
    ----------
    lfdr
        [U] local false discovery rates.
    weight
        [U] how many units each stands for; one by default.

    >>> q_values(np.array([0.2, 0.0, 0.1])).round(3).tolist()
    [0.1, 0.0, 0.05]
    """
    order = np.argsort(lfdr, kind="stable")
    w = np.ones(len(lfdr)) if weight is None else weight[order]
    running = np.cumsum(lfdr[order] * w) / np.maximum(np.cumsum(w), 1e-300)
    q = np.empty(len(lfdr))
    q[order] = np.minimum.accumulate(running[::-1])[::-1]
    return q


def called(lfdr: FloatArray, level: float) -> BoolArray:
    """Return the units with q <= level that are rather variants than not (lfdr <= 1/2).

    The running mean alone lets many certain calls pay for units that are most likely
    errors. Leaving these out only lowers the expected share of false calls.

    >>> called(np.array([0.0] * 20 + [0.4, 0.6]), 0.05).sum()
    np.int64(21)
    """
    return np.asarray((q_values(lfdr) <= level) & (lfdr <= MOST_LFDR))


def e_bh(log_bf: FloatArray, level: float) -> BoolArray:
    """Return the units that e-BH calls: the k best, k the largest with BF_(k) >= U / (level k).

    A Bayes factor is an e-value where the null model holds, so the level holds under any
    dependence between units (Wang and Ramdas 2022).
    """
    count = len(log_bf)
    order = np.argsort(-log_bf, kind="stable")
    k = np.arange(1, count + 1)
    passed = np.flatnonzero(log_bf[order] >= np.log(count / (level * k)))
    called = np.zeros(count, dtype=bool)
    if passed.size:
        called[order[: passed[-1] + 1]] = True
    return called


def prior_from_bayes_factors(log_bf: FloatArray, weight: FloatArray | None = None) -> float:
    """Return pi by EM on all units' Bayes factors: pi <- (sum z + .5) / (U + 1).

    For jobs whose other hyperparameters were fitted on a sample of the units. The EM is a
    scalar fixed point; Aitken's extrapolation takes it to 1e-10 of itself in a few passes.

    Parameters
    ----------
    log_bf
        [U] log Bayes factors.
    weight
        [U] how many units each stands for; one by default.
    """
    w = np.ones(len(log_bf)) if weight is None else weight
    total = float(w.sum())

    def step(pi: float) -> float:
        return (float(w @ (1.0 - local_fdr(log_bf, pi))) + 0.5) / (total + 1.0)

    pi = 0.01
    for _ in range(1000):
        first = step(pi)
        second = step(first)
        bend = (second - first) - (first - pi)
        jump = pi - (first - pi) ** 2 / bend if bend != 0.0 else second
        moved = jump if 0.0 < jump < 1.0 else second
        if abs(moved - pi) <= 1e-10 * pi:
            return float(moved)
        pi = moved
    return float(pi)
