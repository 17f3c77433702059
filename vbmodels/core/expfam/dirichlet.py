"""The Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import digamma, gammaln

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Dirichlet(ExponentialFamily):
    """Dirichlet(alpha) on the simplex of K parts.

    Attributes
    ----------
    alpha
        Positive; [..., K].
    """

    alpha: FloatArray

    @property
    def natural(self) -> FloatArray:
        """alpha - 1; [..., K]."""
        result: FloatArray = self.alpha - 1.0
        return result

    @property
    def mean(self) -> FloatArray:
        """E[x]; [..., K]."""
        result: FloatArray = self.alpha / self.alpha.sum(-1, keepdims=True)
        return result

    @property
    def mean_stats(self) -> FloatArray:
        """E[log x_k] = psi(alpha_k) - psi(sum alpha); [..., K]."""
        result: FloatArray = digamma(self.alpha) - digamma(self.alpha.sum(-1, keepdims=True))
        return result

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = sum log Gamma(alpha_k) - log Gamma(sum alpha); [...]."""
        alpha = natural + 1.0
        result: FloatArray = gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))
        return result
