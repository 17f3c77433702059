"""Instances of several modalities as rows of one table, for a model that takes one.

A row has the z-scores of its own modality's features, 0 (their mean) for those of the others, and a
column for each modality that is 1 in its own rows. So instances of two modalities are always apart,
and a kernel that sees the rows is one for each modality with what they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vbmodels.bags.bags import Bags, Instances, known_of
from vbmodels.bags.embedding.blocks import ModalityMap
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.multilabel import Observed, Products, Sample, Spread
from vbmodels.core.state import FloatArray, IntArray


def united(maps: Sequence[ModalityMap], data: Bags) -> Bags:
    """Return bags with all instances in one modality, those of a bag side by side.

    The bags' own features are left out.
    """
    rows = np.concatenate(
        [
            rows_of(maps, k, np.asarray(m.features, np.float64))
            for k, m in enumerate(data.modalities)
        ]
    )
    order = _order(data)
    sizes = np.sum([m.sizes for m in data.modalities], axis=0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    known = known_of(data.modalities)
    labels = known[order] if known.size else known
    one = Instances(np.ascontiguousarray(rows[order]), offsets, labels)
    return replace(data, modalities=(one,), bag_features=np.empty((data.n_bags, 0)))


def parted(data: Bags, values: FloatArray) -> tuple[FloatArray, ...]:
    """Return values of united instances [N] by modality, [N_k] each."""
    if len(data.modalities) == 1:
        return (values,)
    out = np.empty_like(values)
    out[_order(data)] = values
    ends = np.cumsum([len(m.features) for m in data.modalities])
    return tuple(np.split(out, ends[:-1]))


def rows_of(maps: Sequence[ModalityMap], k: int, rows: FloatArray) -> FloatArray:
    """Return rows [n, D_k] of modality k as rows of the table, [n, sum D + K]."""
    widths = [of.mean.size for of in maps]
    starts = np.concatenate([[0], np.cumsum(widths)])
    out = np.zeros((len(rows), int(starts[-1]) + len(maps)))
    out[:, starts[k] : starts[k + 1]] = maps[k].scaled(rows)
    out[:, starts[-1] + k] = 1.0
    return out


def observed(maps: Sequence[ModalityMap], pools: Pools, limit: int) -> Observed:
    """Return what a Gaussian process needs of the united instances before it starts.

    Columns are scaled already: mean 0 and sd 1 are returned for them.
    """
    size = sum(of.mean.size for of in maps) + len(maps)
    count = sum(pool.rows.count for pool in pools.modalities)
    samples = []
    for y in (0, 1):
        parts = [
            Sample(limit, pool.instances[y].priority, rows_of(maps, k, pool.instances[y].rows))
            for k, pool in enumerate(pools.modalities)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        samples.append(total)
    return Observed(
        spread=Spread(count, np.zeros(size), np.full(size, count)),
        unit=0.0,
        positive=pools.counts[1:],
        negative=pools.counts[:1],
        samples=tuple(samples),
        products=Products(np.empty(0)),
    )


def _order(data: Bags) -> IntArray:
    """Return where each united row comes from among the modalities' rows, one after another."""
    return np.argsort(np.concatenate([m.bag for m in data.modalities]), kind="stable")
