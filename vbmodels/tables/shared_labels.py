"""Groups of bags that share their labels, found in names of bags or in values of theirs.

Bags of one patient are alike in more than their labels: where labels go with patients, a bag that
is predicted with others of its patient in the fit is predicted too well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from vbmodels.core.state import IntArray

# Groups from which on some can be left out, and bags beyond the first of each group.
FEWEST_GROUPS, FEWEST_REPEATS = 5, 8
SHARED = 0.8  # of bags have the label of most bags of their group
CLEAR = 3.0  # sds by which labels agree more in groups than in any order of the bags
PERMUTATIONS = 200
MOST_CLASSES = 10  # different labels beyond which they are numbers, each tenth a class
MOST_PARTS = 8
CHANGES = 0.5  # of label from a number to the next, of those by chance: fewer are of a measurement

_PART = re.compile(r"[^\W_]+")
_PART_WITHOUT_SIGNS = re.compile(r"[^\W\d_]*\d+|[^\W\d_]+")


def first_parts(name: str, count: int) -> str:
    """Return the first parts of a name, which signs set apart; the name where it has no more.

    Without signs a part ends where its number does.

    >>> first_parts("TCGA-F5-A000-01Z-00-DX1", 3), first_parts("P03_t1", 1), first_parts("P03t1", 1)
    ('TCGA-F5-A000', 'P03', 'P03')
    """
    ends = [found.end() for found in _PART.finditer(name)]
    if len(ends) == 1:
        ends = [found.end() for found in _PART_WITHOUT_SIGNS.finditer(name)]
    return name[: ends[count - 1]] if count <= len(ends) else name


def find_group_parts(names: Sequence[str], label: IntArray) -> tuple[int, float]:
    """Return of how many first parts of bags' names those of groups are, and how clearly; or 0, 0.

    Parameters
    ----------
    names
        Of bags, [B].
    label
        Numbers of their labels in order, [B]; -1 where it is not known.
    """
    best, most = 0, 0.0
    for count in range(1, MOST_PARTS):
        prefixes = [first_parts(name, count) for name in names]
        _, group = np.unique(prefixes, return_inverse=True)
        if (found := measure_agreement(group, label)) > most:
            best, most = count, found
        if len(set(prefixes)) == len(set(names)):
            break
    return best, most


def repeats_enough(group: IntArray) -> bool:
    """Say whether there are groups enough, and bags enough in them; -1: a bag of none."""
    known = group[group >= 0]
    groups = len(np.unique(known))
    return groups >= FEWEST_GROUPS and len(known) - groups >= FEWEST_REPEATS


def is_measured(value: IntArray, label: IntArray) -> bool:
    """Say whether labels [B] change so seldom from a value [B] to the next that they go with it."""
    known = (value >= 0) & (label >= 0)
    values, labels = value[known], label[known]
    order = np.lexsort((labels, values))
    _, first = np.unique(values[order], return_index=True)
    of_values = labels[order][first]
    shares = np.bincount(of_values) / len(of_values)
    by_chance = (len(of_values) - 1) * (1.0 - np.sum(shares**2))
    return bool(np.count_nonzero(np.diff(of_values)) < CHANGES * by_chance)


def measure_agreement(group: IntArray, label: IntArray) -> float:
    """Return how much more labels agree within groups than by chance, in sds; 0 for no groups.

    By chance: with labels in random orders. Groups are none if most bags are alone in theirs, if
    labels differ within them, or if a label has one group, which then is another name of it.

    Parameters
    ----------
    group, label
        Their numbers, [B]; -1 where they are not known.
    """
    known = (group >= 0) & (label >= 0)
    _, group = np.unique(group[known], return_inverse=True)
    values, label = np.unique(label[known], return_inverse=True)
    groups, classes, n = int(group.max(initial=-1)) + 1, len(values), len(label)
    if classes < 2 or not repeats_enough(group):
        return 0.0
    if classes > MOST_CLASSES:
        order = np.argsort(label, kind="stable")
        label[order] = np.arange(n) * MOST_CLASSES // n
        classes = MOST_CLASSES

    def count(labels: IntArray) -> IntArray:
        table = np.bincount(group * classes + labels, minlength=groups * classes)
        return table.reshape(groups, classes)

    found = count(label)
    agree, sizes = found.max(axis=1), found.sum(axis=1)
    several = sizes > 1
    if agree[several].sum() < SHARED * sizes[several].sum():
        return 0.0
    if (
        len(values) <= MOST_CLASSES
        and np.bincount(found.argmax(axis=1), minlength=classes).min() < 2
    ):
        return 0.0
    rng = np.random.default_rng(0)
    drawn = [count(rng.permutation(label)).max(axis=1).sum() for _ in range(PERMUTATIONS)]
    away = float(agree.sum() - np.mean(drawn)) / max(float(np.std(drawn)), 1e-9)
    return away if away > CLEAR else 0.0
