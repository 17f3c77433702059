"""Gates and experts as a vector without constraints, for the acceleration of coordinate ascent.

Gaussians: the mean and the Cholesky factor of the covariance with a logarithmic diagonal.
Angular factors: the direction (which is normalised on the way back) and the logarithms of
concentration, shape and mean length.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.linalg import cholesky, pack
from vbmodels.core.state import FloatArray
from vbmodels.experts.published.mabn import Angular
from vbmodels.experts.published.normals import Normals


def flat(q: Normals | Angular) -> FloatArray:
    """Return the coordinates of one factor."""
    if isinstance(q, Angular):
        rest = np.log(np.concatenate([q.concentration, q.shape, q.length]))
        return np.concatenate([q.direction.ravel(), rest])
    factor = cholesky(q.covariance, "a covariance")
    at = np.arange(factor.shape[-1])
    factor[:, at, at] = np.log(factor[:, at, at])
    return np.concatenate([q.mean.ravel(), pack(factor).ravel()])


def moved(q: Normals | Angular, vector: FloatArray) -> Normals | Angular:
    """Return a factor like ``q`` at these coordinates."""
    if isinstance(q, Angular):
        k, p = q.direction.shape
        direction = vector[: k * p].reshape(k, p)
        direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        rest = np.exp(vector[k * p :]).reshape(3, k)
        return Angular(direction, *rest)
    k, p = q.mean.shape
    factor = np.zeros((k, p, p))
    rows, columns = np.tril_indices(p)
    factor[:, rows, columns] = vector[k * p :].reshape(k, -1)
    at = np.arange(p)
    factor[:, at, at] = np.exp(factor[:, at, at])
    return Normals(vector[: k * p].reshape(k, p), factor @ np.swapaxes(factor, 1, 2))
