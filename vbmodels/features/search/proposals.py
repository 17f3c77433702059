"""Proposals of a search, and what they are worth with omega held: exact, from sums alone.

For any nu' the bound with q(omega) held at the optimum of the present fit, and the weights at
theirs, is up to a constant

    F(nu') = sum_j [b_j' Lambda_j^-1 b_j / 2 - log|Lambda_j| / 2 - log|prior| / 2]
             + sticks(on') + H(nu'),
    b_j = sum_n s_nj / 2 E[z'],  Lambda_j = prior^-1 + sum_n E[omega_nj] E[z' z''],

a lower bound of what the proposal's own omega would give. alpha and the variances are held.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import linear_sum_assignment

from vbmodels.core import linalg
from vbmodels.core.expfam import Gaussian
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.ibp.model import FeatureGlobal, PolyaGammaIBP
from vbmodels.features.ibp.sticks import best_sticks
from vbmodels.features.search.screens import (
    heavier_sides,
)
from vbmodels.features.search.states import (
    Candidate,
    CandidateStats,
    Edit,
    PoolStats,
    ScreenStats,
    SearchGlobal,
)

WORST_DELETE = -400.0
"""Nats: a delete that loses more at the screen is not tried."""
SURE_DELETE = 20.0
"""Nats: features that gain more each by going, one after the other, also go in one proposal."""
DELETES, BIRTHS = 3, 4
"""Proposals of each kind that are tried side by side."""
WIDE = 2
"""Births that are tried on all rows once a sample has been searched, of those that lose nothing at
the screen: what loses there was tried on the sample."""
SAME = 0.8
"""Correlation from which a feature of the pool is one that is there."""
_NONE = np.full(2, -1, np.int64)


@dataclass(frozen=True)
class HeldOmega:
    """A fit's sums with omega held: [J, K + 1], [J, K + 1, K + 1], and by feature [K].

    ``prior`` [K + 1] are the variances of biases and weights.
    """

    linear: FloatArray
    quadratic: FloatArray
    on: FloatArray
    entropy: FloatArray
    n_rows: float
    alpha: float
    prior: FloatArray

    @cached_property
    def weights(self) -> Gaussian:
        """q(weights) at its optimum."""
        return Gaussian.from_linear(self.linear, self.quadratic + np.diag(1.0 / self.prior))

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariances of the weights; [J, K + 1, K + 1]."""
        return self.weights.covariance

    @cached_property
    def sticks(self) -> float:
        """The sticks' part of the bound."""
        return float(best_sticks(_falling(self.on[None]), self.n_rows, self.alpha)[1][0])

    def value(self) -> float:
        """F, up to its constant."""
        weights = self.weights
        data = 0.5 * (self.linear * weights.mean).sum()
        sizes = linalg.log_det(weights.factor) + np.log(self.prior).sum()
        return float(data - 0.5 * sizes.sum() + self.sticks + self.entropy.sum())

    def keeping(self, columns: IntArray) -> HeldOmega:
        """Return the sums of some of the features, in a new order."""
        place = np.concatenate([[0], np.asarray(columns, dtype=np.int64) + 1])
        return HeldOmega(
            self.linear[:, place],
            self.quadratic[:, place[:, None], place],
            self.on[place[1:] - 1],
            self.entropy[place[1:] - 1],
            self.n_rows,
            self.alpha,
            self.prior[place],
        )

    def fitted(self) -> FeatureGlobal:
        """Return the global parameters of these sums, hyperparameters held."""
        return FeatureGlobal(
            mean=self.weights.mean,
            covariance=self.covariance,
            tau=best_sticks(self.on[None], self.n_rows, self.alpha)[0][0],
            alpha=self.alpha,
            variance=self.prior[1:].copy(),
            share=self.on / self.n_rows,
            n_rows=self.n_rows,
            sweep=0,
        )


def _sticks_of(on: FloatArray, at: HeldOmega) -> FloatArray:
    """Return the sticks' part of the bound at other counts [B, K], less what it is; [B]."""
    return best_sticks(_falling(on), at.n_rows, at.alpha)[1] - at.sticks


def _falling(on: FloatArray) -> FloatArray:
    return -np.sort(-on, axis=1)


# Delete.


