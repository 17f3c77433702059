"""Columns in pairs: what their cells have in common, and whether they are related."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.special import chdtrc, chdtri, chndtr

from flows.features.input.categories import Column
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.tables.levels import YES

EXPECTED = 5.0
"""Rows that would have two answers by chance, from which on it means something that none has."""
MOST_COMPARED = 400
"""Columns up to which each is compared with all others."""
BY_CHANCE = 1e-4
"""Chance that all rows of a category miss a cell, over all categories, below which that has a
reason: the question was skipped because of that answer."""
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
    scores = np.zeros(len(order) - 1)
    for other, joint in others:
        y = points_of(other)
        if y is not None:
            scores += [score_linear(joint[order], x, y) for x in above]
    return 1 + int(np.argmax(scores))


@dataclass(frozen=True)
class Survey:
    """What some rows say of columns in pairs; the sum of two is that of both.

    Attributes
    ----------
    rows
        How many.
    prints
        Of each column, a digest of all of its cells; [D].
    cells
        Rows with each category of all columns; [L].
    weights
        The sum of their weights; [L].
    gaps
        Of the rows with each category, how many miss each column; [L, D].
    pairs
        Rows with both of two categories; [L, L]; none where there are many columns.
    """

    rows: int
    prints: IntArray
    cells: IntArray
    weights: FloatArray
    gaps: IntArray
    pairs: IntArray

    def __add__(self, other: Survey) -> Survey:
        """Add another partition's."""
        with np.errstate(over="ignore"):
            pairs = zip(vars(self).values(), vars(other).values(), strict=True)
            return Survey(*(a + b for a, b in pairs))


def survey_codes(codes: IntArray, levels: Sequence[int], first: int, weight: FloatArray) -> Survey:
    """Compare the columns of some rows.

    Parameters
    ----------
    codes
        [N, D] categories, -1 where missing.
    levels
        Categories of each column.
    first
        Number of the first row in the whole table.
    weight
        [N] weights of the rows.
    """
    with np.errstate(over="ignore"):
        row = _mixed(np.arange(first, first + len(codes), dtype=np.uint64))
        prints = (_mixed(codes.astype(np.uint64) + np.uint64(7)) * row[:, None]).sum(axis=0)
    bounds = np.concatenate([[0], np.cumsum(levels)])
    rows, columns = np.nonzero(codes >= 0)
    positions = bounds[columns] + codes[rows, columns]
    weights = np.bincount(positions, weight[rows], minlength=bounds[-1]).astype(np.float64)
    if len(levels) > MOST_COMPARED:
        none = np.zeros((0, 0), np.int64)
        return Survey(len(codes), prints.astype(np.int64), none[0:0, 0], weights, none, none)
    hot = np.zeros((len(codes), bounds[-1]), np.float32)
    hot[rows, positions] = 1.0
    gone = (codes < 0).astype(np.float32)
    return Survey(
        rows=len(codes),
        prints=prints.astype(np.int64),
        cells=hot.sum(axis=0).astype(np.int64),
        weights=weights,
        gaps=(hot.T @ gone).astype(np.int64),
        pairs=(hot.T @ hot).astype(np.int64),
    )


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def reason_of_gaps(
    d: int, columns: Sequence[Column], bounds: IntArray, total: Survey
) -> tuple[str, tuple[str, ...]] | None:
    """Return the column of whose categories all rows miss a column, by no chance, and these.

    Of several such columns that which explains most of the missing cells.
    """
    reason: tuple[str, tuple[str, ...]] | None = None
    most = 0
    for other, column in enumerate(columns):
        rows = total.cells[bounds[other] : bounds[other + 1]]
        gaps = total.gaps[bounds[other] : bounds[other + 1], d]
        if other == d or not gaps.any() or gaps.sum() == rows.sum():
            continue
        rate = (
            gaps.sum() / rows.sum()
        )  # of rows that answer: parts of a questionnaire are no reason
        always = (rows == gaps) & (rows * np.log(rate) < np.log(BY_CHANCE / bounds[-1]))
        explained = int(gaps[always].sum())
        if explained > most:
            names = [column.levels[r] for r in np.flatnonzero(always)]
            most, reason = explained, (column.name, tuple(names))
    return reason


def place_of_yes(column: Column) -> int | None:
    """Return which category of a column with two is a yes; None where neither is."""
    places = [i for i, level in enumerate(column.levels) if level.strip().lower() in YES]
    return places[0] if len(column.levels) == 2 and len(places) == 1 else None


def by_no_chance(places: Sequence[int], total: Survey) -> bool:
    """Whether answers that never meet are one question's: one in each row, or each pair expected.

    Answers that few rows have may never meet by chance.
    """
    cells = total.cells[list(places)].astype(np.float64)
    if int(cells.sum()) == total.rows:
        return True
    expected = np.outer(cells, cells)[np.triu_indices(len(cells), 1)] / total.rows
    return bool(expected.min() > EXPECTED)
