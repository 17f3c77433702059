"""Whether columns are related: tests of pairs, which use the order of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.special import chdtrc, chdtri, chndtr

from flows.features.input.check import Column
from vbmodels.core.state import FloatArray

# Columns that are tested in pairs; of more, so many evenly chosen ones.
MOST_COLUMNS = 60
# P value below which columns are related.
RELATED = 1e-3
# Correlation of all pairs that a test of the columns should find.
WEAK = 0.2


@dataclass(frozen=True)
class PairTest:
    """A test of whether all columns are independent.

    Attributes
    ----------
    pairs
        Of columns, in which some rows have both cells.
    p
        The P value.
    power
        The chance that columns with a correlation of `WEAK` in all pairs are found to be related.
    """

    pairs: int
    p: float
    power: float

    @property
    def related(self) -> bool:
        """Whether the columns are related."""
        return self.p < RELATED


def score_linear(joint: FloatArray, x: FloatArray, y: FloatArray) -> float:
    """Return (n - 1) r^2 of two columns, a chi-square of one degree where they are independent.

    ``joint``: rows with each pair of categories [R, S], at the points x [R] and y [S]; see Agresti,
    Categorical Data Analysis (2013), section 3.4.

    >>> score_linear(np.array([[30.0, 10.0], [10.0, 30.0]]), np.arange(2.0), np.arange(2.0))
    19.75
    """
    n = joint.sum()
    if n < 2.0:
        return 0.0
    x, y = x - joint.sum(1) @ x / n, y - joint.sum(0) @ y / n
    variance = (joint.sum(1) @ x**2) * (joint.sum(0) @ y**2)
    return float((n - 1.0) * (x @ joint @ y) ** 2 / variance) if variance > 0.0 else 0.0


def _score_table(joint: FloatArray) -> tuple[float, int]:
    """Return Pearson's chi-square of two columns without an order, and its degrees of freedom."""
    joint = joint[joint.sum(1) > 0.0][:, joint.sum(0) > 0.0]
    if min(joint.shape) < 2:
        return 0.0, 0
    expected = np.outer(joint.sum(1), joint.sum(0)) / joint.sum()
    free = (joint.shape[0] - 1) * (joint.shape[1] - 1)
    return float(((joint - expected) ** 2 / expected).sum()), free


def points_of(column: Column) -> FloatArray | None:
    """Return where a column's categories are in their order; None where they have none."""
    return np.arange(2.0) if len(column.levels) == 2 else column.points


def test_pairs(columns: Sequence[Column], joint: FloatArray) -> PairTest:
    """Test whether columns are independent, by the sum of the tests of all pairs.

    ``joint``: rows with each two of all columns' categories; [L, L].
    """
    total, free, noise, pairs = 0.0, 0, 0.0, 0
    for one, other, table in _tables(columns, joint):
        x, y = points_of(one), points_of(other)
        score, degrees = _score_table(table)
        if degrees and x is not None and y is not None:
            score, degrees = score_linear(table, x, y), 1
        if degrees:
            total, free, pairs = total + score, free + degrees, pairs + 1
            noise += float(table.sum()) * WEAK**2
    if not pairs:
        return PairTest(0, 1.0, 0.0)
    power = 1.0 - chndtr(chdtri(free, RELATED), free, noise)
    return PairTest(pairs, float(chdtrc(free, total)), float(power))


def _tables(
    columns: Sequence[Column], joint: FloatArray
) -> Iterator[tuple[Column, Column, FloatArray]]:
    ends = [*pairwise(np.concatenate([[0], np.cumsum([len(c.levels) for c in columns])]))]
    step = -(-len(columns) // MOST_COLUMNS)
    for a, b in combinations(range(0, len(columns), step), 2):
        yield columns[a], columns[b], joint[slice(*ends[a]), slice(*ends[b])]


def best_cut(column: Column, others: Sequence[tuple[Column, FloatArray]]) -> int:
    """Return how many of an ordered column's answers are its lower half.

    That is where the halves say most of the other columns.

    Parameters
    ----------
    column
        The column.
    others
        Each other one, with the rows that have each pair of categories.
    """
    order = [column.levels.index(answer) for answer in column.ordered]
    above = np.tri(len(order), k=-1)[:, :-1].T  # [cuts, answers]
    found = np.zeros(len(order) - 1)
    for other, joint in others:
        y = points_of(other)
        if y is not None:
            found += [score_linear(joint[order], x, y) for x in above]
    return 1 + int(np.argmax(found))
