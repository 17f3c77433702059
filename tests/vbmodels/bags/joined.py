"""Partitions of bags as one."""

from collections.abc import Sequence

import numpy as np

from vbmodels.bags.bags import Bags, Instances, known_of


def concatenate(parts: Sequence[Bags]) -> Bags:
    """Put partitions of bags behind one another."""
    first = parts[0]
    modalities = []
    for k in range(len(first.modalities)):
        features = np.concatenate([p.modalities[k].features for p in parts])
        sizes = np.concatenate([p.modalities[k].sizes for p in parts])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        modalities.append(Instances(features, offsets, known_of([p.modalities[k] for p in parts])))
    return Bags(
        modalities=tuple(modalities),
        label=np.concatenate([p.label for p in parts]),
        bag_features=np.concatenate([p.bag_features for p in parts]),
        partition=first.partition,
        group=np.concatenate([p.group for p in parts]),
        target=np.concatenate([p.target for p in parts]),
    )
