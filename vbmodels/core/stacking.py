"""Weights of a mixture of predictions, by the probability that each gives what it has not seen.

    argmax_w sum_i log sum_k w_k p_ik + (a - 1) sum_k log w_k,   w on the simplex

by EM (stacking of predictive densities: Yao, Vehtari, Simpson and Gelman 2018; here with a
Dirichlet(a) prior, a = 1.2, which keeps every member a little). A step needs sums alone:

    t_k = sum_i w_k p_ik / sum_l w_l p_il,    w_k <- (t_k + a - 1) / (n + K (a - 1))
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.state import FloatArray

CONCENTRATION = 1.2


def moved_weights(taken: FloatArray, n: float) -> FloatArray:
    """Return the weights [K] after a step.

    Parameters
    ----------
    taken
        t, the sums of each member's responsibilities, [K].
    n
        How many predictions were summed over.
    """
    added = CONCENTRATION - 1.0
    return (taken + added) / (n + len(taken) * added)


MOST_ROUNDS = 10_000


def stacked(log_p: FloatArray) -> FloatArray:
    """Return the weights, [K], from the members' log probabilities of n labels, [n, K]."""
    n, k = log_p.shape
    weights: FloatArray = np.full(k, 1.0 / k)
    for _ in range(MOST_ROUNDS):
        joint = log_p + np.log(weights)
        taken = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)).sum(axis=0)
        new = moved_weights(taken, n)
        done = np.abs(new - weights).max() <= 1e-12
        weights = new
        if done:
            break
    return weights


def objective(log_p: FloatArray, weights: FloatArray) -> float:
    """Return what `stacked` maximises, in nats."""
    said = logsumexp(log_p + np.log(weights), axis=1).sum()
    return float(said + (CONCENTRATION - 1.0) * np.log(weights).sum())
