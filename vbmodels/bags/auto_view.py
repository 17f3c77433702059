"""What the witness of the stack sees of a partition: one modality, and a class a fold of bags."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.bags.bag_blocks import ModalityMap
from vbmodels.bags.batch import UNLABELLED, Bags
from vbmodels.bags.gp_data import FOLDS, MultiLabelBags, blocks_of, fold_of_bags, rows_of
from vbmodels.bags.united import united
from vbmodels.core.state import IntArray


@dataclass(frozen=True)
class View:
    """A partition as the witness sees it: one modality, and a class a fold."""

    key: bytes
    bags: Bags
    folded: MultiLabelBags


@dataclass
class ViewCache:
    """What the witness sees of partitions; a memory, never a meaning.

    Entries go with their batch, and when another map comes.
    """

    kept: dict[int, View] = field(default_factory=dict)

    def view(self, maps: tuple[ModalityMap, ...], data: Bags) -> View:
        """Return a partition of one modality, labelled in every class but that of its own fold."""
        key = b"".join(of.mean.tobytes() + of.scale.tobytes() for of in maps)
        found = self.kept.get(id(data))
        if found is None or found.key != key:
            # Other bags than ``data``, which would never be given up otherwise.
            bags = replace(data) if len(maps) == 1 else united(maps, data)
            own = np.arange(FOLDS) == fold_of(bags)[:, None]
            labels = np.where(own, np.int8(UNLABELLED), data.label[:, None])
            if found is None:
                weakref.finalize(data, self.kept.pop, id(data), None)
            found = View(key, bags, MultiLabelBags(bags, labels))
            self.kept[id(data)] = found
        return found


CACHE = ViewCache()


def fold_of(data: Bags) -> IntArray:
    """Return the fold of each bag of one modality, [B]."""
    found = [np.zeros(0, np.int64)]
    for part in blocks_of(data):
        offsets = data.modalities[0].offsets[part.start : part.stop + 1]
        found.append(fold_of_bags(rows_of(data, part), offsets - offsets[0]))
    return np.concatenate(found)


def as_witnessed(maps: tuple[ModalityMap, ...], data: Bags) -> Bags:
    """Return bags as the witness sees them: their instances in one modality."""
    return data if len(maps) == 1 else united(maps, data)
