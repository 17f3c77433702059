"""The Gaussian distribution of one number, and by leading axes of independent ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Normal(ExponentialFamily):
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
    def natural(self) -> FloatArray:
        """(precision mean, -precision/2); [..., 2]."""
        return np.stack(
            np.broadcast_arrays(self.precision * self.mean, np.multiply(-0.5, self.precision)), -1
        )

    @property
    def variance(self) -> FloatArray:
        """Variance of x; [...]."""
        result: FloatArray = 1.0 / self.precision
        return result

    @property
    def mean_square(self) -> FloatArray:
        """E[x^2]; [...]."""
        result: FloatArray = self.mean**2 + 1.0 / self.precision
        return result

    @property
    def mean_stats(self) -> FloatArray:
        """(E[x], E[x^2]); [..., 2]."""
        return np.stack(np.broadcast_arrays(self.mean, self.mean_square), -1)

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = precision mean^2 / 2 - log(precision / 2 pi) / 2; [...]."""
        linear, square = natural[..., 0], natural[..., 1]
        result: FloatArray = -(linear**2) / (4.0 * square) + 0.5 * (
            log(2.0 * pi) - np.log(-2.0 * square)
        )
        return result

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
