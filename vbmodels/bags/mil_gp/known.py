"""Instances whose own label is known, as bags of one instance each.

Given w instances are independent, so that with U the instances of bag b whose label is not known

    p(labels of b | w) = prod_{h_i = 0} Phi(-t_i) prod_{h_i = 1} Phi(t_i)
                         (1 if some h_i = 1, else 1 - prod_U Phi(-t_i) if Y_b = 1, else prod_U ...)

which is that of bags: each known instance alone, with its label, and the others with the bag's,
or without one where an instance is known to be positive. Known negatives of a negative bag say
nothing new. These bags have a leak like any other: a positive instance is an error of the labels
with the leak's chance, 2e-4, and no bag of one instance is quite sure.
"""

from __future__ import annotations

import numpy as np

from vbmodels.bags.bags import UNLABELLED, Bags, Instances
from vbmodels.bags.multilabel import Batch, MultiLabelBags, bags_of, instances_of, labels_of
from vbmodels.core.state import Memory

_CACHE: Memory[Batch] = Memory()


def with_known_instances(batch: Batch) -> Batch:
    """Return a partition whose instances with a known label are bags; itself where it has none."""
    if not instances_of(batch).known.size:
        return batch
    return _CACHE.of(batch, b"known", lambda: split_known(batch))


def split_known(batch: Batch) -> Batch:
    """Return other bags: those of ``batch`` first, then one for each known instance.

    Where there are several classes, a known instance has its label in those in which its bag has
    one; in all where the bag has none.
    """
    data, of, labels = bags_of(batch), instances_of(batch), labels_of(batch)
    bag, known = of.bag, of.known
    some = np.flatnonzero((known != UNLABELLED) & ~(labels == 0).any(axis=1)[bag])
    number = bag.copy()
    number[some] = data.n_bags + np.arange(some.size)
    counts = (labels != UNLABELLED) | (labels == UNLABELLED).all(axis=1)[:, None]
    own = np.where(counts[bag[some]], known[some, None], np.int8(UNLABELLED)).astype(np.int8)
    rest = labels.copy()
    rest[np.unique(bag[some][known[some] == 1])] = UNLABELLED
    every = np.concatenate([rest, own])
    rows = Instances.from_rows(number, of.features, data.n_bags + some.size)
    features = np.concatenate([data.bag_features, data.bag_features[bag[some]]])
    found = Bags((rows,), every[:, 0], features, data.partition)
    return MultiLabelBags(found, every) if isinstance(batch, MultiLabelBags) else found
