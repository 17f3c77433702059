"""From bags to the columns of the embedding: the blocks of all modalities, centred and cut.

Each block is turned to the leading eigenvectors of its F'F and scaled so that the mean of |F_i|^2
over fitted bags is 1: then the prior variance of its weights is the variance that it gives f.

The moments are summed of columns rounded to a grid so coarse that every sum is exact in double
precision: they have the same bits however the bags are cut and in whatever order they are added.
The columns themselves are not rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.embedding.blocks import (
    ModalityMap,
    Scaler,
    modality_map,
    scaling,
    with_distributions,
)
from vbmodels.bags.embedding.pools import (
    Chosen,
    Pools,
    bags_sampled,
    draw_bags,
    pooled,
    sizes_of,
)
from vbmodels.bags.multilabel import Sample
from vbmodels.core.linalg import pack, unpack
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats

PIECE = 4096
"""Bags whose blocks are held at once before they are cut."""
MANY_BAGS = 800
"""Bags beyond which there are fewer landmarks and directions."""
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
        return np.where(has[:, None], (columns - self.centre) @ self.turn, 0.0)


@dataclass(frozen=True)
class BagMap(State, kind="bags/embedding.BagMap"):
    """The blocks of a bag.

    Attributes
    ----------
    n_bags
        Fitted bags.
    modalities
        Maps of the modalities.
    size_mean, size_scale
        Of log(1 + instances) by modality, [K].
    own_mean, own_scale
        Of the bags' own features, [F].
    bases
        One a block, in the order of `names`; none until the moments are known.
    """

    n_bags: int
    modalities: tuple[ModalityMap, ...]
    size_mean: FloatArray
    size_scale: FloatArray
    own_mean: FloatArray
    own_scale: FloatArray
    bases: tuple[Basis, ...] = ()

    def blocks(self, data: Bags) -> dict[str, tuple[FloatArray, BoolArray]]:
        """Return every block's columns [B, Q] and which bags have it, by name."""
        everywhere = np.ones(data.n_bags, bool)
        out = {"size": ((sizes_of(data) - self.size_mean) * self.size_scale, everywhere)}
        if data.bag_features.shape[1]:
            own = np.clip((data.bag_features - self.own_mean) * self.own_scale, -4.0, 4.0)
            out["own features"] = (own, everywhere)
        several = len(self.modalities) > 1
        for k, (of, instances) in enumerate(zip(self.modalities, data.modalities, strict=True)):
            has = instances.sizes > 0
            for name, columns in of.columns(instances).items():
                out[f"{k}: {name}" if several else name] = (columns, has)
        return out

    @property
    def scalers(self) -> tuple[Scaler, ...]:
        """How instances of each modality are scaled: all that the other members need of a map."""
        return tuple(Scaler(of.mean, of.scale) for of in self.modalities)

    def names(self) -> list[str]:
        """Return the names of the blocks, in the order of their numbers."""
        none = np.zeros(1, np.int64)
        nothing = bags(
            [Instances(np.empty((0, of.mean.size)), none) for of in self.modalities],
            [],
            np.empty((0, self.own_mean.size)),
        )
        return list(self.blocks(nothing))

    def columns(self, data: Bags) -> FloatArray:
        """Return F of bags, [B, D]; the last column is the constant."""
        out = []
        for piece in pieces(data):
            blocks = zip(self.bases, self.blocks(piece).values(), strict=True)
            parts = [basis(*block) for basis, block in blocks]
            out.append(np.hstack([*parts, np.ones((piece.n_bags, 1))]))
        return np.concatenate(out)

    @cached_property
    def block(self) -> IntArray:
        """Number of the block of each column, [D]; that of the constant is the number of blocks."""
        sizes = [basis.turn.shape[1] for basis in self.bases]
        return np.repeat(np.arange(len(sizes) + 1), [*sizes, 1])


def pieces(data: Bags) -> Iterator[Bags]:
    """Cut bags so that the blocks of a piece, which are wide, stay small."""
    if data.n_bags <= PIECE:
        yield data
        return
    for first in range(0, data.n_bags, PIECE):
        yield data.take(np.arange(first, min(first + PIECE, data.n_bags)))


def bag_map(pools: Pools, rng: np.random.Generator) -> BagMap:
    """Choose scaling and landmarks from what the partitions summed up; the bases come later."""
    few = pools.n_bags > MANY_BAGS
    maps = tuple(
        modality_map(pool, 32 if few else 64, 64 if few else 150, rng) for pool in pools.modalities
    )
    size_mean = np.array([pool.bags.mean[-1] for pool in pools.modalities])
    deviation = np.array([pool.bags.deviation[-1] for pool in pools.modalities])
    count = max([pool.bags.count for pool in pools.modalities] + [1.0])
    size = scaling(size_mean, deviation, count)
    own = scaling(pools.own.mean, pools.own.deviation, pools.own.count)
    return BagMap(pools.n_bags, maps, *size, *own)


@dataclass(frozen=True)
class LandmarkBags(State, kind="bags/embedding.LandmarkBags"):
    """Asks for bags to choose landmarks from."""

    map: BagMap
    sample_seed: int

    def sums(self, batch: Bags, local: None) -> Chosen:
        """Sample a partition's labelled bags' smooth means, for landmarks of distributions."""
        known, out = batch.labelled(), []
        modalities = zip(self.map.modalities, known.modalities, sizes_of(known).T, strict=True)
        for of, instances, sizes in modalities:
            has, few = np.flatnonzero(instances.sizes > 0), bags_sampled(instances.n_features)
            pooled_rows = np.column_stack([pooled(instances), sizes])[has]
            drawn = draw_bags(pooled_rows, known.label[has], self.sample_seed, few)
            rows = [of.smooth_means(instances.take(has[where])) for _, where in drawn]
            pairs = zip(drawn, rows, strict=True)
            out.append(tuple(Sample(few, hashed, own) for (hashed, _), own in pairs))
        return Chosen(tuple(out))


def with_landmark_bags(of: BagMap, chosen: Chosen, rng: np.random.Generator) -> BagMap:
    """Add the kernels on distributions of instances."""
    few = of.n_bags > MANY_BAGS
    modalities = tuple(
        with_distributions(one, tuple(s.rows for s in samples), 64 if few else 150, rng)
        for one, samples in zip(of.modalities, chosen.samples, strict=True)
    )
    return replace(of, modalities=modalities)


@dataclass(frozen=True)
class BlockMoments(State, kind="bags/embedding.BlockMoments"):
    """Asks for what blocks are cut by."""

    map: BagMap

    def sums(self, batch: Bags, local: None) -> Moments:
        """Sum a partition's labelled bags' columns and their products."""
        each = (list(self.map.blocks(piece).values()) for piece in pieces(batch.labelled()))
        return reduce(add, (Moments.of(blocks, self.map.n_bags) for blocks in each))


def with_bases(of: BagMap, found: Moments) -> BagMap:
    """Centre and cut the blocks by the moments of all fitted bags."""
    kept = 0.97 if of.n_bags <= MANY_BAGS else 0.9
    each = zip(found.count.tolist(), found.totals, found.products, strict=True)
    return replace(of, bases=tuple(Basis.of(*one, kept) for one in each))