def delete_scores(at: HeldOmega) -> FloatArray:
    """Return F without each feature, less F; [K].

    Without feature k, b' Lambda^-1 b falls by m_k^2 / C_kk and log|Lambda| rises by log C_kk,
    C = Lambda^-1 and m = C b.
    """
    spread = np.diagonal(at.covariance, axis1=1, axis2=2)[:, 1:]
    data = -0.5 * at.weights.mean[:, 1:] ** 2 / spread - 0.5 * np.log(spread / at.prior[1:])
    k = len(at.on)
    left = np.array([np.delete(at.on, i) for i in range(k)]).reshape(k, max(k - 1, 0))
    return np.asarray(data.sum(0) + _sticks_of(left, at) - at.entropy)


def greedy_deletes(at: HeldOmega, least: float) -> list[int]:
    """Return features in the order in which they go while each gains more than ``least`` nats.

    Of features that no row has, or every row, any gain will do.
    """
    left = list(range(len(at.on)))
    gone: list[int] = []
    while left:
        now = at.keeping(np.array(left))
        empty = np.minimum(now.on, now.n_rows - now.on) < 1.0
        over = delete_scores(now) - np.where(empty, 0.0, least)
        best = int(np.argmax(over))
        if over[best] <= 0.0:
            break
        gone.append(left.pop(best))
    return gone


# Flip.


def flip_gains(at: HeldOmega) -> FloatArray:
    """Return the exact rise of the bound where each feature becomes its complement; [K].

    b0 becomes b0 + B_k and B_k becomes -B_k: psi keeps its law, so the likelihood's part does
    not move, and only the sticks and the bias's divergence from its prior do.
    """
    mean, covariance = at.weights.mean, at.covariance
    bias, spread = mean[:, [0]] + mean[:, 1:], np.diagonal(covariance, axis1=1, axis2=2)
    moved = spread[:, [0]] + 2.0 * covariance[:, 0, 1:] + spread[:, 1:] + bias**2
    prior = (spread[:, [0]] + mean[:, [0]] ** 2 - moved).sum(0) / (2.0 * at.prior[0])
    k = len(at.on)
    on = np.where(np.eye(k, dtype=bool), at.n_rows - at.on, at.on)
    return np.asarray(prior + _sticks_of(on, at))


def flip(q: FeatureGlobal, k: int) -> FeatureGlobal:
    """Return the parameters with feature k as its complement; tau is left to the sticks' step."""
    size = q.mean.shape[1]
    change = np.eye(size)
    change[0, k + 1], change[k + 1, k + 1] = 1.0, -1.0
    return replace(q, mean=q.mean @ change.T, covariance=change @ q.covariance @ change.T)


# Births from the pool.


def birth_scores(at: HeldOmega, sums: PoolStats, variance: float) -> FloatArray:
    """Return F with each feature of a start in the pool as one more, less F; [C].

    With s = Q_cc + 1/v - Q_co Lambda^-1 Q_oc and r = b_c - Q_co m the new weights add
    r^2 / (2 s) - log(s v) / 2.
    """
    known = np.einsum("jck,jkl,jcl->jc", sums.quadratic, at.covariance, sums.quadratic)
    s = sums.quadratic[:, :, 0] + 1.0 / variance - known
    r = sums.linear - np.einsum("jck,jk->jc", sums.quadratic, at.weights.mean)
    data = (0.5 * r**2 / s - 0.5 * np.log(s * variance)).sum(0)
    on = np.column_stack([np.tile(at.on, (len(sums.on), 1)), sums.on])
    return np.asarray(data + _sticks_of(on, at) + sums.entropy)


def with_born(at: HeldOmega, sums: PoolStats, c: int, variance: float) -> HeldOmega:
    """Return the sums with feature c of a start in the pool as the last one."""
    row = sums.quadratic[:, c]
    wide = np.concatenate([at.quadratic, row[:, None]], axis=1)
    column = np.concatenate([row, row[:, :1]], axis=1)
    return HeldOmega(
        linear=np.concatenate([at.linear, sums.linear[:, [c]]], axis=1),
        quadratic=np.concatenate([wide, column[:, :, None]], axis=2),
        on=np.append(at.on, sums.on[c]),
        entropy=np.append(at.entropy, sums.entropy[c]),
        n_rows=at.n_rows,
        alpha=at.alpha,
        prior=np.append(at.prior, variance),
    )


