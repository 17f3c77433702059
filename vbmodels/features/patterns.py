"""What a fit says about a table: which features stay, how often each and together, what they do.

Section 5.2 of the text: features that most rows have are turned into their complements (the text:
more than .8 of the rows; here more than half), those that few rows have are left out, and tables
count what is left.

What a feature does to the columns are the shares of every category with it and without it. Rows are
as they are, so its contrast is a mean over the other features that they have; it is taken at draws
of the weights and, given these, of the rows' features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, xlogy

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.features.table import unit_offsets


@dataclass(frozen=True)
class Selection(State, kind="features.Selection"):
    """The features that are reported, most common first.

    Parameters
    ----------
    index
        [F] number of each in the fit.
    flipped
        [F] whether it is reported as its complement.
    absorbed
        [A] features that nearly every row has: they belong to the biases.
    unused
        [B] features that nearly no row has.
    """

    index: NDArray[np.intp]
    flipped: BoolArray
    absorbed: NDArray[np.intp]
    unused: NDArray[np.intp]


def select_features(share: FloatArray, n_rows: float, *, least_rows: float = 50.0) -> Selection:
    """Choose the features to report, as in section 5.2 of the text; each is its rarer side.

    Parameters
    ----------
    share
        [K] share of the rows that have each feature.
    n_rows
        N.
    least_rows
        Features that fewer rows have, after that, are not reported.
    """
    flipped = share > 0.5
    rows = np.where(flipped, 1.0 - share, share) * n_rows
    seen = rows >= least_rows
    order = np.argsort(-rows, kind="stable")
    index = order[seen[order]]
    return Selection(
        index=index,
        flipped=flipped[index],
        absorbed=np.flatnonzero(~seen & flipped),
        unused=np.flatnonzero(~seen & ~flipped),
    )


def selected(nu: FloatArray, chosen: Selection) -> FloatArray:
    """Return the probabilities, or draws, of the reported features; [..., F]."""
    picked = nu[..., chosen.index]
    return np.where(chosen.flipped, 1.0 - picked, picked)


def selected_draws(weights: FloatArray, chosen: Selection) -> FloatArray:
    """Return draws [S, J, F + 1] of the weights of the reported features.

    psi = b0 + z'B with z = 1 - z~ for a flipped feature is b0 + B_k - z~ B_k; absorbed features
    add to the bias.
    """
    return weights @ _change(weights.shape[2], chosen).T


def _change(size: int, chosen: Selection) -> FloatArray:
    change = np.zeros((len(chosen.index) + 1, size))
    change[0, 0] = 1.0
    change[0, 1 + chosen.absorbed] = 1.0
    for place, (index, flipped) in enumerate(zip(chosen.index, chosen.flipped, strict=True)):
        change[place + 1, 1 + index] = -1.0 if flipped else 1.0
        if flipped:
            change[0, 1 + index] = 1.0
    return change


@dataclass(frozen=True)
class Patterns(State, kind="features.Patterns"):
    """Distinct patterns of features [P, F] and how many rows, or what weight, has each [P]."""

    patterns: BoolArray
    counts: FloatArray


def merge_patterns(parts: Sequence[Patterns]) -> Patterns:
    """Add the counts of partitions, or of rows [N, F], each with what it counts."""
    stacked = np.concatenate([p.patterns for p in parts])
    found, back = np.unique(stacked, axis=0, return_inverse=True)
    counts = np.concatenate([p.counts for p in parts])
    total = np.bincount(back.reshape(-1), counts, minlength=len(found))
    return Patterns(found, total.astype(np.float64))


@dataclass(frozen=True)
class Occurrence:
    """Tables 1 to 5 of the text, as shares of the rows.

    Attributes
    ----------
    total
        [F] rows with each feature.
    none
        Rows without any.
    joint
        [F, F] rows with both.
    product
        [F, F] what that would be if features were independent.
    frequent
        The most frequent patterns with their numbers of rows.
    """

    total: FloatArray
    none: float
    joint: FloatArray
    product: FloatArray
    frequent: list[tuple[tuple[int, ...], int]]


def occurrence(found: Patterns, most: int = 20) -> Occurrence:
    """Tabulate how often features occur alone and together."""
    z, counts = found.patterns.astype(np.float64), found.counts
    n = counts.sum()
    joint = (z * counts[:, None]).T @ z / n
    total = np.diagonal(joint).copy()
    order = np.argsort(-found.counts, kind="stable")[:most]
    return Occurrence(
        total=total,
        none=float(counts @ (z.sum(1) == 0) / n),
        joint=joint,
        product=np.outer(total, total),
        frequent=[
            (tuple(np.flatnonzero(found.patterns[i]).tolist()), round(float(counts[i])))
            for i in order
        ],
    )


def profile(draws: FloatArray, levels: IntArray, on: Sequence[int]) -> list[FloatArray]:
    """Return P(category) of each column when just the features ``on`` are active; figures 7, 8.

    The mean over draws of the weights; the text takes their modes.

    Parameters
    ----------
    draws
        [S, J, F + 1] as from `selected_draws`.
    levels
        [D] categories of each column.
    on
        Numbers of the active features, from 0.
    """
    go_on = expit(draws[:, :, [0, *(k + 1 for k in on)]].sum(axis=2))
    first = unit_offsets(levels)
    result = []
    for d in range(len(levels)):
        p = go_on[:, first[d] : first[d + 1]]
        one = np.ones((len(p), 1))
        reach = np.concatenate([one, np.cumprod(p, axis=1)], axis=1)
        result.append((reach * np.concatenate([1.0 - p, one], axis=1)).mean(axis=0))
    return result


def places(levels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the column and the number of every category; [C] each."""
    column = np.repeat(np.arange(len(levels)), levels)
    first = np.cumsum(levels) - levels
    return column, np.arange(len(column)) - first[column]


