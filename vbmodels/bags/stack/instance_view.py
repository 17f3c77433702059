"""What the witness of the stack sees of a partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.blocks import ModalityMap
from vbmodels.bags.memory import Memory
from vbmodels.bags.multilabel import (
    FOLDS,
    Batch,
    MultiLabelBags,
    bag_hash,
    fold_of_bags,
    fold_of_groups,
    instances_of,
    rows_of,
    runs_of,
)
from vbmodels.bags.stack.modalities import united
from vbmodels.core.state import BoolArray, FloatArray, IntArray


class ViewCache(Memory[Batch]):
    """What the witness sees of partitions, until another view or map comes.

    What is kept of a view (`mil_gp.likelihood.BlockCache`) goes with it.
    """

    def view(
        self,
        maps: tuple[ModalityMap, ...],
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


def _seen(
    maps: tuple[ModalityMap, ...], data: Bags, view: str, shares: tuple[float, float]
) -> Batch:
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
    below = _hashed(data, bag_hash).astype(np.float64) < share * 2.0**64
    return np.asarray(below & (data.label != UNLABELLED), dtype=np.bool_)


def fold_of(data: Bags) -> IntArray:
    """Return the fold of each bag of one modality, [B]; that of its group, where it has one."""
    if data.group.size:
        return fold_of_groups(data.group)
    return _hashed(data, fold_of_bags).astype(np.int64)


def _hashed(data: Bags, by: Callable[[FloatArray, IntArray], NDArray[Any]]) -> NDArray[Any]:
    """Return what a hash of a bag's rows and offsets says of each bag, [B]."""
    found = [np.zeros(0, np.int64)]
    for part in runs_of(instances_of(data)):
        offsets = data.modalities[0].offsets[part.start : part.stop + 1]
        found.append(by(rows_of(data, part), offsets - offsets[0]))
    return np.concatenate(found[1:] or found)


def as_witnessed(maps: tuple[ModalityMap, ...], data: Bags) -> Bags:
    """Return bags as the witness sees them: their instances in one modality."""
    return data if len(maps) == 1 else united(maps, data)
