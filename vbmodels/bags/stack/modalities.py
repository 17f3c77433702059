"""Instances of several modalities as rows of one table, for a model that takes one.

A row has the z-scores of its own modality's features, 0 (their mean) for those of the others, and a
column for each modality that is 1 in its own rows. So instances of two modalities are always apart,
and a kernel that sees the rows is one for each modality with what they share.

The witness of the stack sees a partition so, too (`as_witnessed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vbmodels.bags.bags import UNLABELLED, Bags, Instances, known_of
from vbmodels.bags.embedding.blocks import Scaler
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.multilabel import (
    FOLDS,
    Batch,
    MultiLabelBags,
    Observed,
    Products,
    Sample,
    Spread,
    fold_of,
    hash_bags,
)
from vbmodels.core.state import BoolArray, FloatArray, IntArray, Memory


def united(maps: Sequence[Scaler], data: Bags) -> Bags:
    """Return bags with all instances in one modality, those of a bag side by side.

    The bags' own features are left out.
    """
    rows = np.concatenate(
        [
            table_rows(maps, k, np.asarray(m.features, np.float64))
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


def table_rows(maps: Sequence[Scaler], k: int, rows: FloatArray) -> FloatArray:
    """Return rows [n, D_k] of modality k as rows of the table, [n, sum D + K]."""
    widths = [of.mean.size for of in maps]
    starts = np.concatenate([[0], np.cumsum(widths)])
    out = np.zeros((len(rows), int(starts[-1]) + len(maps)))
    out[:, starts[k] : starts[k + 1]] = maps[k].scaled(rows)
    out[:, starts[-1] + k] = 1.0
    return out


def observed(maps: Sequence[Scaler], pools: Pools, limit: int) -> Observed:
    """Return what a Gaussian process needs of the united instances before it starts.

    Columns are scaled already: mean 0 and sd 1 are returned for them.
    """
    size = sum(of.mean.size for of in maps) + len(maps)
    count = sum(pool.rows.count for pool in pools.modalities)
    samples = []
    for y in (0, 1):
        parts = [
            Sample(limit, pool.instances[y].priority, table_rows(maps, k, pool.instances[y].rows))
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


class ViewCache(Memory[Batch]):
    """What the witness sees of partitions, until another view or map comes.

    What is kept of a view (`mil_gp.likelihood.BlockCache`) goes with it.
    """

    def view(
        self,
        maps: tuple[Scaler, ...],
        data: Bags,
        view: str,
        shares: tuple[float, float] = (1.0, 1.0),
    ) -> Batch:
        """Return a partition of one modality as the witness sees it.

        "some": a share of the bags of either label. "folds": labelled in every class but that of
        its own fold. Else all bags.
        """
        key = b"".join(of.mean.tobytes() + of.scale.tobytes() for of in maps)
        key += repr((view, shares)).encode()
        return self.of(data, key, lambda: _seen(maps, data, view, shares))


CACHE = ViewCache()


def _seen(maps: tuple[Scaler, ...], data: Bags, view: str, shares: tuple[float, float]) -> Batch:
    # Other bags than ``data``, which would never be given up otherwise.
    bags = replace(data) if len(maps) == 1 else united(maps, data)
    if view == "some":
        return bags.take(np.flatnonzero(_drawn(bags, shares)))
    if view == "folds":
        own = np.arange(FOLDS) == fold_of(bags)[:, None]
        return MultiLabelBags(bags, np.where(own, np.int8(UNLABELLED), data.label[:, None]))
    return bags


def _drawn(data: Bags, shares: tuple[float, float]) -> BoolArray:
    """Say which labelled bags of one modality are of a share of either label, by their hash."""
    share = np.where(data.label == 1, shares[1], shares[0])
    below = hash_bags(data).astype(np.float64) < share * 2.0**64
    return np.asarray(below & (data.label != UNLABELLED), dtype=np.bool_)


def as_witnessed(maps: tuple[Scaler, ...], data: Bags) -> Bags:
    """Return bags as the witness sees them: their instances in one modality."""
    return data if len(maps) == 1 else united(maps, data)
