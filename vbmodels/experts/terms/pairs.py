"""Pairs of columns: their functions, and which pairs a fit lacks, by one pass for all of them.

A pair has products of both columns' functions of a walk with equal steps (of a category: of the
identity), those with the largest products of eigenvalues. As both are centred, what a pair says
averages out over either column. The screen (`screen`, `evidence`) sums residuals over coarse
levels, eight of a number: sum r and sum r^2 for every two levels say all of all pairs.

Many pairs are looked at, so one is taken where its mean evidence is more than the number of pairs,
or where its odds are above one under a share pi of pairs that are there and a variance v that all
have in common, both by EM: argmax S = sum_i log(1 - pi + pi e^L_i(v)); the latter if S is more than
2 + log of the number of pairs.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from math import log

import numpy as np
from scipy.special import expit, logsumexp

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.terms.curves import (
    Curves,
    Terms,
    centred,
    eigenfunctions,
    quantile_knots,
    walk,
)
from vbmodels.experts.terms.evidence import evidence, freed

FUNCTIONS, HELD = 10, 0.97
"""Functions of a column in a pair, and the share of the walk's variance that they hold."""
COARSE, LEVELS = 7, 10
"""Knots of a number, and levels of a category that have a coarse level each."""
MOST_COLUMNS, MANY_COLUMNS = 100, 20
"""Columns of the table beyond which no pairs are looked for, and beyond which fewer functions."""
BUDGETS, FEWEST, MOST = (800, 500), 24, 64
"""Functions of all pairs, of few and of many columns; fewest and most of a pair."""
USUAL_PAIRS, PAIRS_A_COLUMN = 30, 3
VARIANCES = np.geomspace(0.0003, 1.0, 10)
"""Variances that a pair may have."""
FIRST = (0.01, 1.0)
"""Bounds of the variance that a pair begins with."""
_RISES = 100
_MOST_NATS = 300.0


def looked_for(curves: Curves | None) -> bool:
    """Say whether pairs are looked for."""
    return curves is not None and 2 <= len(curves.counts) <= MOST_COLUMNS


