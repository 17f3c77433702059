"""From bags to the columns of the embedding: the blocks of all modalities, centred and cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

import numpy as np

from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.embedding.basis import Basis, Moments
from vbmodels.bags.embedding.blocks import ModalityMap, modality_map, scaling, with_distributions
from vbmodels.bags.embedding.pools import (
    Chosen,
    Pools,
    bags_sampled,
    pooled,
    sampled_bags,
    sizes_of,
)
from vbmodels.core.state import BoolArray, FloatArray, IntArray, Memory, State

PIECE = 4096
"""Bags whose blocks are held at once before they are cut."""
MANY_BAGS = 800
"""Bags beyond which there are fewer landmarks and directions."""


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

    @property
    def kept(self) -> float:
        """Share of a block's trace that its columns hold."""
        return 0.97 if self.n_bags <= MANY_BAGS else 0.9

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
        return np.concatenate([self._columns(piece) for piece in pieces(data)])

    def _columns(self, data: Bags) -> FloatArray:
        parts = [
            basis(*block)
            for basis, block in zip(self.bases, self.blocks(data).values(), strict=True)
        ]
        return np.ascontiguousarray(np.hstack([*parts, np.ones((data.n_bags, 1))]))

    @property
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


def smooth_means(of: BagMap, data: Bags, seed: int) -> Chosen:
    """Sample the labelled bags' smooth means, for the landmarks of distributions."""
    known = data.labelled()
    out = []
    for k, (one, instances) in enumerate(zip(of.modalities, known.modalities, strict=True)):
        has = np.flatnonzero(instances.sizes > 0)
        pooled_rows = np.hstack([pooled(instances), sizes_of(known)[:, k : k + 1]])[has]
        rows = partial(_smooth_means, one, instances, has)
        label, few = known.label[has].astype(np.int64), bags_sampled(instances.n_features)
        out.append(sampled_bags(pooled_rows, label, seed, rows, few))
    return Chosen(tuple(out))


def _smooth_means(
    of: ModalityMap, instances: Instances, has: IntArray, drawn: IntArray
) -> FloatArray:
    """Return the smooth means at all lengths of some of the bags with instances, [b, 3 R]."""
    return of.smooth_means(instances.take(has[drawn]))


def with_landmark_bags(of: BagMap, chosen: Chosen, rng: np.random.Generator) -> BagMap:
    """Add the kernels on distributions of instances."""
    few = of.n_bags > MANY_BAGS
    modalities = tuple(
        with_distributions(one, tuple(s.rows for s in samples), 64 if few else 150, rng)
        for one, samples in zip(of.modalities, chosen.samples, strict=True)
    )
    return replace(of, modalities=modalities)


def moments(of: BagMap, data: Bags) -> Moments:
    """Sum the labelled bags' columns and their products."""
    each = (list(of.blocks(piece).values()) for piece in pieces(data.labelled()))
    return reduce(add, (Moments.of(blocks, of.n_bags) for blocks in each))


def with_bases(of: BagMap, found: Moments) -> BagMap:
    """Centre and cut the blocks by the moments of all fitted bags."""
    each = zip(found.count.tolist(), found.totals, found.products, strict=True)
    return replace(of, bases=tuple(Basis.of(*one, of.kept) for one in each))


class ColumnCache(Memory[FloatArray]):
    """Columns of the labelled bags of partitions, until another map comes."""

    def columns(self, of: BagMap, turn: FloatArray, key: str, data: Bags) -> FloatArray:
        """Return F of a partition's labelled bags, turned, from memory where it is."""

        def made() -> FloatArray:
            columns = of.columns(data.labelled())
            return columns @ turn if turn.size else columns

        return self.of(data, key.encode(), made)


CACHE = ColumnCache()
