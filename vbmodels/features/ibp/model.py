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

Moments of a block of rows under q(z) and q(omega), as matrix products that stay in the cache.

The weights of binary units: q(B_j) in closed form, and their learned prior variances.

Unit j's weights (b0_j, B_j) are normal with mean 0; the bias has a fixed variance, feature k's
weights v_k, all of them the same or each its own. Learned, 1 / v has a Gamma(1, 1) prior and v is
the mode of its logarithm: that prior's two pseudo-weights of size 1 keep v from falling to 0 where
the data support no feature.

With q(B_j) at its best, m its mean and gamma_k = sum_j (1 - var_jk / v_k) the number of weights
that the data determine (MacKay 1992), the bound is stationary where

    v_k = (sum_j m_jk^2 + 2) / (gamma_k + 2).

The step that is taken is the geometric mean of v_k and that: log det(I + V D) is concave in v, its
tangent lies above it, and the minimum under the tangent is just there (Wipf and Nagarajan 2008),
so the bound never falls. MacKay's own step is longer and may lower it; the EM step crawls where
gamma is small, as it is for features that no row has.

One variance for all has a price: a feature that all rows have is a second bias, its weights are
small, and it draws the variance of the others down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.ibp.sticks import bound_log_off, fit_sticks, mean_log_on, stick_bound
from vbmodels.features.moment_kernels import packed_moments, posterior_weights, tilted, visit
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts

MOST_ROWS, FEWEST_ROWS, CELLS = 512, 64, 32_768
"""Rows worked on at once, and rows times units: their arrays stay in the cache."""


