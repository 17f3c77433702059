"""The angles between experts, from their definition."""

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.normals import directions


def angles(vectors: FloatArray) -> FloatArray:
    """Return the non-obtuse angle of every pair i < j, in radians; [K (K - 1) / 2]."""
    a, _ = directions(vectors)
    i, j = np.triu_indices(len(vectors), 1)
    return np.arccos(np.clip(np.abs((a @ a.T)[i, j]), 0.0, 1.0))
