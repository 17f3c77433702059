"""Distributions with their moments, entropy and divergence."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Self

import numpy as np
from scipy.special import betaln, digamma, gammaln

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State


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
        return np.asarray(digamma(self.a) - digamma(self.a + self.b))

    @property
    def mean_log1m(self) -> FloatArray:
        """E[log(1 - x)] = psi(b) - psi(a + b); [...]."""
        return np.asarray(digamma(self.b) - digamma(self.a + self.b))

    def entropy(self) -> FloatArray:
        """log B(a, b) - (a - 1) E[log x] - (b - 1) E[log(1 - x)]; nats, [...]."""
        slope = (self.a - 1.0) * self.mean_log + (self.b - 1.0) * self.mean_log1m
        return np.asarray(betaln(self.a, self.b) - slope)

    def kl(self, other: Beta) -> FloatArray:
        """(a - a') E[log x] + (b - b') E[log(1 - x)] - log B + log B'; nats, [...]."""
        return np.asarray(
            (self.a - other.a) * self.mean_log
            + (self.b - other.b) * self.mean_log1m
            - betaln(self.a, self.b)
            + betaln(other.a, other.b)
        )


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
        return np.asarray(digamma(self.shape) - np.log(self.rate))

    def entropy(self) -> FloatArray:
        """log Gamma(shape) - shape log rate - (shape - 1) E[log x] + rate E[x]; nats, [...]."""
        return np.asarray(-self._log_norm - (self.shape - 1.0) * self.mean_log + self.shape)

    def kl(self, other: Gamma) -> FloatArray:
        """(shape - shape') E[log x] - (rate - rate') E[x] + log norm - log norm'; nats, [...]."""
        return np.asarray(
            (self.shape - other.shape) * self.mean_log
            - (self.rate - other.rate) * self.mean
            + self._log_norm
            - other._log_norm
        )

    @property
    def _log_norm(self) -> FloatArray:
        """shape log rate - log Gamma(shape), the log of what makes the density's integral 1."""
        return np.asarray(self.shape * np.log(self.rate) - gammaln(self.shape))


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
        return np.asarray(
            0.5 * (1.0 + log(2.0 * pi) - np.log(self.precision)) + np.zeros_like(self.mean)
        )

    def kl(self, other: Normal) -> FloatArray:
        """(ratio - 1 - log ratio + precision' (mean - mean')^2) / 2, ratio = precision'/precision.

        The means enter by their difference, so a mean far from 0 costs no digits; [...].
        """
        ratio = other.precision / self.precision
        return np.asarray(
            0.5 * (ratio - 1.0 - np.log(ratio) + other.precision * (self.mean - other.mean) ** 2)
        )


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
        return np.asarray(0.5 * (size * (1.0 + log(2.0 * pi)) - linalg.log_det(self.factor)))
