"""Distributions with their moments, entropy, divergence and draws."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Self

import numpy as np
from scipy.special import betaln, digamma, gammaln, log_ndtr

from vbmodels.core import linalg
from vbmodels.core.state import BoolArray, FloatArray, State


@dataclass(frozen=True)
class Beta(State, kind="core.Beta"):
    """Beta(a, b): x^(a-1) (1-x)^(b-1) / B(a, b) on (0, 1).

    Attributes
    ----------
    a, b
        Positive; [...].
    """

    a: FloatArray
    b: FloatArray

    @property
    def mean(self) -> FloatArray:
        """E[x] = a / (a + b); [...]."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> FloatArray:
        """Variance of x; [...]."""
        total = self.a + self.b
        return self.a * self.b / (total**2 * (total + 1.0))

    @property
    def mean_log(self) -> FloatArray:
        """E[log x] = psi(a) - psi(a + b); [...]."""
        result: FloatArray = digamma(self.a) - digamma(self.a + self.b)
        return result

    @property
    def mean_log1m(self) -> FloatArray:
        """E[log(1 - x)] = psi(b) - psi(a + b); [...]."""
        result: FloatArray = digamma(self.b) - digamma(self.a + self.b)
        return result

    def entropy(self) -> FloatArray:
        """log B(a, b) - (a - 1) E[log x] - (b - 1) E[log(1 - x)]; nats, [...]."""
        slope = (self.a - 1.0) * self.mean_log + (self.b - 1.0) * self.mean_log1m
        result: FloatArray = betaln(self.a, self.b) - slope
        return result

    def kl(self, other: Beta) -> FloatArray:
        """(a - a') E[log x] + (b - b') E[log(1 - x)] - log B + log B'; nats, [...]."""
        result: FloatArray = (
            (self.a - other.a) * self.mean_log
            + (self.b - other.b) * self.mean_log1m
            - betaln(self.a, self.b)
            + betaln(other.a, other.b)
        )
        return result


@dataclass(frozen=True)
class Gamma(State, kind="core.Gamma"):
    """Gamma(shape, rate): rate^shape x^(shape-1) exp(-rate x) / Gamma(shape) on x > 0.

    On a precision x it is the conjugate prior of the Gaussian, and the inverse-Gamma
    distribution of the variance 1/x with the same divergence.

    Attributes
    ----------
    shape, rate
        Positive; [...].
    """

    shape: FloatArray
    rate: FloatArray

    @property
    def mean(self) -> FloatArray:
        """E[x] = shape / rate; [...]."""
        return self.shape / self.rate

    @property
    def variance(self) -> FloatArray:
        """Variance of x, shape / rate^2; [...]."""
        return self.shape / self.rate**2

    @property
    def mean_log(self) -> FloatArray:
        """E[log x] = psi(shape) - log rate; [...]."""
        result: FloatArray = digamma(self.shape) - np.log(self.rate)
        return result

    def entropy(self) -> FloatArray:
        """log Gamma(shape) - shape log rate - (shape - 1) E[log x] + rate E[x]; nats, [...]."""
        result: FloatArray = -self._log_norm - (self.shape - 1.0) * self.mean_log + self.shape
        return result

    def kl(self, other: Gamma) -> FloatArray:
        """(shape - shape') E[log x] - (rate - rate') E[x] + log norm - log norm'; nats, [...]."""
        result: FloatArray = (
            (self.shape - other.shape) * self.mean_log
            - (self.rate - other.rate) * self.mean
            + self._log_norm
            - other._log_norm
        )
        return result

    @property
    def _log_norm(self) -> FloatArray:
        """shape log rate - log Gamma(shape), the log of what makes the density's integral 1."""
        result: FloatArray = self.shape * np.log(self.rate) - gammaln(self.shape)
        return result


