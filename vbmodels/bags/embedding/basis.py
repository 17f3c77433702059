"""Blocks of columns centred, scaled and cut to the directions that matter.

Each block is turned to the leading eigenvectors of its F'F and scaled so that the mean of |F_i|^2
over fitted bags is 1: then the prior variance of its weights is the variance that it gives f.

The moments are summed of columns rounded to a grid so coarse that every sum is exact in double
precision: they have the same bits however the bags are cut and in whatever order they are added.
The columns themselves are not rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.linalg import pack, unpack
from vbmodels.core.state import BoolArray, FloatArray, State, Stats

LARGEST = 4.0
"""Largest size of a column that is summed exactly; larger ones count as this."""
BITS = 52


@dataclass(frozen=True)
class Moments(Stats, kind="bags/embedding.Moments"):
    """Number of bags with the block, sums and packed products of each block's columns.

    Attributes
    ----------
    count
        [M].
    totals, products
        [Q] and [Q (Q + 1)/2] of each block.
    """

    count: FloatArray
    totals: tuple[FloatArray, ...]
    products: tuple[FloatArray, ...]

    @classmethod
    def of(cls, blocks: list[tuple[FloatArray, BoolArray]], n_bags: int) -> Moments:
        """Sum over bags; a block is its columns [B, Q] and which bags have it [B].

        ``n_bags`` is the number in all partitions, which sets the grid.
        """
        room = BITS - np.ceil(np.log2(max(n_bags, 2) * LARGEST**2))
        grid = 2.0 ** -np.floor(room / 2.0)  # sums of so many products on it are exact
        counts, totals, products = [], [], []
        for columns, has in blocks:
            exact = np.round(np.clip(columns[has], -LARGEST, LARGEST) / grid) * grid
            counts.append(float(has.sum()))
            totals.append(exact.sum(axis=0))
            products.append(pack(exact.T @ exact))
        return cls(np.array(counts), tuple(totals), tuple(products))


@dataclass(frozen=True)
class Basis(State, kind="bags/embedding.Basis"):
    """How one block is centred and turned: F = (columns - centre) turn, [Q], [Q, r]."""

    centre: FloatArray
    turn: FloatArray

    @classmethod
    def of(cls, count: float, total: FloatArray, product: FloatArray, kept: float) -> Basis:
        """Keep the leading directions with a share ``kept`` of the trace."""
        count = max(count, 1.0)
        centre = total / count
        covariance = unpack(product) / count - np.outer(centre, centre)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        whole = float(values.sum())
        if not values.size or whole <= 1e-12:
            return cls(centre, np.empty((centre.size, 0)))
        r = int(np.searchsorted(np.cumsum(values), kept * whole * (1.0 - 1e-12))) + 1
        turn = vectors[:, :r]
        sign = np.sign(turn[np.abs(turn).argmax(axis=0), np.arange(turn.shape[1])])
        scale = np.sqrt(float(values[:r].sum()))
        return cls(centre, np.ascontiguousarray(turn * sign / scale))

    def __call__(self, columns: FloatArray, has: BoolArray) -> FloatArray:
        """Return F of bags [B, r]; 0 for those that do not have the block."""
        out = (columns - self.centre) @ self.turn
        return np.where(has[:, None], out, 0.0)
