"""What bags say of themselves before a fit: pooled instances, samples of them, sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from vbmodels.bags.bags import Bags, Instances
from vbmodels.bags.multilabel import BLOCK, Products, Sample, Spread, row_hash, runs_of, unit_rows
from vbmodels.core.state import FloatArray, IntArray, Stats

INSTANCES = 1000
"""Instances of each class of bags that landmarks are chosen from."""
BAGS = 400
"""Bags of each class that landmark bags are chosen from."""


def rows_of(instances: Instances, bags: slice) -> tuple[FloatArray, IntArray]:
    """Return some bags' instances [n, D] and their offsets from 0."""
    bounds = instances.offsets[bags.start : bags.stop + 1]
    rows = np.ascontiguousarray(instances.features[bounds[0] : bounds[-1]], dtype=np.float64)
    return rows, bounds - bounds[0]


def pieces_of(rows: FloatArray) -> Iterator[FloatArray]:
    """Cut a run's rows where there are many, which are then of one bag."""
    for first in range(0, len(rows), BLOCK):
        yield rows[first : first + BLOCK]


def pooled(instances: Instances) -> FloatArray:
    """Return mean, largest, smallest and sd of every feature in each bag, [B, 4 D].

    A bag without instances has zeros. Sums run within a bag only, so that a bag's numbers do not
    depend on its neighbours.
    """
    out = np.zeros((instances.offsets.size - 1, 4 * instances.n_features))
    for bags in runs_of(instances):
        rows, offsets = rows_of(instances, bags)
        sizes = np.diff(offsets)
        full = np.flatnonzero(sizes > 0)
        if not full.size:
            continue
        starts, count = offsets[full], sizes[full][:, None]
        mean = np.add.reduceat(rows, starts, axis=0) / count
        away = rows - np.repeat(mean, sizes[full], axis=0)
        sd = np.sqrt(np.add.reduceat(away**2, starts, axis=0) / count)
        high, low = (f.reduceat(rows, starts, axis=0) for f in (np.maximum, np.minimum))
        out[bags.start + full] = np.hstack([mean, high, low, sd])
    return out


def sizes_of(data: Bags) -> FloatArray:
    """Return log(1 + instances) of each bag, [B, K], by modality."""
    sizes: FloatArray = np.column_stack([m.sizes for m in data.modalities]).astype(float)
    return np.log1p(sizes)


@dataclass(frozen=True)
class Pool(Stats, kind="bags/embedding.Pool"):
    """What fitted bags say of one modality.

    Attributes
    ----------
    rows, bags
        Spread of instances [D] and of pooled bags with instances [4 D + 1], the last the size.
    unit
        Instances of length 1 or 0 and never negative, as rows of TF-IDF are.
    instances, samples
        Of the instances and of the pooled bags of negative and of positive bags.
    products
        Of the instances of unit length.
    """

    rows: Spread
    bags: Spread
    unit: float
    instances: tuple[Sample, ...]
    samples: tuple[Sample, ...]
    products: Products

    @classmethod
    def of(cls, data: Bags, k: int, seed: int, products: bool) -> Pool:
        """Summarise the labelled bags of a partition; all of ``data`` are labelled."""
        instances = data.modalities[k]
        full = instances.sizes > 0
        pooled_rows = np.hstack([pooled(instances), sizes_of(data)[:, k : k + 1]])
        few = bags_sampled(instances.n_features)

        def of_run(bags: slice) -> Pool:
            rows, offsets = rows_of(instances, bags)
            unit = unit_rows(rows)
            label = np.repeat(data.label[bags], np.diff(offsets))
            own, has = pooled_rows[bags], full[bags]
            of_bag = data.label[bags]
            return cls(
                rows=Spread.of(rows),
                bags=Spread.of(own[has]),
                unit=float(unit.sum()),
                instances=tuple(Sample.of(rows[label == y], INSTANCES, seed) for y in (0, 1)),
                samples=tuple(Sample.of(own[has & (of_bag == y)], few, seed) for y in (0, 1)),
                products=Products.of(rows[unit] if products else rows[:0]),
            )

        return reduce(add, map(of_run, list(runs_of(instances)) or [slice(0, 0)]))

    @property
    def text(self) -> bool:
        """Whether nearly all rows have unit length."""
        return self.rows.count > 0 and self.unit >= 0.99 * self.rows.count


def bags_sampled(width: int) -> int:
    """Return how many bags of each class are sampled for landmarks."""
    return int(np.clip(4_000_000 // (4 * width + 1), 100, BAGS))


@dataclass(frozen=True)
class Pools(Stats, kind="bags/embedding.Pools"):
    """What all fitted bags say before the first pass.

    Attributes
    ----------
    counts
        Bags with the labels 0 and 1, [2].
    own
        Spread of the bags' own features, [F].
    modalities
        One `Pool` each.
    grouped
        Fitted bags that are left out in groups.
    """

    counts: IntArray
    own: Spread
    modalities: tuple[Pool, ...]
    grouped: int

    @classmethod
    def of(cls, data: Bags, seed: int, products: bool) -> Pools:
        """Summarise a partition's labelled bags."""
        known = data.labelled()
        return cls(
            np.array([np.count_nonzero(known.label == y) for y in (0, 1)]),
            Spread.of(known.bag_features),
            tuple(Pool.of(known, k, seed, products) for k in range(len(known.modalities))),
            known.group.size,
        )

    @property
    def n_bags(self) -> int:
        """Fitted bags."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Chosen(Stats, kind="bags/embedding.Chosen"):
    """Rows of bags that landmark bags are chosen from, by class, for each modality."""

    samples: tuple[tuple[Sample, ...], ...]


def draw_bags(
    pooled_rows: FloatArray, label: NDArray[np.int8], seed: int, few: int
) -> list[tuple[NDArray[np.uint64], IntArray]]:
    """Draw ``few`` bags of either class by a hash of their pooled numbers [B, 4 D + 1].

    Of each class the hashes, rising, and where these bags are among all.
    """
    drawn = []
    for y in (0, 1):
        here = np.flatnonzero(label == y)
        kept, first = np.unique(row_hash(pooled_rows[here], seed), return_index=True)
        drawn.append((kept[:few], here[first[:few]]))
    return drawn
