"""Where a column's knots are: quantiles of a sample of rows that depends on their cells alone.

The sample holds the rows whose cells have the smallest hashes (bottom-k; Cohen and Kaplan 2007),
each with the number of its copies. Samples of partitions merge without loss into that of all rows,
so no partitioning changes a knot, and a table with every row twice has the knots of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbmodels.core.draws import hashed
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.experts.terms.curves import Curves, quantile_knots
from vbmodels.experts.terms.interactions import InteractionGP

STEPS, MOST_STEPS = 8, 1500
"""Knots of a column, fewer where all columns' knots would be more than the second."""
LARGEST_SAMPLE, SMALLEST_SAMPLE, MOST_CELLS = 4096, 256, 2_000_000
FEWEST_REPEATED = 20
"""Different rows from which on a number that divides all their copies is no chance."""


@dataclass(frozen=True)
class RowSample:
    """Rows with the smallest hashes of their cells.

    Attributes
    ----------
    hash
        In increasing order; [M].
    group
        The number of each row's cells, which breaks ties; [M].
    copies
        How many rows have these cells; [M].
    x
        The cells, NaN where one is missing; [M, D].
    classes
        How many of the copies are fitted with each label; [M, K].
    numbers
        Sum of the numbers of those that are fitted, where the label is one; else 0; [M].
    """

    hash: FloatArray
    group: IntArray
    copies: FloatArray
    x: FloatArray
    classes: FloatArray
    numbers: FloatArray

    @classmethod
    def of(
        cls,
        x: FloatArray,
        group: IntArray,
        label: IntArray | None = None,
        n_classes: int = 2,
        y: FloatArray | None = None,
    ) -> RowSample:
        """Sample the rows of one partition.

        Parameters
        ----------
        x
            The cells; [N, D].
        group
            The number of each row's cells; [N].
        label
            0 to ``n_classes`` - 1, or -1 for a row that is not fitted; [N]. None: no row is.
        y
            The number of each row, where the label is one; [N].
        """
        nothing, ones = np.zeros((len(x), 0)), np.ones(len(x))
        found = _smallest(hashed(group, 4, 1)[0], group, ones, x, nothing, ones)
        classes, numbers = np.zeros((len(found.group), n_classes)), np.zeros(len(found.group))
        if label is not None and len(x):
            order = np.argsort(found.group)
            at = np.minimum(np.searchsorted(found.group, group, sorter=order), len(order) - 1)
            row = order[at]
            counted = (found.group[row] == group) & (label >= 0)
            np.add.at(classes, (row[counted], label[counted]), 1.0)
            if y is not None:
                np.add.at(numbers, row[counted], y[counted])
        return replace(found, classes=classes, numbers=numbers)

    def __add__(self, other: RowSample) -> RowSample:
        """Merge with another partition's sample."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _smallest(*(np.concatenate(pair) for pair in pairs))

    @property
    def repeats(self) -> float:
        """How many times the whole table repeats: what divides the copies of every row.

        1 where few rows differ. Of a table whose rows happen to be alike that is 1, too: the copies
        of g rows have a common divisor above 1 with a chance of about 2^-g.
        """
        if len(self.copies) < FEWEST_REPEATED:
            return 1.0
        return float(np.gcd.reduce(np.round(self.copies).astype(np.int64)))

    def knots(self, fixed: BoolArray) -> FloatArray:
        """Return the knots of every column, [D, STEPS], NaN where there are fewer.

        ``fixed`` [D] are columns without knots, as all of two values are.
        """
        found = np.full((self.x.shape[1], STEPS), np.nan)
        free = np.flatnonzero(~fixed)
        count = min(STEPS, MOST_STEPS // max(1, free.size))
        for j in free if count else free[:0]:
            given = ~np.isnan(self.x[:, j])
            values, index = np.unique(self.x[given, j], return_inverse=True)
            copies = np.bincount(index, self.copies[given]).astype(np.float64)
            at = quantile_knots(values, copies, count)
            found[j, : len(at)] = at
        return found


def _smallest(
    key: FloatArray,
    group: IntArray,
    copies: FloatArray,
    x: FloatArray,
    classes: FloatArray,
    numbers: FloatArray,
) -> RowSample:
    most = int(np.clip(MOST_CELLS // max(1, x.shape[1]), SMALLEST_SAMPLE, LARGEST_SAMPLE))
    order = np.lexsort((group, key))
    first = np.ones(len(order), bool)
    first[1:] = np.diff(group[order]) != 0
    kept = order[first][:most]
    if len(order):
        starts = np.flatnonzero(first)
        copies = np.add.reduceat(copies[order], starts)
        classes = np.add.reduceat(classes[order], starts)
        numbers = np.add.reduceat(numbers[order], starts)
    return RowSample(key[kept], group[kept], copies[:most], x[kept], classes[:most], numbers[:most])


def coded(x: FloatArray, knots: FloatArray) -> np.ndarray:
    """Return how many of its column's knots every cell of x [N, D] is above; [N, D], 0 to STEPS."""
    result = np.zeros(x.shape, np.uint8)
    for j, at in enumerate(knots):
        given = at[~np.isnan(at)]
        if given.size:
            result[:, j] = np.searchsorted(given, x[:, j], side="left")
    return result


@dataclass(frozen=True)
class Basis(State, kind="experts/additive.Basis"):
    """How columns become steps and curves, and how the mixture's columns are brought to one scale.

    Attributes
    ----------
    knots
        In the columns' own units, [D, STEPS]; NaN where a column has fewer.
    centre, scale
        Taken off the mixture's columns, and what they are divided by; [U].
    limit
        Largest size of a column on the scale of the fit; what is beyond is held there.
    interaction
        What a Gaussian process sees of all columns; None where there is none.
    curves
        The levels of the columns' curves; None where no column has one.
    """

    knots: FloatArray
    centre: FloatArray
    scale: FloatArray
    limit: float
    interaction: InteractionGP | None = None
    curves: Curves | None = None

    @property
    def steps(self) -> IntArray:
        """Number of knots of every column; [D]."""
        return np.asarray(np.sum(~np.isnan(self.knots), axis=1).astype(np.int64))
