"""The Gaussian distribution of unit variance, kept to one side of zero."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.special import log_ndtr

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.special import inverse_mills, truncated_variance
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class TruncatedNormal(ExponentialFamily):
    """N(location, 1) given side z > 0: the latent variable behind a probit observation.

    Attributes
    ----------
    location
        Mean before truncation; [...].
    side
        1 where z > 0, -1 where z < 0; fixed; [...].
    """

    location: FloatArray
    side: FloatArray

    @property
    def natural(self) -> FloatArray:
        """(location,); [..., 1]."""
        return np.broadcast_arrays(self.location, self.side)[0][..., None]

    @property
    def mean(self) -> FloatArray:
        """E[z] = location + side phi/Phi(side location); [...].

        Far on the wrong side the two terms cancel; then E|z| = g with the variance v of
        `truncated_variance` from v = 1 - r g, r = phi/Phi.
        """
        t = self.side * self.location
        ratio = inverse_mills(t)
        near = t + ratio
        far = (1.0 - truncated_variance(t)) / np.maximum(ratio, 1.0)
        result: FloatArray = self.side * np.where(t > -2.0, near, far)
        return result

    @property
    def variance(self) -> FloatArray:
        """Variance of z; [...]."""
        return truncated_variance(self.side * self.location)

    @property
    def mean_square(self) -> FloatArray:
        """E[z^2] = 1 + location E[z], as mean^2 + variance, which does not cancel; [...]."""
        return self.mean**2 + self.variance

    @property
    def mean_stats(self) -> FloatArray:
        """(E[z],); [..., 1]."""
        return self.mean[..., None]

    @property
    def mean_log_base(self) -> FloatArray:
        """E[log h], h the standard Gaussian density on its side; [...]."""
        result: FloatArray = -0.5 * (self.mean_square + log(2.0 * pi))
        return result

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = location^2 / 2 + log Phi(side location); [...]."""
        location = natural[..., 0]
        result: FloatArray = 0.5 * location**2 + log_ndtr(self.side * location)
        return result

    def entropy(self) -> FloatArray:
        """log Phi(side location) + (log 2 pi + E[(z - location)^2]) / 2; [...].

        E[(z - location)^2] = variance + (phi/Phi)^2, and on the left log Phi + (phi/Phi)^2 / 2
        loses x^2 eps.
        """
        t = self.side * self.location
        result: FloatArray = log_ndtr(t) + 0.5 * (
            log(2.0 * pi) + self.variance + inverse_mills(t) ** 2
        )
        return result
