"""Contexts of locations that follow one another."""

import numpy as np

from vbmodels.core.state import IntArray
from vbmodels.variants.two_groups.contexts import contexts


def along(ref: IntArray) -> IntArray:
    """Return the contexts of locations that follow one another, from their reference bases.

    >>> along(np.array([0, 1, 2])).tolist()
    [16, 2, 16]
    """
    padded = np.concatenate([[-1], ref, [-1]])
    return contexts(padded[:-2], padded[2:])
