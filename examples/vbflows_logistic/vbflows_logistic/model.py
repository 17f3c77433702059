"""Bayesian logistic regression by Polya-Gamma augmentation.

    a ~ Gamma(shape, rate)                                   global: the slopes' precision
    w_0 ~ N(0, intercept_variance),  w_j | a ~ N(0, 1/a)     global: the intercept and the slopes
    y_n | w ~ Bernoulli(logistic(x_n' w)),  x_n0 = 1

p(y_n | w) is the mean over omega_n ~ PG(1, 0) of exp(kappa_n psi_n - omega_n psi_n^2 / 2) / 2, with
psi_n = x_n' w and kappa_n = y_n - 1/2 (Polson, Scott and Windle 2013, theorem 1), so with

    q = N(w; mean, precision^-1) Gamma(a; shape, rate) prod_n PG(omega_n; 1, c_n)

every update is exact. The bound is that of Jaakkola and Jordan (2000), as Durante and Rigon (2019)
show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.expfam import Gamma, Gaussian, PolyaGamma
from vbmodels.core.state import FloatArray, IntArray, State, Stats


@dataclass(frozen=True)
class Rows(State):
    """One partition: x [N, D], its first column 1, and label [N]: 0 or 1, -1 where unknown."""

    x: FloatArray
    label: IntArray


@dataclass(frozen=True)
class Observed(Stats):
    """What the start needs: how many columns there are, told by zeros [D]."""

    columns: FloatArray


@dataclass(frozen=True)
class Global(State):
    """The factors of w and a."""

    w: Gaussian
    a: Gamma


@dataclass(frozen=True)
class Local(State):
    """The factors of omega: c [N]."""

    c: FloatArray


@dataclass(frozen=True)
class Sums(Stats):
    """What a partition returns: sum E omega x x' [D, D], sum kappa x [D], its part of the bound."""

    precision: FloatArray
    linear: FloatArray
    bound: float


@dataclass(frozen=True)
class LogisticRegression:
    """Priors of the model."""

    shape: float = 1.0
    rate: float = 1.0
    intercept_variance: float = 100.0

    def observe(self, batch: Rows) -> Observed:
        """Tell the number of columns."""
        return Observed(np.zeros(batch.x.shape[1]))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Start at the prior; the posterior of w given a has one mode, so nothing is random."""
        size = len(observed.columns)
        a = Gamma(np.float64(self.shape + 0.5 * (size - 1)), np.float64(self.rate + 0.5 * size))
        return Global(Gaussian(np.zeros(size), np.diag(np.sqrt(self._prior(a, size)))), a)

    def local_step(self, q: Global, batch: Rows, local: Local | None) -> Local:
        """Return c_n = sqrt(E psi_n^2)."""
        return Local(np.sqrt(self.squares(q, batch.x)))

    def suff_stats(self, q: Global, batch: Rows, local: Local) -> Sums:
        """Add the moments of labelled rows, and E[log p(y, omega | w)] + H[q(omega)]."""
        x, kappa, omega = _labelled(batch, local)
        bound = self.unit_bounds(q, batch, local)
        return Sums((x.T * omega.mean) @ x, x.T @ kappa, float(bound.sum()))

    def unit_bounds(self, q: Global, batch: Rows, local: Local) -> FloatArray:
        """Return, of each labelled row, its part of the bound.

        kappa_n E psi_n - log 2 - E omega_n E psi_n^2 / 2 - KL(PG(1, c_n) || PG(1, 0)).
        """
        x, kappa, omega = _labelled(batch, local)
        bound = kappa * (x @ q.w.mean) - np.log(2.0) - omega.kl_to_prior()
        return bound - 0.5 * omega.mean * self.squares(q, x)

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return q(w), then q(a) given it.

        precision = E Lambda + sum E omega x x', mean = precision^-1 sum kappa x, and
        q(a) = Gamma(shape + (D - 1) / 2, rate + sum_j>0 E w_j^2 / 2).
        """
        size = len(stats.linear)
        w = Gaussian.from_linear(stats.linear, stats.precision + np.diag(self._prior(q.a, size)))
        squares = np.diag(w.covariance)[1:] + w.mean[1:] ** 2
        rate = self.rate + 0.5 * float(squares.sum())
        return Global(w, Gamma(np.float64(self.shape + 0.5 * (size - 1)), np.float64(rate)))

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part, plus E[log p(w | a)] + H[q(w)] - KL(q(a) || p(a))."""
        prior = self._prior(q.a, len(q.w.mean))
        squares = np.diag(q.w.covariance) + q.w.mean**2
        log_precision = -np.log(self.intercept_variance) + (len(prior) - 1) * float(q.a.mean_log)
        density = 0.5 * (log_precision - len(prior) * np.log(2.0 * np.pi) - prior @ squares)
        kl = q.a.kl(Gamma(np.float64(self.shape), np.float64(self.rate)))
        return stats.bound + float(density + q.w.entropy() - kl)

    def coupling(self, q: Global, stats: Sums) -> float:
        """Return sum_n [kappa_n E psi_n - E omega_n E psi_n^2 / 2], which moves with q(w)."""
        second = q.w.covariance + np.outer(q.w.mean, q.w.mean)
        return float(stats.linear @ q.w.mean - 0.5 * (stats.precision * second).sum())

    def to_vector(self, q: Global) -> FloatArray:
        """Return the mean, the factor's triangle (logarithms on its diagonal), log shape, rate."""
        factor = q.w.factor.copy()
        np.fill_diagonal(factor, np.log(np.diag(factor)))
        below = factor[np.tril_indices(len(factor))]
        return np.concatenate([q.w.mean, below, np.log([float(q.a.shape), float(q.a.rate)])])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the inverse of `to_vector`."""
        size = len(q.w.mean)
        factor = np.zeros((size, size))
        factor[np.tril_indices(size)] = vector[size:-2]
        np.fill_diagonal(factor, np.exp(np.diag(factor)))
        return Global(Gaussian(vector[:size], factor), Gamma(*np.exp(vector[-2:])))

    @staticmethod
    def squares(q: Global, x: FloatArray) -> FloatArray:
        """E psi_n^2 = (x_n' mean)^2 + |L^-1 x_n|^2, with precision = L L'; [N]."""
        half = linalg.solve_lower(
            q.w.factor, np.eye(len(q.w.factor))
        )  # one product, no solve a row
        square: FloatArray = (x @ q.w.mean) ** 2 + ((x @ half.T) ** 2).sum(axis=1)
        return square

    def _prior(self, a: Gamma, size: int) -> FloatArray:
        """E of the prior's precisions, [D]."""
        return np.concatenate([[1.0 / self.intercept_variance], np.full(size - 1, float(a.mean))])


def _labelled(batch: Rows, local: Local) -> tuple[FloatArray, FloatArray, PolyaGamma]:
    """Return x, kappa and the factor of omega, of the rows that have a label."""
    known = batch.label >= 0
    omega = PolyaGamma(np.ones(int(known.sum())), local.c[known])
    return batch.x[known], batch.label[known] - 0.5, omega
