"""Bayesian logistic regression, as a model of one file: run ``python logistic.py``.

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

from vbmodels.core.expfam import Gamma, Gaussian
from vbmodels.core.fit import fit
from vbmodels.core.special import polya_gamma_mean
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Rows(State):
    """One partition: x [N, D], its first column 1, and y [N], 0 or 1."""

    x: FloatArray
    y: FloatArray


@dataclass(frozen=True)
class Size(Stats):
    """What the start needs: D in every row, and the rows."""

    columns: float
    rows: float


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

    def observe(self, batch: Rows) -> Size:
        """Count rows and columns."""
        return Size(float(batch.x.size), float(len(batch.x)))

    def init(self, observed: Size, rng: np.random.Generator) -> Global:
        """Start at the prior: the posterior has one mode."""
        size = round(observed.columns / observed.rows)
        a = Gamma(np.float64(self.shape), np.float64(self.rate))
        return Global(Gaussian.from_linear(np.zeros(size), np.diag(self._prior(a, size))), a)

    def local_step(self, q: Global, batch: Rows, local: Local | None) -> Local:
        """Return c_n = sqrt(E psi_n^2)."""
        return Local(np.sqrt(np.einsum("nd,de,ne->n", batch.x, _second(q), batch.x)))

    def suff_stats(self, q: Global, batch: Rows, local: Local) -> Sums:
        """Add the moments, and E[log p(y, omega | w)] + H[q(omega)].

        -log 2 - KL(PG(1, c) || PG(1, 0)) = c (c E omega - 1) / 2 - log(1 + e^-c) of each row.
        """
        c, kappa = local.c, batch.y - 0.5
        omega = polya_gamma_mean(c)
        precision, linear = (batch.x.T * omega) @ batch.x, kappa @ batch.x
        own = float((0.5 * c * (c * omega - 1.0) - np.log1p(np.exp(-c))).sum())
        moved = linear @ q.w.mean - 0.5 * (precision * _second(q)).sum()
        return Sums(precision, linear, own + float(moved))

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return q(w) given q(a), then q(a) given q(w).

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
        log_precision = -np.log(self.intercept_variance) + (len(prior) - 1) * float(q.a.mean_log)
        squares = np.diag(_second(q))
        density = 0.5 * (log_precision - len(prior) * np.log(2.0 * np.pi) - prior @ squares)
        kl = q.a.kl(Gamma(np.float64(self.shape), np.float64(self.rate)))
        return stats.bound + float(density + q.w.entropy() - kl)

    def _prior(self, a: Gamma, size: int) -> FloatArray:
        """E of the prior's precisions, [D]."""
        return np.concatenate([[1.0 / self.intercept_variance], np.full(size - 1, float(a.mean))])


def _second(q: Global) -> FloatArray:
    """E w w', [D, D]."""
    second: FloatArray = q.w.covariance + np.outer(q.w.mean, q.w.mean)
    return second


def main() -> Global:
    """Fit rows with three columns, in four partitions."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(1000), rng.standard_normal((1000, 3))])
    y = (rng.random(1000) < 1.0 / (1.0 + np.exp(-x @ [-0.5, 1.0, 0.0, -0.7]))).astype(float)
    pairs = zip(np.array_split(x, 4), np.array_split(y, 4), strict=True)
    done = fit(LogisticRegression(), [Rows(*pair) for pair in pairs])
    print(f"bound {done.trace[-1]:.2f} after {done.iterations} sweeps")
    sd = np.sqrt(np.diag(done.q.w.covariance))
    for name, mean, spread in zip(("intercept", "x1", "x2", "x3"), done.q.w.mean, sd, strict=True):
        print(f"{name} {mean:.2f}, sd {spread:.2f}")
    return done.q


if __name__ == "__main__":
    main()
