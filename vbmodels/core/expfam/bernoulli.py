"""The Bernoulli distribution, by its log-odds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Bernoulli(ExponentialFamily):
    """P(x = 1) = 1 / (1 + exp(-logit)).

    Attributes
    ----------
    logit
        Log-odds; [...].
    """

    logit: FloatArray

    @property
    def natural(self) -> FloatArray:
        """(logit,); [..., 1]."""
        return np.asarray(self.logit)[..., None]

    @property
    def mean(self) -> FloatArray:
        """P(x = 1); [...]."""
        result: FloatArray = expit(self.logit)
        return result

    @property
    def variance(self) -> FloatArray:
        """P(x = 1) P(x = 0), without 1 - p; [...]."""
        result: FloatArray = expit(self.logit) * expit(np.negative(self.logit))
        return result

    @property
    def mean_stats(self) -> FloatArray:
        """(P(x = 1),); [..., 1]."""
        return self.mean[..., None]

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A = log(1 + exp(logit)); [...]."""
        result: FloatArray = -log_expit(-natural[..., 0])
        return result

    def entropy(self) -> FloatArray:
        """-p log p - (1-p) log(1-p), each logarithm from the log-odds; [...]."""
        logit = np.asarray(self.logit)
        result: FloatArray = -expit(logit) * log_expit(logit) - expit(-logit) * log_expit(-logit)
        return result

    def kl(self, other: Bernoulli) -> FloatArray:
        """p log(p/p') + (1-p) log((1-p)/(1-p')), from the log-odds; [...]."""
        mine, theirs = np.asarray(self.logit), np.asarray(other.logit)
        result: FloatArray = expit(mine) * (log_expit(mine) - log_expit(theirs)) + expit(-mine) * (
            log_expit(-mine) - log_expit(-theirs)
        )
        return result