def contrast_sums(
    z: BoolArray, weights: FloatArray, levels: IntArray, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sums over rows [S, F, C] of every category's probability, with and without.

    Parameters
    ----------
    z, weights
        [S, N, F] features of the rows and [S, J, F + 1] biases and weights of every draw.
    levels
        [D] how many categories each column has.
    count
        [N] for how many each row counts.
    """
    draws, _, features = z.shape
    found = np.zeros((2, draws, features, int(np.sum(levels))))
    for s, own in enumerate(weights):
        for k in range(features):
            others, rows = _patterns(z[s], k, count)
            without = own[:, 0] + others @ own[:, 1:].T
            found[1, s, k] = _category_sums(without, rows, levels)
            found[0, s, k] = _category_sums(without + own[:, k + 1], rows, levels)
    return found[0], found[1]


def _patterns(z: BoolArray, k: int, count: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Return the distinct rows of z [N, F] without feature k, and what counts for each."""
    others = z.copy()
    others[:, k] = False
    bits = np.packbits(others, axis=1)
    _, first, place = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    return others[first], np.bincount(place.reshape(-1), count).astype(np.float64)


def _category_sums(psi: FloatArray, count: FloatArray, levels: IntArray) -> FloatArray:
    """Return the sum over rows of every category's probability; psi is [B, J], the sum [C]."""
    column, category = places(levels)
    first = unit_offsets(levels)
    unit = first[column] + category
    last = category == np.asarray(levels)[column] - 1
    go_on = np.concatenate([np.zeros((len(psi), 1)), np.cumsum(log_expit(psi), axis=1)], axis=1)
    stop = np.concatenate([log_expit(-psi), np.zeros((len(psi), 1))], axis=1)
    reach = go_on[:, unit] - go_on[:, first[column]]
    chance = np.exp(reach + stop[:, np.where(last, psi.shape[1], unit)])
    return np.asarray((chance * count[:, None]).sum(0))


def information(
    with_it: FloatArray, without_it: FloatArray, pi: float, column: IntArray, columns: int
) -> FloatArray:
    """Return I_kd of every draw and column; [S, D]."""
    mix = pi * with_it + (1.0 - pi) * without_it
    safe = np.maximum(mix, 1e-300)
    terms = pi * xlogy(with_it, with_it / safe) + (1.0 - pi) * xlogy(without_it, without_it / safe)
    return np.asarray(terms @ (column[:, None] == np.arange(columns)))