def pair_size(curves: Curves) -> int:
    """Return how many functions a pair has at most."""
    columns = len(curves.counts)
    usual = max(1, min(USUAL_PAIRS, columns * (columns - 1) // 2))
    return int(np.clip(_budget(columns) // usual, FEWEST, MOST))


def most_pairs(curves: Curves) -> int:
    """Return how many pairs there may be."""
    columns = len(curves.counts)
    return min(PAIRS_A_COLUMN * columns, max(1, _budget(columns) // pair_size(curves)))


def _budget(columns: int) -> int:
    return BUDGETS[0] if columns <= MANY_COLUMNS else BUDGETS[1]


def pair_tables(
    curves: Curves, terms: Terms
) -> list[tuple[tuple[int, int], FloatArray, FloatArray]]:
    """Return both columns and their factors at their levels, [L, q] each, of every pair."""
    found = []
    for d, e in terms.pairs.tolist():
        (one, a), (other, b) = _functions(curves, d), _functions(curves, e)
        j, k = _largest(a, b, pair_size(curves))
        found.append(((d, e), one[:, j], other[:, k]))
    return found


def _functions(curves: Curves, s: int) -> tuple[FloatArray, FloatArray]:
    ordered = bool(curves.counts[s])
    return _of_levels(curves.share(s).tobytes(), ordered, HELD if ordered else 1.0)


@lru_cache(maxsize=1024)
def _of_levels(shares: bytes, ordered: bool, held: float) -> tuple[FloatArray, FloatArray]:
    """Return the functions of a column in a pair [L, q], and the share of variance of each."""
    share = np.frombuffer(shares)
    kernel = walk(np.ones(share.size - 1)) if ordered else np.eye(share.size)
    found, size = eigenfunctions(centred(kernel, share), share)
    size = size / size.sum()
    kept = min(FUNCTIONS, int((np.cumsum(size) < held).sum()) + 1)
    scale = np.sqrt(size / np.maximum(share @ found**2, 1e-300))
    return (found * scale)[:, :kept], size[:kept]


def _largest(a: FloatArray, b: FloatArray, count: int) -> tuple[IntArray, IntArray]:
    """Return the factors of so many products with the largest products of a and b."""
    products = np.multiply.outer(a, b)
    order = np.argsort(-products, axis=None, kind="stable")[:count]
    j, k = np.unravel_index(order, products.shape)
    return np.asarray(j, np.int64), np.asarray(k, np.int64)


def coarse_levels(curves: Curves) -> tuple[list[IntArray], IntArray]:
    """Return the coarse level of every level of a column, and where each column's begin."""
    found = []
    for s, number in enumerate(curves.counts):
        share = curves.share(s)
        if number:
            at = np.arange(share.size, dtype=np.float64)
            edges = quantile_knots(at, share, COARSE) if share.size > 2 else at[:1]
            found.append(np.searchsorted(edges, at, "left"))
        else:
            own = np.full(share.size, min(LEVELS, share.size))
            order = np.argsort(-share, kind="stable")[:LEVELS]
            own[order] = np.arange(order.size)
            found.append(own)
    return found, np.cumsum([0, *(int(own.max()) + 1 for own in found)])


def missing_pairs(
    curves: Curves, terms: Terms, first: FloatArray, second: FloatArray, room: int
) -> tuple[IntArray, FloatArray]:
    """Return pairs that the fit lacks, the best first, and the variance that each begins with.

    Parameters
    ----------
    curves, terms
        The columns, and which pairs there are.
    first, second
        Sums of r and of r^2 for every two coarse levels; [B, B].
    room
        The most to return.
    """
    coarse, starts = coarse_levels(curves)
    shares = [np.bincount(own, curves.share(s), int(own.max()) + 1) for s, own in enumerate(coarse)]
    parts = [
        _of_levels(np.ascontiguousarray(share).tobytes(), bool(number), 1.0)
        for share, number in zip(shares, curves.counts, strict=True)
    ]
    there = {(int(d), int(e)) for d, e in terms.pairs}
    places, a_of, h_of, count = [], [], [], pair_size(curves)
    for d, e in itertools.combinations(range(len(parts)), 2):
        if (d, e) in there or min(shares[d].size, shares[e].size) < 2:
            continue
        cells = np.s_[starts[d] : starts[d + 1], starts[e] : starts[e + 1]]
        (one, a), (other, b) = parts[d], parts[e]
        j, k = _largest(a, b, count)
        product = (one[:, None, j] * other[None, :, k]).reshape(-1, j.size)
        own = _margins(len(one), len(other))
        places.append((d, e))
        a_of.append(np.zeros((count, count)))  # zeros are worth nothing
        h_of.append(np.zeros(count))
        score = freed(product, own, first[cells].ravel(), second[cells].ravel())
        a_of[-1][: j.size, : j.size], h_of[-1][: j.size] = score
    if not places:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    value = evidence(np.array(a_of), np.array(h_of), VARIANCES)
    odds = log_odds(value)
    order = np.argsort(-odds, kind="stable")[:room]
    order = order[odds[order] > 0.0]
    begins = np.clip(VARIANCES[value[order].argmax(1)], *FIRST)
    return np.array(places, np.int64)[order], begins


@lru_cache(maxsize=256)
def _margins(rows: int, columns: int) -> FloatArray:
    """Return what says in which row and in which column a cell is; [cells, rows + columns]."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.hstack([np.eye(rows)[row], np.eye(columns)[column]])


def log_odds(value: FloatArray) -> FloatArray:
    """Return each pair's log odds of being there by L at each of `VARIANCES`, [I, V]; [I]."""
    count, variances = value.shape
    alone = logsumexp(value, axis=1) - log(variances) - log(count)
    found, pi = np.minimum(value.T, _MOST_NATS), np.full((variances, 1), 0.1)
    for _ in range(_RISES):
        rise = expit(found + np.log(pi / (1.0 - pi))).mean(axis=1, keepdims=True)
        pi = np.clip(rise, 1e-5, 1.0 - 1e-3)
    total = np.logaddexp(np.log(1.0 - pi), np.log(pi) + found).sum(axis=1)
    at = int(total.argmax())
    if total[at] <= 2.0 + log(count):
        return np.asarray(alone)
    share = float(pi[at, 0])
    return np.asarray(np.maximum(alone, value[:, at] + log(share / (1.0 - share))))
