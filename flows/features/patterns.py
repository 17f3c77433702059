"""Rows that are alike: copies, the same answers, the same features; counts that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from flows.features.simpler_models import RowSample
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.patterns import Patterns, merge_patterns, occurrence

# Different rows that are compared in pairs; of more, so many.
MOST_COMPARED = 2000
# Columns below which rows agree without being copies.
LEAST_COLUMNS = 5


@dataclass(frozen=True)
class Copies:
    """Rows of a sample that are exact copies of an earlier one.

    Attributes
    ----------
    rows, copies
        Rows of the sample, and those of them that are copies.
    pairs, by_chance
        Pairs of equal rows, and how many there would be where none is copied, judged by the pairs
        that differ in one column and in two.
    """

    rows: int
    copies: int
    pairs: float
    by_chance: float

    @property
    def too_many(self) -> bool:
        """Whether there are clearly more equal rows than chance makes."""
        return self.pairs > 2.0 * (self.by_chance + self.by_chance**0.5)


def find_copies(samples: Sequence[RowSample]) -> Copies | None:
    """Return the copies among sampled rows; None where there are too few columns to say so.

    Where a pair of rows agrees in each of D columns by chance, the numbers c of pairs that agree in
    k of them obey Newton's inequality: c_D <= c_(D-1)^2 / c_(D-2) * (D - 1) / (2 D).
    """
    codes = np.concatenate([sample.codes for sample in samples])
    columns = codes.shape[1]
    if columns < LEAST_COLUMNS:
        return None
    codes, number = np.unique(codes, axis=0, return_inverse=True)
    rows = np.concatenate([sample.rows for sample in samples])
    count = np.bincount(number.ravel(), rows, len(codes)).astype(np.float64)
    step = -(-len(codes) // MOST_COMPARED)
    near, far = _nearly_equal(codes[::step].astype(np.int64), count[::step])
    equal = count[::step]
    return Copies(
        rows=int(count.sum()),
        copies=int(count.sum()) - len(codes),
        pairs=float((equal * (equal - 1.0)).sum() / 2.0),
        by_chance=near**2 / max(far, 1.0) * (columns - 1.0) / (2.0 * columns),
    )


def _nearly_equal(codes: IntArray, count: FloatArray) -> tuple[float, float]:
    """Return the pairs of rows that differ in one column, and in two."""
    differing = np.zeros((len(codes), len(codes)), np.int16)
    for column in codes.T:
        differing += column[:, None] != column
    weight = np.outer(count, count)
    one, two = (float(weight[differing == k].sum() / 2.0) for k in (1, 2))
    return one, two


MOST_PATTERNS, MOST_PAIRS = 20, 20


@dataclass(frozen=True)
class Pattern:
    """Rows that have these features, by number, and no others."""

    features: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class Pair:
    """Two features, by number: the share of rows with both, and by each of the two alone.

    Attributes
    ----------
    first, second
        The features.
    both
        Share of the rows that have both.
    if_unrelated
        What that would be if the features were independent.
    of_first, of_second
        Of the rows with the first the share that has the second, and the other way round; None
        where no row has it.
    """

    first: int
    second: int
    both: float
    if_unrelated: float
    of_first: float | None
    of_second: float | None


@dataclass(frozen=True)
class Together:
    """Which features rows have together, where a row has those of a probability above 0.5."""

    patterns: tuple[Pattern, ...]
    pairs: tuple[Pair, ...]


def together_of(parts: Sequence[Patterns]) -> Together:
    """Return the most frequent patterns, and the pairs that are furthest from independent."""
    counted = occurrence(merge_patterns(parts), MOST_PATTERNS)
    shares, both, product = counted.total.tolist(), counted.joint.tolist(), counted.product.tolist()

    def among(joint: float, share: float) -> float | None:
        return joint / share if share else None

    pairs = [
        Pair(
            first=i + 1,
            second=j + 1,
            both=both[i][j],
            if_unrelated=product[i][j],
            of_first=among(both[i][j], shares[i]),
            of_second=among(both[i][j], shares[j]),
        )
        for i, j in combinations(range(len(shares)), 2)
    ]
    pairs.sort(key=lambda pair: -abs(pair.both - pair.if_unrelated))
    patterns = (Pattern(tuple(k + 1 for k in on), rows) for on, rows in counted.frequent)
    return Together(tuple(patterns), tuple(pairs[:MOST_PAIRS]))
