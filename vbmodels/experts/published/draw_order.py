"""One order of the experts for all draws: within a chain they may change places."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from vbmodels.core.state import FloatArray


def in_one_order(draws: FloatArray, density: FloatArray) -> FloatArray:
    """Return draws [chains, S, 2, K, p] with experts in the order of the densest draw's.

    Each is permuted to the largest inner product with that draw; gates less their mean, which
    the softmax does not see.
    """
    centred = draws.copy()
    centred[:, :, 0] -= centred[:, :, 0].mean(2, keepdims=True)
    pivot = centred[np.unravel_index(int(np.argmax(density)), density.shape)]
    gain = np.einsum("csrkp,rjp->csjk", centred, pivot)
    ordered = np.empty_like(draws)
    for i, s in np.ndindex(*density.shape):
        _, order = linear_sum_assignment(gain[i, s], maximize=True)
        ordered[i, s] = draws[i, s][:, order]
    return ordered


def mean_cosine(vectors: FloatArray) -> FloatArray:
    """Return the mean cosine over pairs of vectors [..., K, p]; [...]."""
    k = vectors.shape[-2]
    a = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    total = np.sum(a.sum(-2) ** 2, axis=-1)
    result: FloatArray = (total - k) / max(1, k * (k - 1))
    return result
