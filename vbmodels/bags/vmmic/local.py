"""The local factors of mean-field vMMIC: q(y*), q(U, delta) = q(delta) q(U | delta).

With theta = (alpha, w, beta), q(theta) = N(m, V), M = V + m m', phi_ij an instance's
features in theta's coordinates, r_i = e_alpha + f_i + sum_j p_ij phi_ij, eta = E[a] + x E[b]:

    q(y*_i) = TN(r_i.m, 1) on the label's side
    kappa_ij = E[y*_i] phi.m - phi' M r_i + (p_ij - 1/2) phi' M phi      (present values)
    logit p_ij = log Phi(eta) - log Phi(-eta) + kappa_ij
    U | delta = 1 ~ TN+(eta, 1),  U | delta = 0 ~ TN-(eta, 1)

The instances of a bag are updated one after another, which makes every update exact.
B.1.9 and B.1.10 of the paper count Phi(eta) twice and carry the log odds of every earlier
iteration on; `reproduce.vmmic_as_printed` shows what that does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic import likelihood_kernels as kernels
from vbmodels.bags.vmmic.layout import Scaling
from vbmodels.core.normal_kernels import log_cdf_and_mills
from vbmodels.core.special import inverse_mills
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Rows:
    """A partition's labelled bags on the scale of the model."""

    data: Bags
    scaling: Scaling

    @classmethod
    def of(cls, batch: Bags, scaling: Scaling) -> Rows:
        """Take the labelled bags."""
        return cls(batch.labelled(), scaling)

    def features(self, k: int) -> FloatArray:
        """Return the scaled features of modality ``k``, [N_k, D_k]."""
        features, centre = self.data.modalities[k].features, self.scaling.means[k]
        scaled = np.empty(features.shape)
        kernels.scaled(features, 0, centre, 1.0 / self.scaling.scales[k], scaled)
        return scaled

    def design(self, primary: tuple[FloatArray, ...]) -> FloatArray:
        """Return r_i = e_alpha + f_i + sum_j p_ij phi_ij, [B, dim theta]; section 2.2.1."""
        scaling, n_bags = self.scaling, self.data.n_bags
        r = np.zeros((n_bags, scaling.layout.n_theta))
        r[:, 0] = 1.0
        own = self.data.bag_features - scaling.own_mean
        r[:, scaling.layout.own_slopes] = own / scaling.own_scale
        for k, (part, p) in enumerate(zip(self.data.modalities, primary, strict=True)):
            totals = r[:, scaling.layout.slopes[k]]
            kernels.bag_totals(self.features(k), part.offsets, 0, n_bags, p, totals)
        return r


@dataclass(frozen=True)
class SweepSums(Stats, kind="bags/vmmic.SweepSums"):
    """What a partition adds to a sweep.

    Attributes
    ----------
    total
        The bound's terms that hold local factors only.
    outer
        sum r r', [T, T].
    weighted
        sum p (1 - p) x x', [D_k, D_k] for each modality.
    label
        sum E[y*] r, [T].
    latent
        sum E[U] (1, x), [1 + D_k].
    """

    total: float
    outer: FloatArray
    weighted: tuple[FloatArray, ...]
    label: FloatArray
    latent: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Local(State, kind="bags/vmmic.Local"):
    """The local factors of one partition's labelled bags.

    Attributes
    ----------
    primary
        p = q(delta = 1), [N_k] for each modality.
    centre
        Parameter m* of q(y*), [B].
    gates
        (a, b) that q(U | delta) was made with, [1 + D_k] for each modality: its parameter is
        e* = a + x b.
    """

    primary: tuple[FloatArray, ...]
    centre: FloatArray
    gates: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Tails:
    """log Phi(x), log Phi(-x), phi/Phi(x) and phi/Phi(-x), exact in both tails."""

    log_up: FloatArray
    log_down: FloatArray
    up: FloatArray
    down: FloatArray

    @classmethod
    def of(cls, x: FloatArray) -> Tails:
        """Return them of x [...]."""
        (log_up, up), (log_down, down) = log_cdf_and_mills(x), log_cdf_and_mills(-x)
        return cls(log_up, log_down, up, down)


@dataclass(frozen=True)
class MeanField(State, kind="bags/vmmic.MeanField"):
    """The global factors.

    Attributes
    ----------
    mean, covariance
        Of q(theta), [T] and [T, T].
    gate_means, gate_covariances
        Of q(a_k, b_k), [1 + D_k] and [1 + D_k, 1 + D_k].
    grams
        sum (1, x)(1, x)' over the scaled instances of each modality.
    started
        Whether the means are those to start at; else the mode is sought first.
    """

    scaling: Scaling
    mean: FloatArray
    covariance: FloatArray
    gate_means: tuple[FloatArray, ...]
    gate_covariances: tuple[FloatArray, ...]
    grams: tuple[FloatArray, ...]
    started: bool = True


