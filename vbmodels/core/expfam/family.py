"""Entropy and divergence of exponential families, from natural parameters and mean statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from vbmodels.core.state import FloatArray, State


@dataclass(frozen=True)
class ExponentialFamily(State):
    """A density exp(eta . t(x) - A(eta)), vectorised over leading axes; eta and t on the last."""

    @property
    def natural(self) -> FloatArray:
        """Natural parameters eta; [..., K]."""
        raise NotImplementedError

    @property
    def mean_stats(self) -> FloatArray:
        """E[t(x)], the gradient of A at eta; [..., K]."""
        raise NotImplementedError

    def log_norm(self, natural: FloatArray) -> FloatArray:
        """A(eta) = log of the integral of exp(eta . t(x)); [...]."""
        raise NotImplementedError

    def entropy(self) -> FloatArray:
        """A(eta) - eta . E[t]; nats, [...]."""
        eta = self.natural
        result: FloatArray = self.log_norm(eta) - (eta * self.mean_stats).sum(-1)
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
