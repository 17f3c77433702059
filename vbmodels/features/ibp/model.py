"""The IBP for categorical tables by Polya-Gamma variational inference: closed form throughout.

Model (z and v as in `sticks`): row n has binary features z_n; unit j of `table` is answered "on"
with probability sigma(psi_nj), psi_nj = b0_j + z_n . B_j, all weights N(0, v). For two categories
that is the text's multinomial-logit model (eq 6) written for the difference of its two weight
vectors, whose prior variance is v = 2 sigma_B^2.

With omega_nj ~ PG(1, 0) (Polson, Scott and Windle 2013), s_nj = +-1/2 and E[omega] =
tanh(c/2) / (2 c) at c^2 = E[psi^2],

    q(B_j) = N(Lambda^-1 sum_n s_nj E[z_n], Lambda^-1),  Lambda = I/v + sum_n E[omega_nj] E[z z'],
    logit nu_nk = E[log pi_k] - bound of E[log(1 - pi_k)]
                  + sum_j (s_nj E[B_jk] - E[omega_nj] E[B_jk (psi_nj without k + B_jk / 2)]),

z with a leading 1 for b0. One reduce a sweep, and the bound never falls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.ibp.row_moments import (
    blocks,
    log_two_cosh,
    mean_omega,
    row_moments,
    tilt_of,
    with_one,
)
from vbmodels.features.ibp.sticks import bound_log_off, fit_sticks, mean_log_on, stick_bound
from vbmodels.features.ibp.weights import fit_weights, log_prior, weight_kl
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts

LARGEST_LOGIT = 35.0
START_SHARE = 0.5
"""Share of rows that has each feature where the sticks start."""


@dataclass(frozen=True)
class FeatureGlobal(State, kind="features/ibp.FeatureGlobal"):
    """Global parameters.

    Parameters
    ----------
    mean
        [J, K + 1] means of (b0_j, B_j).
    covariance
        [J, K + 1, K + 1].
    tau
        [K, 2] Beta parameters of the sticks.
    alpha
        Concentration of the IBP.
    variance
        [K] prior variance of each feature's weights.
    share
        [K] share of the rows with nu > 1/2, as of the sweep before.
    n_rows
        N.
    sweep
        Global steps so far.
    """

    mean: FloatArray
    covariance: FloatArray
    tau: FloatArray
    alpha: float
    variance: FloatArray
    share: FloatArray
    n_rows: float
    sweep: int


@dataclass(frozen=True)
class FeatureLocal(State, kind="features/ibp.FeatureLocal"):
    """nu [U, K]: probability of each feature in each distinct row."""

    nu: FloatArray


@dataclass(frozen=True)
class FeatureStats(Stats, kind="features/ibp.FeatureStats"):
    """Additive statistics.

    Parameters
    ----------
    n_rows
        N.
    on
        [K] sum_n nu_nk.
    likely
        [K] rows with nu_nk > 1/2.
    linear
        [J, K + 1] sum_n s_nj E[z_n].
    quadratic
        [J, (K + 1)(K + 2) / 2] sum_n E[omega_nj] E[z_n z_n'], packed.
    bound
        Local part of the bound.
    """

    n_rows: float
    on: FloatArray
    likely: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    bound: float


@dataclass(frozen=True)
class PolyaGammaIBP:
    """The IBP with categorical observations, by Polya-Gamma and stick-breaking.

    Parameters
    ----------
    n_features
        K, the truncation; one fewer than rows at most.
    alpha
        Concentration; the start if it is learned.
    weight_variance
        v = 2 sigma_B^2, prior variance of the weights; the start if it is learned.
    bias_variance
        Prior variance of the biases (v at first, as in the text); never learned, as a feature that
        is always on can take a bias's place.
    learn
        Whether alpha and 1 / weight variance move, under Gamma(1, 1) priors.
    each
        Whether every feature's weights have a variance of their own; see `weights`.
    """

    n_features: int
    alpha: float = 1.0
    weight_variance: float = 2.0
    bias_variance: float = 2.0
    learn: bool = True
    each: bool = False

    def observe(self, batch: FeatureBatch) -> UnitCounts:
        """Count the answers to every unit."""
        return unit_counts(batch)

    def init(self, observed: UnitCounts, rng: np.random.Generator) -> FeatureGlobal:
        """Biases at the margins, weights drawn around 0, every feature as common as any other."""
        k, units = bearable(self.n_features, observed.n_rows), len(observed.stop)
        mean = rng.normal(0.0, 0.5, (units, k + 1))
        mean[:, 0] = np.log((observed.go_on + 1.0) / (observed.stop + 1.0))
        share = np.full(k, START_SHARE * observed.n_rows)
        tau = np.stack([np.full(k, self.alpha), np.ones(k)], axis=1)
        tau, _ = fit_sticks(share, observed.n_rows, self.alpha, tau, learn_alpha=False)
        covariance = np.broadcast_to(0.01 * np.eye(k + 1), (units, k + 1, k + 1)).copy()
        return FeatureGlobal(
            mean=mean,
            covariance=covariance,
            tau=tau,
            alpha=self.alpha,
            variance=np.full(k, self.weight_variance),
            share=np.full(k, START_SHARE),
            n_rows=observed.n_rows,
            sweep=0,
        )

    def local_step(
        self, q: FeatureGlobal, batch: FeatureBatch, local: FeatureLocal | None
    ) -> FeatureLocal:
        """Set q(omega), then q(z_nk) for k = 1..K in turn."""
        k = q.mean.shape[1] - 1
        start = np.full((len(batch.count), k), 0.5) if local is None else local.nu
        return FeatureLocal(self.visited(q, batch, start, range(k)))

    def visited(
        self, q: FeatureGlobal, batch: FeatureBatch, nu: FloatArray, features: Iterable[int]
    ) -> FloatArray:
        """Set q(omega) at nu [U, K], then q(z_nk) for the given features in turn."""
        nu, visits, size = nu.copy(), tuple(features), q.mean.shape[1]
        prior = mean_log_on(q.tau) - bound_log_off(q.tau)
        second = second_moments(q)
        for rows in blocks(len(nu)):
            sign = batch.sign[rows].astype(np.float64)
            omega = mean_omega(tilt_of(nu[rows], second), sign)
            pull = prior + 0.5 * (sign @ q.mean[:, 1:])
            gram = (omega @ second).reshape(-1, size, size)
            _visit(nu[rows], pull, gram, visits)
        return nu

    def suff_stats(
        self, q: FeatureGlobal, batch: FeatureBatch, local: FeatureLocal
    ) -> FeatureStats:
        """Sum the moments of z, with q(omega) at its optimum for ``q`` and ``local``."""
        nu, second = local.nu, second_moments(q)
        units, size = batch.n_units, q.mean.shape[1]
        linear, quadratic = np.zeros((units, size)), np.zeros((units, size * size))
        bound = -float(batch.count @ (xlogy(nu, nu) + xlog1py(1.0 - nu, -nu)).sum(1))
        for rows in blocks(len(nu)):
            sign, count = batch.sign[rows].astype(np.float64), batch.count[rows]
            z = with_one(nu[rows])
            moments = row_moments(z)
            tilt = np.sqrt(moments @ second.T)
            half = 0.5 * (sign * count[:, None])
            linear += half.T @ z
            quadratic += (mean_omega(tilt, sign) * count[:, None]).T @ moments
            bound += float((half * (z @ q.mean.T)).sum())
            bound -= float(count @ (log_two_cosh(tilt) * np.abs(sign)).sum(1))
        packed = linalg.pack(quadratic.reshape(units, size, size))
        return FeatureStats(
            n_rows=float(batch.count.sum()),
            on=batch.count @ nu,
            likely=batch.count @ (nu > 0.5),
            linear=linear,
            quadratic=packed,
            bound=bound,
        )

    def global_step(self, q: FeatureGlobal, stats: FeatureStats) -> FeatureGlobal:
        """Set the weights, the sticks and the hyperparameters."""
        bias = self.bias_variance
        weights, variance = fit_weights(
            stats.linear, stats.quadratic, bias, q.variance, learn=self.learn, each=self.each
        )
        tau, alpha = fit_sticks(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=self.learn)
        return FeatureGlobal(
            mean=weights.mean,
            covariance=weights.covariance,
            tau=tau,
            alpha=alpha,
            variance=variance,
            share=stats.likely / stats.n_rows,
            n_rows=stats.n_rows,
            sweep=q.sweep + 1,
        )

    def features(
        self, q: FeatureGlobal, batch: FeatureBatch, tol: float = 1e-8, most: int = 500
    ) -> FeatureLocal:
        """Return q(z) of new rows at fixed ``q``, from a cold start to convergence."""
        local = self.local_step(q, batch, None)
        for _ in range(most):
            before, local = local, self.local_step(q, batch, local)
            if np.max(np.abs(local.nu - before.nu), initial=0.0) < tol:
                break
        return local

    def elbo(self, q: FeatureGlobal, stats: FeatureStats) -> float:
        """Return the bound at ``q`` and the local states behind ``stats``."""
        sticks = stick_bound(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=self.learn)
        spread = log_prior(q.variance, each=self.each) if self.learn else 0.0
        kl = weight_kl(q.mean, q.covariance, self.bias_variance, q.variance)
        return stats.bound + sticks + spread - kl


def second_moments(q: FeatureGlobal) -> FloatArray:
    """E[w w'] of every unit, row by row; [J, (K + 1)^2]."""
    second = q.covariance + q.mean[:, :, None] * q.mean[:, None, :]
    return second.reshape(len(second), -1)


def _visit(nu: FloatArray, pull: FloatArray, gram: FloatArray, features: Iterable[int]) -> None:
    """Update some columns of nu [B, K] in place, feature by feature.

    ``pull`` is what is linear in z [B, K]; ``gram`` is sum_j E[omega] E[w w'] [B, K + 1, K + 1].
    """
    for k in features:
        row = gram[:, k + 1]
        others = row[:, 0] + np.einsum("nl,nl->n", row[:, 1:], nu) - row[:, k + 1] * nu[:, k]
        logit = pull[:, k] - others - 0.5 * row[:, k + 1]
        nu[:, k] = expit(np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT))
