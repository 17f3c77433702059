"""The Gaussian distribution of one number, and by leading axes of independent ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np

from vbmodels.core.state import FloatArray, State


@dataclass(frozen=True)
class Normal(State):
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
        result: FloatArray = 1.0 / self.precision
        return result

    @property
    def mean_square(self) -> FloatArray:
        """E[x^2]; [...]."""
        result: FloatArray = self.mean**2 + 1.0 / self.precision
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
