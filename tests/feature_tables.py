"""Tables of categories cut into partitions."""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from vbmodels.features.table import FeatureBatch, feature_batch


def split_rows(
    codes: ArrayLike, levels: ArrayLike, parts: int, *, grouped: bool = True
) -> list[FeatureBatch]:
    """Cut a table into partitions of nearly equal numbers of rows."""
    table = np.asarray(codes)
    cuts = np.linspace(0, len(table), parts + 1).astype(int)
    return [
        feature_batch(table[i:j], levels, np.arange(i, j), grouped=grouped)
        for i, j in pairwise(cuts)
    ]
