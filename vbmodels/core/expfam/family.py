"""What every distribution here offers, and what follows from that for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from vbmodels.core.state import FloatArray, State


@dataclass(frozen=True)
class ExponentialFamily(State):
    """A density h(x) exp(eta . t(x) - A(eta)), vectorised over leading axes.

    A distribution gives its natural parameters eta, the mean statistics E[t(x)], the
    log-normaliser A and E[log h(x)]; entropy and divergence follow. Natural parameters
    and statistics are packed on the last axis, in the same order. What is not a natural
    parameter (a side, a dimension, the shape of a Polya-Gamma) is fixed: two distributions
    must share it to have a divergence.
    """

    @property
    def natural(self) -> FloatArray:
        """Natural parameters eta; [..., K]."""
        raise NotImplementedError

    @property
    def mean_stats(self) -> FloatArray:
        """Expected sufficient statistics E[t(x)], the gradient of A at eta; [..., K]."""
        raise NotImplementedError

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """Log-normaliser A(eta) = log of the integral of h(x) exp(eta . t(x)); [...]."""
        raise NotImplementedError

    @property
    def mean_log_base(self) -> FloatArray | float:
        """E[log h(x)]; [...]."""
        return 0.0

    def entropy(self) -> FloatArray:
        """-E[log density] = A(eta) - eta . E[t] - E[log h]; nats, [...]."""
        eta = self.natural
        result: FloatArray = (
            self.log_norm(eta) - (eta * self.mean_stats).sum(-1) - self.mean_log_base
        )
        return result

    def kl(self, other: Self) -> FloatArray:
        """KL(self || other) = (eta - eta') . E[t] - A(eta) + A(eta'); nats, [...]."""
        mine, theirs = self.natural, other.natural
        result: FloatArray = (
            ((mine - theirs) * self.mean_stats).sum(-1)
            - self.log_norm(mine)
            + other.log_norm(theirs)
        )
        return result
