"""The proposals of a search as fits: the best deletes, new bits, births and swaps at the screen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from vbmodels.core.state import IntArray
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.search.proposals import (
    HeldOmega,
    birth_scores,
    correlations,
    delete_scores,
    greedy_deletes,
    held_omega,
    relabel_scores,
    relabelled,
    with_born,
)
from vbmodels.features.search.rare_features import heavier_sides
from vbmodels.features.search.states import (
    Edit,
    Lane,
    LaneStats,
    PoolStats,
    ScreenStats,
    SearchGlobal,
)

WORST_DELETE = -400.0
"""Nats: a delete that loses more at the screen is not tried."""
SURE_DELETE = 20.0
"""Nats: features that gain more each by going, one after the other, also go in one proposal."""
DELETES, PAIRS, BIRTHS = 3, 6, 4
"""Proposals of each kind that are tried side by side."""
WIDE = 2
"""New bits and births that are tried on all rows once a sample has been searched, of those that
lose nothing at the screen: what loses there was tried on the sample."""
SLACK, SLACK_A_ROW = 80.0, 0.4
"""Nats that new bits may lose at the screen: as many, or as many a row where that is more."""
SAME = 0.8
"""Correlation from which a feature of the pool is one that is there."""
NO_KEYS = np.zeros((0, 4), np.int64)
_NONE = np.full(2, -1, np.int64)


def plain_edit(source: int, columns: IntArray) -> Edit:
    """Return the edit that keeps some columns of another fit, in this order."""
    columns = np.asarray(columns, dtype=np.int64)
    return Edit(source, _NONE, _NONE, columns, np.zeros(len(columns), bool), _NONE)


def held_of(lane: Lane, got: LaneStats, fit: PolyaGammaIBP) -> HeldOmega:
    """Return a fit's sums with omega held."""
    return held_omega(lane.q, got.fit, got.entropy, fit.bias_variance)


def _proposed(at: HeldOmega, labels: IntArray, edit: Edit) -> Lane:
    """Return a proposal that starts from the weights that its sums ask for."""
    return Lane(at.fitted(), labels, -np.inf, False, -np.inf, 0.0, edit)


def deletes(lane: Lane, at: HeldOmega, source: int = 0, kept: int | None = None) -> list[Lane]:
    """Propose the best deletes from the fit at ``source``, but not of the label ``kept``."""
    k, scores = len(lane.labels), delete_scores(at)
    order = [
        i
        for i in np.argsort(-scores, kind="stable").tolist()
        if scores[i] > WORST_DELETE and lane.labels[i] != kept
    ]
    gone = [[i] for i in order[:DELETES]]
    if kept is None and len(order) > 1 and scores[order[1]] > 0.0:
        several = greedy_deletes(at, SURE_DELETE)
        if len(several) > 1:
            gone = [several, *gone[: DELETES - 1]]
    found = []
    for out in gone:
        columns = np.array([i for i in range(k) if i not in out], np.int64)
        edit = plain_edit(source, columns)
        found.append(_proposed(at.keeping(columns), lane.labels[columns], edit))
    return found


def new_bits(
    q: SearchGlobal, base: Lane, at: HeldOmega, screen: ScreenStats
) -> tuple[list[Lane], IntArray]:
    """Propose new bits for pairs of the best fit; with the keys by which a refusal is known."""
    lanes: list[Lane] = []
    keys: list[list[int]] = []
    if screen.pairs is None:
        return lanes, NO_KEYS
    most, slack = PAIRS, max(SLACK, SLACK_A_ROW * q.seen)
    if q.widened:
        most, slack = WIDE, 0.0
    failed = q.failed.tolist()
    proposals, gains = relabel_scores(at, screen.pairs)
    for (i, j, s, t), gain in zip(proposals.tolist(), gains.tolist(), strict=True):
        if gain < -slack or len(lanes) == most:
            break
        key = [int(base.labels[i]), int(base.labels[j]), s, t]
        if key in failed:
            continue
        pair, patterns = np.array([i, j]), np.array([s, t])
        edit = replace(plain_edit(0, np.arange(len(base.labels))), pair=pair, patterns=patterns)
        lanes.append(_proposed(relabelled(at, screen.pairs, i, j, (s, t)), base.labels, edit))
        keys.append(key)
    return lanes, np.array(keys, np.int64).reshape(-1, 4)


def births(
    q: SearchGlobal, base: Lane, at: HeldOmega, screen: ScreenStats, fit: PolyaGammaIBP
) -> tuple[list[Lane], IntArray]:
    """Propose features of the pool that are not there yet; with the keys of refusals."""
    variance = _usual_variance(at, fit)
    failed, found = q.failed.tolist(), []
    for start, sums in enumerate(screen.pool):
        if len(sums.on):
            gains = birth_scores(at, sums, variance)
            known = np.abs(correlations(at, screen.square, sums)).max(axis=1, initial=0.0)
            found += [
                (float(gains[c]), start, c)
                for c in range(len(gains))
                if known[c] < SAME and [-1, start, c, 0] not in failed
            ]
    found.sort(key=lambda one: -one[0])
    if q.widened:
        found = [one for one in found[:WIDE] if one[0] > 0.0]
    found = found[:BIRTHS]
    labels, stay = with_labels(base), plain_edit(0, np.arange(len(base.labels)))
    lanes = [
        _proposed(
            with_born(at, screen.pool[start], c, variance),
            labels,
            replace(stay, born=np.array([start, c])),
        )
        for _, start, c in found
    ]
    keys = [[-1, start, c, 0] for _, start, c in found]
    return lanes, np.array(keys, np.int64).reshape(-1, 4)


def rare_births(
    base: Lane, at: HeldOmega, sums: PoolStats, n_pool: int, fit: PolyaGammaIBP
) -> tuple[Lane, ...]:
    """Propose the rows far along the directions of residuals as one more feature's, in turn."""
    variance = _usual_variance(at, fit)
    labels, stay = with_labels(base), plain_edit(0, np.arange(len(base.labels)))
    return tuple(
        _proposed(
            with_born(at, sums, c, variance), labels, replace(stay, born=np.array([n_pool, c]))
        )
        for c in heavier_sides(sums.on, at.n_rows)
    )


def _usual_variance(at: HeldOmega, fit: PolyaGammaIBP) -> float:
    """Return the prior variance that a new feature's weights begin with."""
    return float(np.exp(np.log(at.prior[1:]).mean())) if len(at.on) else fit.weight_variance


def with_labels(base: Lane, more: int = 1) -> IntArray:
    """Return the labels with some more that are free."""
    every = np.arange(len(base.labels) + more)
    return np.append(base.labels, every[~np.isin(every, base.labels)][:more])


def matches_of(at: HeldOmega, screen: ScreenStats) -> IntArray:
    """Return how many starts of the pool have each feature: the best matching, |corr| over .8."""
    found = np.zeros(len(at.on), np.int64)
    for sums in screen.pool:
        known = np.abs(correlations(at, screen.square, sums))
        waits, own = linear_sum_assignment(-known)
        found[own] += known[waits, own] > SAME
    return found
