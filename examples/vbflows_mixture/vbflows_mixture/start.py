"""Where a fit starts: centres of a sketch of the rows that adds up over partitions.

Eight fixed random half-spaces cut the space into cells. Their counts and sums are additive, so the
start is the same for every partitioning, and as good as the cells are small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vbmodels.core.state import FloatArray, IntArray

if TYPE_CHECKING:
    from vbflows_mixture.model import Observed

SIDES = 8
CELLS = 2**SIDES


def cells(x: FloatArray) -> IntArray:
    """Return the cell of every row of x [N, D]: on which side of each plane it lies; [N]."""
    planes = np.random.default_rng(1).standard_normal((x.shape[1] + 1, SIDES))
    planes[-1] *= 0.5  # they pass beside the mean, not all through it
    above = x @ planes[:-1] + planes[-1] > 0.0
    cell: IntArray = above @ (1 << np.arange(SIDES))
    return cell


def centres(
    observed: Observed, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, float]:
    """Return rows [K] and mean [K, D] of the centres, and the variance of rows about theirs.

    k-means on the cells' means, weighted by their rows, from a start by k-means++ (Arthur and
    Vassilvitskii 2007).
    """
    full = observed.rows > 0
    rows, at = observed.rows[full], observed.totals[full] / observed.rows[full][:, None]
    chosen = [int(rng.choice(len(rows), p=rows / rows.sum()))]
    for _ in range(count - 1):
        far = ((at[:, None, :] - at[chosen]) ** 2).sum(-1).min(axis=1) * rows
        p = far / far.sum() if far.sum() > 0.0 else rows / rows.sum()
        chosen.append(int(rng.choice(len(rows), p=p)))
    mean = at[chosen]
    for _ in range(20):
        nearest = ((at[:, None, :] - mean) ** 2).sum(-1).argmin(axis=1)
        own = np.bincount(nearest, rows, count)
        total = np.stack([np.bincount(nearest, rows * column, count) for column in at.T], axis=1)
        mean = np.where(own[:, None] > 0.0, total / np.maximum(own, 1.0)[:, None], mean)
    within = observed.squares - float((own[:, None] * mean**2).sum())
    return own, mean, max(within / observed.rows.sum() / at.shape[1], 1e-3)
