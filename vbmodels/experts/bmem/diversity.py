"""How far apart the experts point: the angular regulariser and the mutual angular prior.

a_k = beta_k / |beta_k|. Omega (Xie, Zhu and Xing 2016, after Xie, Deng and Xing 2015) is the
mean less the variance, over pairs, of the angles arccos |a_i'a_j|. The mutual angular prior
of type II is the density prod_i exp(kappa (-s_i)'a_i) / Z(kappa |s_i|), s_i = sum_{j<i} a_j,
on the sphere, with Z as in `vbmodels.experts.bmem.mutual_angular`.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import FloatArray

_LEAST = 1e-12


def directions(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors [K, p] and lengths [K]; a vector of length 0 stays 0."""
    length = np.sqrt(np.einsum("kp,kp->k", vectors, vectors))
    return vectors / np.maximum(length, _LEAST)[:, None], length


def _through(vectors: FloatArray, slope: FloatArray) -> FloatArray:
    """Turn a gradient in the unit vectors into one in the vectors."""
    a, length = directions(vectors)
    across = slope - np.einsum("kp,kp->k", slope, a)[:, None] * a
    result: FloatArray = across / np.maximum(length, _LEAST)[:, None]
    return result


def angles(vectors: FloatArray) -> FloatArray:
    """Return the non-obtuse angle of every pair i < j, in radians; [K (K - 1) / 2]."""
    a, _ = directions(vectors)
    i, j = np.triu_indices(len(vectors), 1)
    result: FloatArray = np.arccos(np.clip(np.abs((a @ a.T)[i, j]), 0.0, 1.0))
    return result


def omega(
    vectors: FloatArray, weight: float, variance_weight: float = 1.0
) -> tuple[float, FloatArray]:
    """Return weight * Omega (in eq 19) and its gradient in the vectors [K, p].

    The gradient of arccos |c| is -sign(c) / sqrt(1 - c^2); where two directions coincide
    (there it has none) its denominator is held at 1e-6.
    """
    a, _ = directions(vectors)
    i, j = np.triu_indices(len(vectors), 1)
    cosine = np.clip((a @ a.T)[i, j], -1.0, 1.0)
    angle = np.arccos(np.abs(cosine))
    value = angle.mean() - variance_weight * angle.var()
    in_angle = (1.0 - 2.0 * variance_weight * (angle - angle.mean())) / angle.size
    in_cosine = -in_angle * np.sign(cosine) / np.maximum(np.sqrt(1.0 - cosine**2), 1e-6)
    pairs = np.zeros((len(vectors), len(vectors)))
    pairs[i, j] = pairs[j, i] = weight * in_cosine
    return weight * float(value), _through(vectors, pairs @ a)