def blocks(n: int, units: int) -> Iterator[slice]:
    """Cut rows so that what they have of every unit stays in the cache."""
    size = min(max(CELLS // max(units, 1), FEWEST_ROWS), MOST_ROWS)
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def with_one(nu: FloatArray) -> FloatArray:
    """Return E[z] with its leading 1; [B, K + 1]."""
    return np.concatenate([np.ones((len(nu), 1)), nu], axis=1)


def entropy_of(nu: FloatArray) -> FloatArray:
    """Return -nu log nu - (1 - nu) log(1 - nu), elementwise."""
    return np.asarray(-xlogy(nu, nu) - xlog1py(1.0 - nu, -nu))


def tilt_square(moments: FloatArray, second: FloatArray) -> FloatArray:
    """Return c_nj^2 = E[psi_nj^2] at packed moments of z [B, P] and of the weights [J, P]."""
    return moments @ (second * _twice(second.shape[1])).T


def best_omega(nu: FloatArray, sign: NDArray[np.int8], second: FloatArray) -> FloatArray:
    """Return E[omega] at its best for nu, 0 without an answer; [B, J]."""
    return tilted(tilt_square(packed_moments(with_one(nu)), second), sign)[0]


@lru_cache(maxsize=16)
def _twice(packed: int) -> FloatArray:
    """Return 1 for what is on the diagonal of a packed matrix, 2 for what is below it."""
    return linalg.pack(2.0 - np.eye(int(np.sqrt(2 * packed))))


ROUNDS = 3
"""Rounds of weights and variances in one global step: each raises the bound, so few will do."""


def fit_weights(
    linear: FloatArray,
    packed: FloatArray,
    bias: float,
    variance: FloatArray,
    *,
    learn: bool,
    each: bool,
    rounds: int = ROUNDS,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and covariances of all weights and the prior variances v, jointly optimal.

    Parameters
    ----------
    linear, packed
        [J, K + 1] sum_n s_nj E[z_n] and [J, (K + 1)(K + 2) / 2] sum_n E[omega_nj] E[z_n z_n'].
    bias
        Prior variance of the biases.
    variance
        [K] v, where to start.
    learn
        Whether v moves.
    each
        Whether every feature has its own.
    rounds
        Most rounds; one is made where v does not move.
    """
    data = linalg.unpack(packed)
    for _ in range(rounds):
        mean, covariance = _unit_weights(data, linear, 1.0 / np.concatenate([[bias], variance]))
        if not learn:
            return mean, covariance, variance
        spread = np.diagonal(covariance, axis1=1, axis2=2)[:, 1:]
        known = (1.0 - spread / variance).sum(0)
        square = (mean[:, 1:] ** 2).sum(0)
        if not each:
            known, square = np.full_like(known, known.sum()), np.full_like(known, square.sum())
        new = np.sqrt(variance * (square + 2.0) / (np.maximum(known, 0.0) + 2.0))
        done = bool(np.all(np.abs(new - variance) < 1e-6 * variance))
        variance = new
        if done:
            break
    return *_unit_weights(data, linear, 1.0 / np.concatenate([[bias], variance])), variance


def _unit_weights(
    data: FloatArray, linear: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    mean_and_covariance = posterior_weights(data, linear, prior)
    if mean_and_covariance is None:
        # Says which numbers are not as they must be.
        factor = linalg.cholesky(data + np.diag(prior), "the precision of the weights")
        return linalg.solve(factor, linear), linalg.inverse(factor)
    return mean_and_covariance


def weight_kl(mean: FloatArray, covariance: FloatArray, bias: float, variance: FloatArray) -> float:
    """Return KL(q(weights) || p(weights)) of all units; arguments as above."""
    prior = np.concatenate([[bias], variance])
    square = np.diagonal(covariance, axis1=1, axis2=2) + mean**2
    log_det = linalg.log_det(linalg.cholesky(covariance, "the covariance of the weights"))
    kl = 0.5 * ((square / prior).sum(1) - prior.size + np.log(prior).sum() - log_det)
    return float(kl.sum())


def log_prior(variance: FloatArray, *, each: bool) -> float:
    """Return the log prior of log v, up to a constant."""
    free = variance if each else variance[:1]
    return float(-(np.log(free) + 1.0 / free).sum())


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
        nu, visits = nu.copy(), tuple(features)
        prior = mean_log_on(q.tau) - bound_log_off(q.tau)
        second = second_moments(q)
        for rows in blocks(len(nu), batch.n_units):
            sign = batch.sign[rows]
            pull = prior + 0.5 * (sign @ q.mean[:, 1:])
            visit(nu[rows], pull, best_omega(nu[rows], sign, second) @ second, visits)
        return nu

    def suff_stats(
        self,
        q: FeatureGlobal,
        batch: FeatureBatch,
        local: FeatureLocal,
        entropy: FloatArray | None = None,
    ) -> FeatureStats:
        """Sum the moments of z, with q(omega) at its optimum for ``q`` and ``local``.

        ``entropy`` is that of ``local.nu`` where it is known; [U, K].
        """
        nu, second = local.nu, second_moments(q)
        linear, quadratic = np.zeros(q.mean.shape), np.zeros(second.shape)
        entropy = entropy_of(nu) if entropy is None else entropy
        bound = float(batch.count @ entropy.sum(1))
        for rows in blocks(len(nu), batch.n_units):
            sign, count = batch.sign[rows], batch.count[rows]
            z = with_one(nu[rows])
            moments = packed_moments(z)
            omega, cost = tilted(tilt_square(moments, second), sign)
            omega *= count[:, None]
            linear += (0.5 * (sign * count[:, None])).T @ z
            quadratic += omega.T @ moments
            bound -= float(count @ cost)
        bound += float((linear * q.mean).sum())
        return FeatureStats(
            n_rows=float(batch.count.sum()),
            on=batch.count @ nu,
            likely=batch.count @ (nu > 0.5),
            linear=linear,
            quadratic=quadratic,
            bound=bound,
        )

    def global_step(self, q: FeatureGlobal, stats: FeatureStats) -> FeatureGlobal:
        """Set the weights, the sticks and the hyperparameters."""
        bias = self.bias_variance
        mean, covariance, variance = fit_weights(
            stats.linear, stats.quadratic, bias, q.variance, learn=self.learn, each=self.each
        )
        tau, alpha = fit_sticks(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=self.learn)
        return FeatureGlobal(
            mean=mean,
            covariance=covariance,
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
    """E[w w'] of every unit, packed; [J, P]."""
    return linalg.pack(q.covariance + q.mean[:, :, None] * q.mean[:, None, :])
