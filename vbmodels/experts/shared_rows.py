"""What rows share by which they are fitted or held out together: copies, groups, neighbours."""

from __future__ import annotations

import numpy as np

from vbmodels.core.draws import hashed
from vbmodels.core.state import FloatArray, IntArray

TEST_FOLDS = 5
"""Folds that test all rows."""
SAME_LABEL, MOST_OF_ONE = 0.9, 2.0
"""Share of pairs of copies that have one label, at least, and rows of each combination, at most."""
FEWEST_COPIED = 20
"""Combinations of cells from which on rows of one label that share one are copies."""


def neighbours_alike(label: FloatArray, numeric: bool) -> float:
    """Return the correlation of labels [N] with those of the next rows; 0 if they are sorted.

    Of classes it is by how much more often they are equal than by chance, as a share of the most.

    >>> neighbours_alike(np.array([1.0, 2.0, 1.0, 2.0]), True)
    -1.0
    """
    y = label[~np.isnan(label)]
    steps = np.diff(y)
    if not ((steps > 0.0).any() and (steps < 0.0).any()):
        return 0.0
    if numeric:
        return float(np.corrcoef(y[:-1], y[1:])[0, 1].round(12))
    shares = np.unique(y, return_counts=True)[1] / y.size
    chance = float(shares @ shares)
    return (float(np.mean(steps == 0.0)) - chance) / (1.0 - chance)


def dealt(
    names: IntArray, label: FloatArray, seed: int, numeric: bool
) -> tuple[IntArray, IntArray]:
    """Deal units to folds: their names [U] in increasing order, and the fold of each, [U].

    Units of a class are dealt in turn. Those without which a fit would lack a class have none, -1.

    Parameters
    ----------
    names
        Name of each row's unit; [N].
    label
        Number of each row's class, or a number itself; [N].
    seed
        Decides the order in which units are dealt.
    numeric
        Whether labels are numbers.
    """
    own, first, of = np.unique(names, return_index=True, return_inverse=True)
    classes = np.zeros(names.size) if numeric else label
    order = np.lexsort((hashed(own, 3 + 8 * seed, 1)[0], classes[first]))
    folds = np.empty(own.size, np.int64)
    folds[order] = np.arange(own.size) % TEST_FOLDS
    for one in np.unique(classes):
        there = np.unique(of[classes == one])
        if np.unique(folds[there]).size < 2:
            folds[there] = -1
    return own, folds


def are_copies(cell: IntArray, label: FloatArray) -> bool:
    """Whether rows [N] with the same number of their cells are copies, and not alike by chance.

    Copies have one label, and in a table with copies most rows with other cells are there: few
    columns of few values have many rows of each combination, which say nothing of one another.

    >>> are_copies(np.array([0, 0, 1, 2, 3]), np.array([5.0, 5.0, 1.0, 2.0, 3.0]))
    True
    >>> are_copies(np.array([0, 0, 0, 1, 1, 1]), np.array([5.0, 4.0, 5.0, 2.0, 3.0, 5.0]))
    False
    """
    count = np.unique(cell, return_counts=True)[1]
    most = MOST_OF_ONE * count.size * np.gcd.reduce(count)  # of the table, so many times
    return bool((count > 1).any() and cell.size <= most and labels_alike(cell, label))


def labels_alike(cell: IntArray, label: FloatArray) -> bool:
    """Whether most pairs of rows with the same number of their cells have one label."""
    count = np.bincount(cell)
    several = count[cell] > 1
    of = np.column_stack([cell[several], label[several]])
    same = np.unique(of, axis=0, return_counts=True)[1]
    return bool(same @ (same - 1) >= SAME_LABEL * (count @ (count - 1)))


def are_crowded(cell: IntArray, label: FloatArray) -> bool:
    """Whether many rows have each combination of cells, and are no copies.

    Each is then held out by itself: of a column of two values, what one does to the label could
    else be seen in no part of the rows that lacks it.

    >>> [are_crowded(np.repeat([0, 1], n), np.zeros(2 * n)) for n in (3, 2)]
    [True, False]
    """
    different = np.unique(cell).size
    few = different < FEWEST_COPIED or not labels_alike(cell, label)
    return cell.size > MOST_OF_ONE * different and few


def units_of(cell: IntArray, label: FloatArray | IntArray) -> tuple[IntArray, bool]:
    """Return the number of what each row is held out with, [N], and whether rows have copies.

    That is the number of its cells or, in a crowd, its place among rows sorted by these and label.

    >>> units_of(np.repeat([5, 3], [3, 4]), np.arange(7.0))
    (array([4, 5, 6, 0, 1, 2, 3]), False)
    """
    of, values = np.unique(cell, return_inverse=True)[1], np.asarray(label, float)
    copies = are_copies(of, values)
    if copies or not are_crowded(of, values):
        return cell, copies
    units = np.empty(cell.size, np.int64)
    units[np.lexsort((label, cell))] = np.arange(cell.size)
    return units, False


def design_effect(unit: IntArray, label: FloatArray, numeric: bool) -> float:
    """Return 1 + (m - 1) r, with units of m rows and r the intraclass correlation of labels.

    The latter by the analysis of variance; of classes by that of all their indicators.
    """
    _, of, size = np.unique(unit, return_inverse=True, return_counts=True)
    n, k = of.size, size.size
    if not 1 < k < n:
        return 1.0
    values = [label] if numeric else [(label == one).astype(float) for one in np.unique(label)]
    between = within = 0.0
    for y in values:
        mean = np.bincount(of, y) / size
        within += float(np.sum((y - mean[of]) ** 2)) / (n - k)
        between += float(size @ (mean - y.mean()) ** 2) / (k - 1)
    usual = (n - float(size @ size) / n) / (k - 1)
    spread = between + (usual - 1.0) * within
    r = (between - within) / spread if spread > 0.0 else 0.0
    return 1.0 + (float(size @ size) / n - 1.0) * max(r, 0.0)