@dataclass(frozen=True)
class Normal(State, kind="core.Normal"):
    """N(mean, 1/precision); a diagonal Gaussian is an array of these, its sums over the axis.

    Attributes
    ----------
    mean
        [...].
    precision
        Positive; [...].
    """

    mean: FloatArray
    precision: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Variance of x; [...]."""
        return 1.0 / self.precision

    def entropy(self) -> FloatArray:
        """(1 + log 2 pi - log precision) / 2; [...]."""
        result: FloatArray = 0.5 * (1.0 + log(2.0 * pi) - np.log(self.precision)) + np.zeros_like(
            self.mean
        )
        return result

    def kl(self, other: Normal) -> FloatArray:
        """(ratio - 1 - log ratio + precision' (mean - mean')^2) / 2, ratio = precision'/precision.

        The means enter by their difference, so a mean far from 0 costs no digits; [...].
        """
        ratio = other.precision / self.precision
        result: FloatArray = 0.5 * (
            ratio - 1.0 - np.log(ratio) + other.precision * (self.mean - other.mean) ** 2
        )
        return result


@dataclass(frozen=True)
class Gaussian(State, kind="core.Gaussian"):
    """N(mean, (L L')^-1) in D dimensions.

    Attributes
    ----------
    mean
        [..., D].
    factor
        Lower Cholesky factor L of the precision; [..., D, D].
    """

    mean: FloatArray
    factor: FloatArray

    @classmethod
    def from_linear(cls, linear: FloatArray, precision: FloatArray) -> Self:
        """Build from precision times mean [..., D] and the precision [..., D, D]."""
        factor = linalg.cholesky(precision, "the precision of a Gaussian")
        return cls(linalg.solve(factor, linear), factor)

    @property
    def covariance(self) -> FloatArray:
        """(L L')^-1; [..., D, D]."""
        return linalg.inverse(self.factor)

    def entropy(self) -> FloatArray:
        """(D (1 + log 2 pi) - log det precision) / 2; [...]."""
        size = self.mean.shape[-1]
        result: FloatArray = 0.5 * (size * (1.0 + log(2.0 * pi)) - linalg.log_det(self.factor))
        return result

    def kl_to_standard(self) -> FloatArray:
        """(tr C + mean' mean - D - log det C) / 2, the divergence from N(0, I); [...]."""
        size = self.mean.shape[-1]
        half = linalg.solve_lower(self.factor, np.broadcast_to(np.eye(size), self.factor.shape))
        trace = (half**2).sum(axis=(-2, -1))
        square = (self.mean**2).sum(axis=-1)
        result: FloatArray = 0.5 * (trace + square - size + linalg.log_det(self.factor))
        return result


CUT = 0.64
"""Where the two proposals of a draw meet; Devroye (2009)."""


def draw_polya_gamma(c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw w ~ PG(1, c) exactly, one for each entry of c; [...].

    Polson, Scott and Windle (2013), section 4, after Devroye (2009): PG(1, c) is a quarter of
    J*(1, z) with z = |c|/2, whose density is an alternating series that can be bracketed term
    by term. J* is proposed from an inverse Gaussian below `CUT` and from an exponential above.

    Examples
    --------
    >>> w = draw_polya_gamma(np.full(4000, 2.0), np.random.default_rng(0))
    >>> bool(abs(w.mean() - np.tanh(1.0) / 4.0) < 0.01)
    True
    """
    z = 0.5 * np.abs(np.asarray(c, dtype=np.float64)).ravel()
    drawn = np.empty_like(z)
    open_ = np.arange(z.size)
    while open_.size:
        x = _propose(z[open_], rng)
        good = _accept(x, rng)
        drawn[open_[good]] = 0.25 * x[good]
        open_ = open_[~good]
    return drawn.reshape(np.shape(c))


def _propose(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    rate = pi**2 / 8.0 + 0.5 * z**2
    right = pi / (2.0 * rate) * np.exp(-rate * CUT)
    # 2 exp(-z) times the inverse-Gaussian distribution function at the cut.
    root = 1.0 / sqrt(CUT)
    left = 2.0 * (
        np.exp(log_ndtr(root * (CUT * z - 1.0)) - z) + np.exp(log_ndtr(-root * (CUT * z + 1.0)) + z)
    )
    x = CUT + rng.standard_exponential(z.size) / rate
    # Not ">": for |c| above 1490 both shares underflow, and all lies below the cut.
    below = rng.random(z.size) * (left + right) >= right
    x[below] = _short(z[below], rng)
    return x


def _short(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw from the inverse Gaussian with mean 1/z and shape 1, given x < CUT."""
    x = np.empty_like(z)
    open_ = np.arange(z.size)
    while open_.size:
        tilt = z[open_]
        tried, good = np.empty_like(tilt), np.empty(tilt.size, dtype=bool)
        wide = tilt < 1.0 / CUT
        e, bar = rng.standard_exponential((2, int(wide.sum())))
        candidate = CUT / (1.0 + CUT * e) ** 2
        chance = np.exp(-0.5 * tilt[wide] ** 2 * candidate)
        tried[wide] = candidate
        good[wide] = (e**2 <= 2.0 * bar / CUT) & (rng.random(e.size) <= chance)
        tried[~wide] = rng.wald(1.0 / tilt[~wide], 1.0)
        good[~wide] = tried[~wide] < CUT
        x[open_[good]] = tried[good]
        open_ = open_[~good]
    return x


def _accept(x: FloatArray, rng: np.random.Generator) -> BoolArray:
    """Compare a uniform share of the series' first term with its partial sums."""
    total = _term(0, x)
    level = rng.random(x.size) * total
    accepted = np.zeros(x.size, dtype=bool)
    undecided = np.ones(x.size, dtype=bool)
    n = 0
    while undecided.any():
        n += 1
        odd = n % 2 == 1
        total = total + (-1.0 if odd else 1.0) * _term(n, x)
        decided = undecided & ((level <= total) if odd else (level > total))
        accepted[decided] = odd
        undecided &= ~decided
    return accepted


def _term(n: int, x: FloatArray) -> FloatArray:
    k = n + 0.5
    short = np.minimum(x, CUT)
    # By its logarithm: near 0 the power overflows where the exponential underflows.
    low = np.exp(1.5 * np.log(2.0 / (pi * short)) - 2.0 * k**2 / short)
    high = np.exp(-0.5 * k**2 * pi**2 * x)
    return pi * k * np.where(x <= CUT, low, high)
