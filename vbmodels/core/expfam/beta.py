"""The Beta distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, digamma

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Beta(ExponentialFamily):
    """Beta(a, b): x^(a-1) (1-x)^(b-1) / B(a, b) on (0, 1).

    Attributes
    ----------
    a, b
        Positive; [...].
    """

    a: FloatArray
    b: FloatArray

    @property
    def natural(self) -> FloatArray:
        """(a - 1, b - 1); [..., 2]."""
        return np.stack(np.broadcast_arrays(np.subtract(self.a, 1.0), np.subtract(self.b, 1.0)), -1)

    @property
    def mean(self) -> FloatArray:
        """E[x] = a / (a + b); [...]."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> FloatArray:
        """Variance of x; [...]."""
        total = self.a + self.b
        result: FloatArray = self.a * self.b / (total**2 * (total + 1.0))
        return result

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

    @property
    def mean_stats(self) -> FloatArray:
        """(E[log x], E[log(1 - x)]); [..., 2]."""
        return np.stack(np.broadcast_arrays(self.mean_log, self.mean_log1m), -1)

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = log B(a, b); [...]."""
        result: FloatArray = betaln(natural[..., 0] + 1.0, natural[..., 1] + 1.0)
        return result