def correlations(at: HeldOmega, square: FloatArray, sums: PoolStats) -> FloatArray:
    """Return correlations of the pool's features with those of the fit over the rows; [C, K]."""
    n = at.n_rows
    mean, waits = at.on / n, sums.on / n
    spread = np.maximum(square / n - mean**2, 0.0)
    wide = np.maximum(sums.square / n - waits**2, 0.0)
    both = sums.cross[:, 1:] / n - waits[:, None] * mean
    scale = np.sqrt(wide[:, None] * spread)
    return np.asarray(np.divide(both, scale, out=np.zeros_like(both), where=scale > 1e-12))


# The proposals themselves.


def plain_edit(source: int, columns: IntArray) -> Edit:
    """Return the edit that keeps some columns of another fit, in this order."""
    columns = np.asarray(columns, dtype=np.int64)
    return Edit(source, columns, np.zeros(len(columns), bool), _NONE)


def held_of(one: Candidate, got: CandidateStats, fit: PolyaGammaIBP) -> HeldOmega:
    """Return a fit's sums with omega held."""
    return HeldOmega(
        linear=got.fit.linear,
        quadratic=linalg.unpack(got.fit.quadratic),
        on=got.fit.on,
        entropy=got.entropy,
        n_rows=got.fit.n_rows,
        alpha=one.q.alpha,
        prior=np.concatenate([[fit.bias_variance], one.q.variance]),
    )


def _proposed(at: HeldOmega, labels: IntArray, edit: Edit) -> Candidate:
    """Return a proposal that starts from the weights that are best for its sums."""
    return Candidate(at.fitted(), labels, edit)


def deletes(
    fit: Candidate, at: HeldOmega, source: int = 0, kept: int | None = None
) -> tuple[Candidate, ...]:
    """Propose the best deletes from the fit at ``source``, but not of the label ``kept``."""
    k, scores = len(fit.labels), delete_scores(at)
    order = [
        i
        for i in np.argsort(-scores, kind="stable").tolist()
        if scores[i] > WORST_DELETE and fit.labels[i] != kept
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
        found.append(_proposed(at.keeping(columns), fit.labels[columns], edit))
    return tuple(found)


def births(
    q: SearchGlobal, at: HeldOmega, screen: ScreenStats, fit: PolyaGammaIBP
) -> tuple[tuple[Candidate, ...], IntArray]:
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
                if known[c] < SAME and [start, c] not in failed
            ]
    found.sort(key=lambda one: -one[0])
    if q.widened:
        found = [one for one in found[:WIDE] if one[0] > 0.0]
    found = found[:BIRTHS]
    keys = [[start, c] for _, start, c in found]
    proposals = tuple(_born(q, at, screen.pool[s], s, c, variance) for _, s, c in found)
    return proposals, np.array(keys, np.int64).reshape(-1, 2)


def rare_births(
    q: SearchGlobal, at: HeldOmega, sums: PoolStats, fit: PolyaGammaIBP
) -> tuple[Candidate, ...]:
    """Propose the rows far along the directions of residuals as one more feature's, in turn."""
    variance, ways = _usual_variance(at, fit), heavier_sides(sums.on, at.n_rows)
    return tuple(_born(q, at, sums, q.n_pool, c, variance) for c in ways)


def _born(
    q: SearchGlobal, at: HeldOmega, sums: PoolStats, start: int, c: int, variance: float
) -> Candidate:
    """Return the best fit with one more feature."""
    edit = replace(plain_edit(0, np.arange(q.k)), born=np.array([start, c]))
    return _proposed(with_born(at, sums, c, variance), with_labels(q.best), edit)


def _usual_variance(at: HeldOmega, fit: PolyaGammaIBP) -> float:
    """Return the prior variance that a new feature's weights begin with."""
    return float(np.exp(np.log(at.prior[1:]).mean())) if len(at.on) else fit.weight_variance


def with_labels(fit: Candidate, more: int = 1) -> IntArray:
    """Return the labels with some more that are free."""
    every = np.arange(len(fit.labels) + more)
    return np.append(fit.labels, every[~np.isin(every, fit.labels)][:more])


def matches_of(at: HeldOmega, screen: ScreenStats) -> IntArray:
    """Return how many starts of the pool have each feature: the best matching, |corr| over .8."""
    found = np.zeros(len(at.on), np.int64)
    for sums in screen.pool:
        known = np.abs(correlations(at, screen.square, sums))
        waits, own = linear_sum_assignment(-known)
        found[own] += known[waits, own] > SAME
    return found
