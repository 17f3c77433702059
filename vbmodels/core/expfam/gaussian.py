"""The multivariate Gaussian distribution, by the Cholesky factor of its precision."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log, pi
from typing import Self

import numpy as np

from vbmodels.core import linalg
from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Gaussian(ExponentialFamily):
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
    def from_precision(cls, mean: FloatArray, precision: FloatArray) -> Self:
        """Build from mean [..., D] and precision [..., D, D]."""
        return cls(mean, linalg.cholesky(precision, "the precision of a Gaussian"))

    @classmethod
    def from_linear(cls, linear: FloatArray, precision: FloatArray) -> Self:
        """Build from precision times mean [..., D] and the precision [..., D, D]."""
        factor = linalg.cholesky(precision, "the precision of a Gaussian")
        return cls(linalg.solve(factor, linear), factor)

    @property
    def precision(self) -> FloatArray:
        """L L'; [..., D, D]."""
        result: FloatArray = self.factor @ np.swapaxes(self.factor, -1, -2)
        return result

    @property
    def covariance(self) -> FloatArray:
        """(L L')^-1; [..., D, D]."""
        return linalg.inverse(self.factor)

    @property
    def second_moment(self) -> FloatArray:
        """E[x x']; [..., D, D]."""
        return self.covariance + self.mean[..., :, None] * self.mean[..., None, :]

    @property
    def natural(self) -> FloatArray:
        """(precision mean, -precision/2 row by row); [..., D + D^2]."""
        precision = self.precision
        linear = (precision @ self.mean[..., None])[..., 0]
        flat = precision.reshape(*precision.shape[:-2], -1)
        return np.concatenate([linear, -0.5 * flat], axis=-1)

    @property
    def mean_stats(self) -> FloatArray:
        """(E[x], E[x x'] row by row); [..., D + D^2]."""
        second = self.second_moment
        return np.concatenate([self.mean, second.reshape(*second.shape[:-2], -1)], axis=-1)

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = mean' precision mean / 2 - log det(precision / 2 pi) / 2; [...]."""
        size = isqrt(natural.shape[-1])
        linear, flat = natural[..., :size], natural[..., size:]
        square = flat.reshape(*flat.shape[:-1], size, size)
        factor = linalg.cholesky(-(square + np.swapaxes(square, -1, -2)))
        half = linalg.solve_lower(factor, linear[..., None])[..., 0]
        result: FloatArray = 0.5 * (
            (half**2).sum(-1) + size * log(2.0 * pi) - linalg.log_det(factor)
        )
        return result

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

    def kl(self, other: Gaussian) -> FloatArray:
        """(tr(P' C) - D + d' P' d + log det P - log det P') / 2, d = mean - mean'; [...].

        P, P' are the precisions of self and other, C the covariance of self;
        tr(P' C) = |L^-1 L'|^2 (Frobenius) with their factors.
        """
        size = self.mean.shape[-1]
        trace = (linalg.solve_lower(self.factor, other.factor) ** 2).sum((-1, -2))
        gap = (self.mean - other.mean)[..., None, :] @ other.factor
        result: FloatArray = 0.5 * (
            trace
            - size
            + (gap**2).sum((-1, -2))
            + linalg.log_det(self.factor)
            - linalg.log_det(other.factor)
        )
        return result
