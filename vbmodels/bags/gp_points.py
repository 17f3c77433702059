"""Points of a standard normal for quadrature in many dimensions."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from vbmodels.core.state import FloatArray


def sobol_normals(count: int, size: int, seed: int) -> FloatArray:
    """Return scrambled Sobol points of N(0, I), [count, size]; ``count`` is a power of two."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(size, rng=np.random.default_rng(seed)).random(count)
    result: FloatArray = ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15))
    return result
