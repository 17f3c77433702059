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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.expfam import Gamma, Gaussian, PolyaGamma
from vbmodels.core.special import polya_gamma_mean
from vbmodels.core.state import FloatArray, IntArray, State, Stats

FEW = 16
"""One row of so many makes a partition's own start."""
STEPS, HALVINGS = 4, 10
"""Newton's steps over these, and how often one is halved that does not climb."""
GAIN = 0.1
"""Nats a row: what a step on all rows may promise, or else the few rows tell little of them."""
MANY = 40
"""Columns from which on that step pays, and half a product is faster though its rows are scaled."""
SLAB = 2000
"""Rows that products are made of at a time: they stay in the processor's cache."""


@dataclass(frozen=True)
class Rows(State):
    """One partition: x [N, D], its first column 1, and label [N]: 0 or 1, -1 where unknown."""

    x: FloatArray
    label: IntArray


@dataclass(frozen=True)
class Observed(Stats):
    """What the start needs: precision [D, D], and precision times mean [D], of fits to few rows."""

    precision: FloatArray
    linear: FloatArray


@dataclass(frozen=True)
class Global(State):
    """The factors of w and a."""

    w: Gaussian
    a: Gamma

    @cached_property
    def second(self) -> FloatArray:
        """E w w', [D, D]; made once for all partitions of a process."""
        return self.w.covariance + np.outer(self.w.mean, self.w.mean)


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
    unimodal: ClassVar[bool] = True  # sweeps in rounds may move from the first round on

    def observe(self, batch: Rows) -> Observed:
        """Fit every 16th row of the partition, and give what it told the weight of all of them.

        With many columns, whose products are dear beside a pass, a step on all rows with the
        curvature of the few follows. Partitions' fits add up like products of Gaussian densities,
        as in consensus Monte Carlo (Scott et al. 2016).
        """
        x, kappa = _labelled(batch)
        size = x.shape[1]
        prior = self._prior(self._first(size), size)
        few, share = x[::FEW].copy(), len(x) / max(1, len(x[::FEW]))
        mean, curved = _mode(few, kappa[::FEW], prior)
        if size >= MANY:
            uphill = (kappa - 0.5 * np.tanh(0.5 * (x @ mean))) @ x - prior * mean
            step = np.linalg.solve(share * curved + np.diag(prior), uphill)
            if uphill @ step < GAIN * len(x):
                mean = mean + step
        precision = share * _gram(few, polya_gamma_mean(few @ mean))
        return Observed(precision, precision @ mean)

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Start where few rows are; the posterior has one mode, so nothing is random."""
        size = len(observed.linear)
        a = self._first(size)
        precision = observed.precision + np.diag(self._prior(a, size))
        return Global(Gaussian.from_linear(observed.linear, precision), a)

    def local_step(self, q: Global, batch: Rows, local: Local | None) -> Local:
        """Return c_n = sqrt(E psi_n^2), or without a state yet |E psi_n|: near it, in no product.

        The bound holds at any c_n.
        """
        if local is None:
            return Local(np.abs(batch.x @ q.w.mean))
        return Local(np.sqrt(self.squares(q, batch.x)))

    def suff_stats(self, q: Global, batch: Rows, local: Local) -> Sums:
        """Add the moments of labelled rows, and E[log p(y, omega | w)] + H[q(omega)]."""
        (x, kappa), c = _labelled(batch), local.c[_known(batch)]
        omega, precision, linear = (
            polya_gamma_mean(c),
            np.zeros((x.shape[1],) * 2),
            np.zeros(x.shape[1]),
        )
        for rows in _slabs(len(x)):
            precision += _gram(x[rows], omega[rows])
            linear += kappa[rows] @ x[rows]
        # -log 2 - KL(PG(1, c) || PG(1, 0)) of each row
        own = float((0.5 * c * (c * omega - 1.0) - np.log1p(np.exp(-c))).sum())
        stats = Sums(0.5 * (precision + precision.T), linear, own)
        return replace(stats, bound=own + self.coupling(q, stats))

    def unit_bounds(self, q: Global, batch: Rows, local: Local) -> FloatArray:
        """Return, of each labelled row, its part of the bound.

        kappa_n E psi_n - log 2 - E omega_n E psi_n^2 / 2 - KL(PG(1, c_n) || PG(1, 0)).
        """
        (x, kappa), omega = _labelled(batch), PolyaGamma(np.float64(1.0), local.c[_known(batch)])
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
        squares = np.diag(q.second)
        log_precision = -np.log(self.intercept_variance) + (len(prior) - 1) * float(q.a.mean_log)
        density = 0.5 * (log_precision - len(prior) * np.log(2.0 * np.pi) - prior @ squares)
        kl = q.a.kl(Gamma(np.float64(self.shape), np.float64(self.rate)))
        return stats.bound + float(density + q.w.entropy() - kl)

    def coupling(self, q: Global, stats: Sums) -> float:
        """Return sum_n [kappa_n E psi_n - E omega_n E psi_n^2 / 2], which moves with q(w)."""
        return float(stats.linear @ q.w.mean - 0.5 * (stats.precision * q.second).sum())

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
        half = linalg.solve_lower(q.w.factor, np.eye(len(q.w.factor)))  # no solve a row
        both, square = np.column_stack([half.T, q.w.mean]), np.empty(len(x))
        for rows in _slabs(len(x)):
            product = x[rows] @ both
            square[rows] = np.einsum("nd,nd->n", product, product)
        return square

    def _first(self, size: int) -> Gamma:
        """Return the factor of a as if every slope's square were 1."""
        return Gamma(np.float64(self.shape + 0.5 * (size - 1)), np.float64(self.rate + 0.5 * size))

    def _prior(self, a: Gamma, size: int) -> FloatArray:
        """E of the prior's precisions, [D]."""
        return np.concatenate([[1.0 / self.intercept_variance], np.full(size - 1, float(a.mean))])


def _mode(x: FloatArray, kappa: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return about where the density of w given a few rows is largest, by Newton's steps, halved.

    With it comes x' diag(p (1 - p)) x before the last step.
    """
    w, psi, value = np.zeros(len(prior)), np.zeros(len(x)), -np.inf
    for _ in range(STEPS):
        mean = 0.5 * np.tanh(0.5 * psi)  # of kappa
        curved = _gram(x, 0.25 - mean**2)
        step = np.linalg.solve(curved + np.diag(prior), (kappa - mean) @ x - prior * w)
        for size in 0.5 ** np.arange(HALVINGS):
            to, there = w + size * step, psi + size * (x @ step)
            far = np.abs(there)
            density = kappa @ there - (0.5 * far + np.log1p(np.exp(-far))).sum()
            density -= 0.5 * prior @ to**2
            if density >= value:
                w, psi, value = to, there, density
                break
    return w, curved


def _gram(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Return x' diag(weight) x, [D, D]; with many columns as a square, of which BLAS makes half."""
    if x.shape[1] < MANY:
        return (x * weight[:, None]).T @ x
    scaled = x * np.sqrt(weight)[:, None]
    return scaled.T @ scaled


def _known(batch: Rows) -> Any:
    """Return which rows have a label; all as a slice: a copy takes as long as a product."""
    known = batch.label >= 0
    return slice(None) if known.all() else known


def _labelled(batch: Rows) -> tuple[FloatArray, FloatArray]:
    """Return x and kappa of the rows that have a label."""
    known = _known(batch)
    return batch.x[known], batch.label[known] - 0.5


def _slabs(rows: int) -> Iterator[slice]:
    return (slice(first, first + SLAB) for first in range(0, rows, SLAB))