def log_odds(eta: FloatArray) -> FloatArray:
    """Return log Phi(eta) - log Phi(-eta)."""
    return np.asarray(log_ndtr(eta) - log_ndtr(-eta))


def sweep(rows: Rows, q: MeanField, before: Local | None) -> Local:
    """Update q(y*), then q(U, delta) instance by instance, then q(y*) again."""
    primary = start(rows, q) if before is None else before.primary
    primary, centre, _ = swept(rows, q, primary)
    return Local(primary, centre, q.gate_means)


def start(rows: Rows, q: MeanField) -> tuple[FloatArray, ...]:
    """Return p = Phi(a + x b), before the first sweep."""
    return tuple(ndtr(gate[0] + rows.features(k) @ gate[1:]) for k, gate in enumerate(q.gate_means))


def swept(
    rows: Rows,
    q: MeanField,
    primary: tuple[FloatArray, ...],
    carried: tuple[FloatArray, ...] | None = None,
) -> tuple[tuple[FloatArray, ...], FloatArray, tuple[FloatArray, ...]]:
    """Return p, m* and the log odds of p after a sweep (B.1.10); these start at ``carried``.

    Bags are independent, so this goes one position of all bags at a time.
    """
    primary = tuple(p.copy() for p in primary)
    r = rows.design(primary)
    mu, sign = r @ q.mean, rows.data.sign
    residual = sign * inverse_mills(sign * mu)
    left, through = residual.copy(), q.covariance
    odds = []
    parts = zip(rows.data.modalities, q.gate_means, primary, strict=True)
    for k, (part, gate, p) in enumerate(parts):
        block, x = rows.scaling.layout.slopes[k], rows.features(k)
        tails = Tails.of(gate[0] + x @ gate[1:])
        logit = tails.log_up - tails.log_down
        if carried is not None:
            logit = logit + carried[k]
        score, ahead = x @ q.mean[block], x @ through[block, block]
        second_moment = score**2 + np.einsum("nd,nd->n", ahead, x)
        spread = r @ through[:, block]
        for position in range(int(part.sizes.max(initial=0))):
            bags = np.flatnonzero(part.sizes > position)
            j = part.offsets[:-1][bags] + position
            linear = np.einsum("nd,nd->n", x[j], spread[bags])
            logit[j] += score[j] * left[bags] - linear + (p[j] - 0.5) * second_moment[j]
            change = expit(logit[j]) - p[j]
            p[j] += change
            left[bags] -= change * score[j]
            spread[bags] += change[:, None] * ahead[j]
            r[bags, block] += change[:, None] * x[j]
        odds.append(logit)
    return primary, mu + residual - left, tuple(odds)


def sums(rows: Rows, local: Local) -> SweepSums:
    """Sum what the global step and the bound need.

    With E[U] = e* + p phi/Phi(e*) - (1 - p) phi/Phi(-e*) (B.1.9), ``total`` has the
    bound's terms in p and e*,

        sum e*^2/2 - E[U] e* + p log Phi(e*) + (1-p) log Phi(-e*) - p log p - (1-p) log(1-p),

    and those of q(y*) = TN(m*, 1) on the label's side, and E[y*] (B.1.8).
    """
    r, sign, star = rows.design(local.primary), rows.data.sign, local.centre
    label = star + sign * inverse_mills(sign * star)
    total = float((log_ndtr(sign * star) + 0.5 * star**2 - label * star).sum())
    weighted, latent = [], []
    for k, (p, gate) in enumerate(zip(local.primary, local.gates, strict=True)):
        x = rows.features(k)
        e = gate[0] + x @ gate[1:]
        tails, rest = Tails.of(e), 1.0 - p
        mean = e + p * tails.up - rest * tails.down
        total += float(np.sum(0.5 * e * e - mean * e + p * tails.log_up + rest * tails.log_down))
        total -= float(np.sum(_x_log_x(p) + _x_log_x(rest)))
        latent.append(np.concatenate([[mean.sum()], mean @ x]))
        weighted.append(x.T @ ((p * rest)[:, None] * x))
    return SweepSums(total, r.T @ r, tuple(weighted), r.T @ label, tuple(latent))


def _x_log_x(x: FloatArray) -> FloatArray:
    return x * np.log(np.maximum(x, np.finfo(float).tiny))
