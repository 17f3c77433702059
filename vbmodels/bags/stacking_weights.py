"""The weights of a stack (`vbmodels.core.stacking`) from all predictions at once."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.stacking import CONCENTRATION, moved_weights
from vbmodels.core.state import FloatArray

MOST_ROUNDS = 10_000


def stacked(log_p: FloatArray) -> FloatArray:
    """Return the weights, [K], from the members' log probabilities of n labels, [n, K]."""
    n, k = log_p.shape
    weights: FloatArray = np.full(k, 1.0 / k)
    for _ in range(MOST_ROUNDS):
        joint = log_p + np.log(weights)
        told = np.exp(joint - logsumexp(joint, axis=1, keepdims=True)).sum(axis=0)
        new = moved_weights(told, n)
        done = np.abs(new - weights).max() <= 1e-12
        weights = new
        if done:
            break
    return weights


def objective(log_p: FloatArray, weights: FloatArray) -> float:
    """Return what `stacked` maximises, in nats."""
    said = logsumexp(log_p + np.log(weights), axis=1).sum()
    return float(said + (CONCENTRATION - 1.0) * np.log(weights).sum())
