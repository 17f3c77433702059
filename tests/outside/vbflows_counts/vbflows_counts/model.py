"""A small complete model: counts of groups whose rates differ.

    beta ~ Gamma(c, d)                                   global: how long rates' scale is
    lam_g | beta ~ Gamma(a, beta)                        local: the rate of group g
    y_gj | lam_g ~ Poisson(lam_g),  j = 1..J

q = Gamma(beta; shape, rate) prod_g Gamma(lam_g; shape_g, rate_g); every update is exact.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from vbmodels.core.expfam import Gamma
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Counts(State):
    """One partition: counts y [G, J]."""

    y: FloatArray


@dataclass(frozen=True)
class Observed(Stats):
    """What the start needs: groups, and the sum of their mean counts."""

    groups: int
    total: float


@dataclass(frozen=True)
class Global(State):
    """The factor of beta."""

    shape: float
    rate: float


@dataclass(frozen=True)
class Local(State):
    """The factors of lam; [G]."""

    lam: Gamma


@dataclass(frozen=True)
class Sums(Stats):
    """What a partition returns: groups, the sum of E lam, the local part of the bound."""

    groups: float
    lam: float
    bound: float


@dataclass(frozen=True)
class GroupedCounts:
    """Priors of the model."""

    a: float = 2.0
    c: float = 1.0
    d: float = 1.0

    def observe(self, batch: Counts) -> Observed:
        """Count the groups and add their means."""
        return Observed(len(batch.y), float(batch.y.mean(axis=1).sum()))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Start where beta gives the mean rate."""
        return Global(self.c, self.c * (observed.total / observed.groups + 1.0) / self.a)

    def local_step(self, q: Global, batch: Counts, local: Local | None) -> Local:
        """Return q(lam_g) = Gamma(a + sum_j y_gj, E beta + J)."""
        rate = q.shape / q.rate + batch.y.shape[1]
        return Local(Gamma(self.a + batch.y.sum(axis=1), np.full(len(batch.y), rate)))

    def suff_stats(self, q: Global, batch: Counts, local: Local) -> Sums:
        """Add E lam and E[log p(y, lam | beta)] + H[q(lam)]."""
        beta, lam = Gamma(np.float64(q.shape), np.float64(q.rate)), local.lam
        likelihood = batch.y.sum(axis=1) * lam.mean_log - batch.y.shape[1] * lam.mean
        likelihood -= gammaln(batch.y + 1.0).sum(axis=1)
        prior = self.a * beta.mean_log - gammaln(self.a)
        prior = prior + (self.a - 1.0) * lam.mean_log - beta.mean * lam.mean
        bound = likelihood + prior + lam.entropy()
        return Sums(float(len(batch.y)), float(lam.mean.sum()), float(bound.sum()))

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return q(beta) = Gamma(c + G a, d + sum_g E lam_g)."""
        return Global(self.c + stats.groups * self.a, self.d + stats.lam)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part minus KL(q(beta) || p(beta))."""
        prior = Gamma(np.float64(self.c), np.float64(self.d))
        return stats.bound - float(Gamma(np.float64(q.shape), np.float64(q.rate)).kl(prior))
