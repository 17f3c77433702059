"""The Gamma distribution, by shape and rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Gamma(ExponentialFamily):
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
    def natural(self) -> FloatArray:
        """(shape - 1, -rate); [..., 2]."""
        return np.stack(np.broadcast_arrays(np.subtract(self.shape, 1.0), -self.rate), -1)

    @property
    def mean(self) -> FloatArray:
        """E[x] = shape / rate; [...]."""
        return self.shape / self.rate

    @property
    def variance(self) -> FloatArray:
        """Variance of x, shape / rate^2; [...]."""
        result: FloatArray = self.shape / self.rate**2
        return result

    @property
    def mean_log(self) -> FloatArray:
        """E[log x] = psi(shape) - log rate; [...]."""
        result: FloatArray = digamma(self.shape) - np.log(self.rate)
        return result

    @property
    def mean_stats(self) -> FloatArray:
        """(E[log x], E[x]); [..., 2]."""
        return np.stack(np.broadcast_arrays(self.mean_log, self.mean), -1)

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = log Gamma(shape) - shape log rate; [...]."""
        shape, rate = natural[..., 0] + 1.0, -natural[..., 1]
        result: FloatArray = gammaln(shape) - shape * np.log(rate)
        return result
