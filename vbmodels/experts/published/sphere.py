"""The largest value of a quadratic on the unit sphere, by its secular equation."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from vbmodels.core.state import FloatArray


def sphere_maximum(linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """Return the unit u with the largest l'u - u'Q u, for a symmetric Q; [p].

    u = (Q + nu I)^-1 l / 2 with nu above minus the least eigenvalue of Q, where |u| = 1
    (Sorensen 1982). In the hard case, l orthogonal to the space of that eigenvalue and
    |u| < 1 there, the rest of u lies in that space.
    """
    values, vectors = np.linalg.eigh(quadratic)
    share = 0.5 * (vectors.T @ linear)
    gaps = values - values[0]
    size = float(np.linalg.norm(share))
    least = gaps <= 1e-12 * max(1.0, float(abs(values).max()))
    bottom = float(np.linalg.norm(share[least]))
    if size == 0.0:
        return np.asarray(vectors[:, 0], dtype=np.float64)

    def length(nu: float) -> float:
        return float(np.linalg.norm(share / (gaps + nu)))

    # |u| = 1 lies between bottom (its own term alone) and size (all gaps 0).
    low = max(bottom, 1e-14 * size)
    if length(low) < 1.0:
        u = np.where(least, 0.0, share / np.where(least, 1.0, gaps + low))
        missing = np.sqrt(max(0.0, 1.0 - float(u @ u)))
        # Towards what l has there, however little: where all eigenvalues are alike it is all of u.
        u[least] = share[least] * (missing / bottom) if bottom > 0.0 else 0.0
        if bottom == 0.0:
            u[0] = missing
    else:
        # At size itself |u| is 1 or less, but for rounding: then that is where it is 1.
        nu = size
        if length(size) < 1.0:
            nu = brentq(lambda v: 1.0 / length(v) - 1.0, low, size, xtol=1e-15 * size, rtol=1e-14)
        u = share / (gaps + nu)
    found: FloatArray = vectors @ u
    return found / np.linalg.norm(found)
