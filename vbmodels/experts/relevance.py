"""How much a column tells of the labels by itself."""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import FloatArray

LEVELS = 8
"""Parts of a column's ranks."""


def relevance(ranks: FloatArray, classes: FloatArray) -> FloatArray:
    """Return the square root of chi^2 / N of each column's table of levels and labels; [D].

    chi^2 / N = sum_lk (n_lk - e_lk)^2 / (N e_lk), e_lk = n_l. n_.k / N, is Pearson's mean square
    contingency, n_lk rows of the level l with the label k. Of a column that tells nothing it is
    some (`LEVELS` - 1) (K - 1) / N, which is left in: what tells only beside others is still seen,
    and the more so the fewer rows there are to tell one from the other. All ones where no column
    tells anything.

    Parameters
    ----------
    ranks
        Of every row in each column, 0 to 1; [M, D].
    classes
        How many rows each stands for, of every label; [M, K].
    """
    level = np.minimum((ranks * LEVELS).astype(np.int64), LEVELS - 1)
    labels, rows = classes.sum(0), classes.sum()
    if rows <= 0.0:
        return np.ones(ranks.shape[1])
    found = np.empty(ranks.shape[1])
    for d, at in enumerate(level.T):
        table = np.stack([np.bincount(at, k, LEVELS) for k in classes.T], axis=1)
        expected = table.sum(1, keepdims=True) * labels / rows
        square = (table - expected) ** 2 / np.where(expected > 0.0, expected, 1.0)
        found[d] = square.sum() / rows
    return np.sqrt(found) if found.max(initial=0.0) > 0.0 else np.ones(len(found))
