"""Which answers rows give together, and which features: counts that add up over partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from flows.features.input.check import Column
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.patterns import Patterns, merge_patterns, occurrence

MOST_ANSWERED, MOST_ANSWERS = 6, 64
"""Columns and different rows of answers beyond which these are not listed."""
MOST_PATTERNS, MOST_PAIRS = 20, 20


@dataclass(frozen=True)
class AnswerPatterns:
    """Different rows of answers.

    Attributes
    ----------
    codes
        [P, D] the categories, -1 where missing.
    rows, has
        [P] rows with these answers, and [P, F] how many of them have each feature.
    """

    codes: IntArray
    rows: FloatArray
    has: FloatArray


def answer_patterns(
    codes: IntArray, count: FloatArray, features: FloatArray
) -> AnswerPatterns | None:
    """Return the rows of answers of a partition [N, D] and who has them; None if they are many."""
    if codes.shape[1] > MOST_ANSWERED:
        return None
    return _together(codes, count, features * count[:, None])


def _together(codes: IntArray, rows: FloatArray, has: FloatArray) -> AnswerPatterns | None:
    found, at = np.unique(codes, axis=0, return_inverse=True)
    total = np.zeros((len(found), has.shape[1]))
    np.add.at(total, at, has)
    answers = AnswerPatterns(found, np.bincount(at, rows, len(found)).astype(float), total)
    return answers if len(found) <= MOST_ANSWERS else None


@dataclass(frozen=True)
class Combination:
    """A combination of answers.

    Attributes
    ----------
    answers
        The categories, None where missing.
    rows
        Rows with these answers.
    having
        How many of them are expected to have each feature.
    """

    answers: tuple[str | None, ...]
    rows: float
    having: tuple[float, ...]


def combinations_of(
    parts: Sequence[AnswerPatterns | None], columns: Sequence[Column]
) -> tuple[Combination, ...]:
    """Return all rows of answers, the most frequent first; none where there are many."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ()
    codes, rows, has = (
        np.concatenate([getattr(one, name) for one in known]) for name in ("codes", "rows", "has")
    )
    found = _together(codes, rows, has)
    if found is None:
        return ()
    order = np.argsort(-found.rows, kind="stable")[: np.count_nonzero(found.rows)]
    return tuple(
        Combination(
            tuple(c.levels[r] if r >= 0 else None for c, r in zip(columns, code, strict=True)),
            rows,
            tuple(having),
        )
        for code, rows, having in zip(
            found.codes[order].tolist(),
            found.rows[order].tolist(),
            found.has[order].tolist(),
            strict=True,
        )
    )


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
    found = occurrence(merge_patterns(parts), MOST_PATTERNS)
    shares, both, product = found.total.tolist(), found.joint.tolist(), found.product.tolist()

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
    pairs.sort(key=lambda one: -abs(one.both - one.if_unrelated))
    patterns = (Pattern(tuple(k + 1 for k in on), rows) for on, rows in found.frequent)
    return Together(tuple(patterns), tuple(pairs[:MOST_PAIRS]))
