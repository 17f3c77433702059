"""A small hierarchical model with warm local states, and bugs planted in it.

    tau ~ Gamma(a0, b0),  mu | tau ~ N(m0, 1/(k0 tau))                       global
    z_g | mu, tau ~ N(mu, 1/tau),  lam_g ~ Gamma(c0, d0)                     local, a group
    y_gj | z_g, lam_g ~ N(z_g, 1/lam_g),  j = 1..J

    q = NormalGamma(mu, tau) prod_g N(z_g; mean, 1/precision) Gamma(lam_g; shape, rate)

Murphy (2007), "Conjugate Bayesian analysis of the Gaussian distribution", for the global
part; the local part is mean field, and its fixed point is iterated from a warm start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import cavi, squarem
from vbmodels.core.expfam import Gamma, Normal
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class Groups(State):
    """One partition: observations y [G, J]."""

    y: FloatArray


@dataclass(frozen=True)
class Observed(Stats):
    """What the start needs."""

    groups: int
    total: float


@dataclass(frozen=True)
class Global(State):
    """NormalGamma(mean, weight, shape, rate) of (mu, tau)."""

    mean: float
    weight: float
    shape: float
    rate: float


@dataclass(frozen=True)
class Local(State):
    """Factors of z and lam; [G] each."""

    z: Normal
    lam: Gamma


@dataclass(frozen=True)
class Sums(Stats):
    """Additive statistics: groups, sum of E z, sum of E z^2, the local part of the bound."""

    n: float
    z: float
    zz: float
    bound: float


@dataclass(frozen=True)
class Toy:
    """Priors of the model."""

    m0: float = 0.5
    k0: float = 0.3
    a0: float = 2.0
    b0: float = 1.5
    c0: float = 3.0
    d0: float = 2.0

    def observe(self, batch: Groups) -> Observed:
        """Count the groups and add their means."""
        return Observed(len(batch.y), float(batch.y.mean(axis=1).sum()))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Start near the grand mean, with the prior's precision."""
        mean = observed.total / observed.groups + rng.standard_normal()
        return Global(float(mean), self.k0, self.a0, self.b0)

    def local_step(self, q: Global, batch: Groups, local: Local | None) -> Local:
        """Iterate the two factors of each group to their fixed point."""
        tau = q.shape / q.rate
        n, total = batch.y.shape[1], batch.y.sum(axis=1)
        ones = np.ones(len(batch.y))
        lam = local.lam if local is not None else Gamma(self.c0 * ones, self.d0 * ones)
        for _ in range(500):
            precision = tau + n * lam.mean
            z = Normal((tau * q.mean + lam.mean * total) / precision, precision)
            new = Gamma(self.shape(n) * ones, self.d0 + 0.5 * self.squares(batch, z))
            change = float(np.max(np.abs(new.rate / lam.rate - 1.0), initial=0.0))
            lam = new
            if change < 1e-11:
                break
        return Local(z, lam)

    def shape(self, n: int) -> float:
        """Shape of q(lam) after n observations."""
        return self.c0 + 0.5 * n

    @staticmethod
    def squares(batch: Groups, z: Normal) -> FloatArray:
        """E sum_j (y_gj - z_g)^2; [G]."""
        n = batch.y.shape[1]
        result: FloatArray = ((batch.y - z.mean[:, None]) ** 2).sum(axis=1) + n * z.variance
        return result

    def suff_stats(self, q: Global, batch: Groups, local: Local) -> Sums:
        """Moments of z, and E[log p(y, z, lam | mu, tau)] + H[q(z)] + H[q(lam)]."""
        z, bound = local.z, self.bounds(q, batch, local)
        return Sums(
            float(len(batch.y)),
            float(z.mean.sum()),
            float(self.second_moment(z).sum()),
            float(bound.sum()),
        )

    def bounds(self, q: Global, batch: Groups, local: Local) -> FloatArray:
        """Each group's part of the bound; [G]."""
        z, lam, n = local.z, local.lam, batch.y.shape[1]
        tau, log_tau = q.shape / q.rate, Gamma(q.shape, q.rate).mean_log
        prior = Gamma(np.float64(self.c0), np.float64(self.d0))
        likelihood = 0.5 * (
            n * (lam.mean_log - np.log(2.0 * np.pi)) - lam.mean * self.squares(batch, z)
        )
        second = z.mean**2 + z.variance - 2.0 * z.mean * q.mean + q.mean**2
        hierarchy = 0.5 * (log_tau - np.log(2.0 * np.pi) - tau * second - 1.0 / q.weight)
        bound: FloatArray = likelihood + hierarchy + self.entropy(z)
        return bound - self.divergence(lam, prior)

    @staticmethod
    def entropy(z: Normal) -> FloatArray:
        """H[q(z)]; [G]."""
        return z.entropy()

    @staticmethod
    def divergence(lam: Gamma, prior: Gamma) -> FloatArray:
        """KL(q(lam) || p(lam)); [G]."""
        return lam.kl(prior)

    @staticmethod
    def second_moment(z: Normal) -> FloatArray:
        """E z^2; [G]."""
        return z.mean**2 + z.variance

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return the conjugate posterior of (mu, tau) given the expected z."""
        weight = self.k0 + stats.n
        mean = (self.k0 * self.m0 + stats.z) / weight
        rate = self.b0 + 0.5 * (stats.zz + self.k0 * self.m0**2 - weight * mean**2)
        return Global(mean, weight, self.a0 + 0.5 * stats.n, rate)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the local part minus KL(q(mu, tau) || p(mu, tau))."""
        return stats.bound - self.global_kl(q)

    def global_kl(self, q: Global) -> float:
        """KL of two NormalGammas: the Normal's, averaged over tau, and the Gamma's."""
        tau, ratio = q.shape / q.rate, self.k0 / q.weight
        normal = 0.5 * (ratio - 1.0 - np.log(ratio) + self.k0 * tau * (q.mean - self.m0) ** 2)
        gamma = Gamma(np.float64(q.shape), np.float64(q.rate)).kl(
            Gamma(np.float64(self.a0), np.float64(self.b0))
        )
        return float(normal + gamma)

    def to_vector(self, q: Global) -> FloatArray:
        """Return mean, log weight, log shape, log rate."""
        return np.array([q.mean, *np.log([q.weight, q.shape, q.rate])])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the inverse of `to_vector`."""
        return Global(float(vector[0]), *(float(x) for x in np.exp(vector[1:])))


@dataclass(frozen=True)
class Looping(Toy):
    """The toy with a loop of its own, by name."""

    loop: str = "squarem"

    def algorithm(self, q: Global) -> Algorithm:
        """Run the loop."""
        return {"cavi": cavi, "squarem": squarem}[self.loop](self, q)


class MissingGlobalDivergence(Toy):
    """The bound forgets KL(q(mu, tau) || p)."""

    def global_kl(self, q: Global) -> float:
        return 0.0


class MisscaledPrior(Toy):
    """The global step uses a rate where the prior has its double."""

    def global_step(self, q: Global, stats: Sums) -> Global:
        right = super().global_step(q, stats)
        return replace(right, rate=right.rate + self.b0)


class UnnormalisedLocal(Toy):
    """The divergence of q(lam) forgets the normalising constant of q, not of p."""

    @staticmethod
    def divergence(lam: Gamma, prior: Gamma) -> FloatArray:
        return lam.kl(prior) + gammaln(lam.shape) - lam.shape * np.log(lam.rate)


class UnnormalisedConstant(Toy):
    """log 2 pi is left out of q(z), so the bound is off by a constant: it still rises."""

    @staticmethod
    def entropy(z: Normal) -> FloatArray:
        return z.entropy() - 0.5 * np.log(2.0 * np.pi)


class StaleLocal(Toy):
    """A warm local state is kept half: q(lam) is not updated after the first sweep."""

    def local_step(self, q: Global, batch: Groups, local: Local | None) -> Local:
        new = super().local_step(q, batch, local)
        return new if local is None else Local(new.z, local.lam)


class FrozenLocal(Toy):
    """A warm local state is returned as it is."""

    def local_step(self, q: Global, batch: Groups, local: Local | None) -> Local:
        return super().local_step(q, batch, local) if local is None else local


class PriorInEveryPartition(Toy):
    """The prior's pseudo-count is added by every partition, not once."""

    def suff_stats(self, q: Global, batch: Groups, local: Local) -> Sums:
        return super().suff_stats(q, batch, local) + Sums(self.k0, self.k0 * self.m0, 0.0, 0.0)


class WrongSignEntropy(Toy):
    """The entropy of q(z) is subtracted."""

    @staticmethod
    def entropy(z: Normal) -> FloatArray:
        return -z.entropy()


class PrecisionForVariance(Toy):
    """The second moment that the global step sees adds the precision, not the variance."""

    @staticmethod
    def second_moment(z: Normal) -> FloatArray:
        return z.mean**2 + z.precision


class WrongShape(Toy):
    """q(lam) counts every observation whole, not half."""

    def shape(self, n: int) -> float:
        return self.c0 + n


class HiddenState(Toy):
    """The model keeps the local state on itself: nothing that is saved holds it."""

    def local_step(self, q: Global, batch: Groups, local: Local | None) -> Local:
        kept = vars(self).setdefault("kept", {})
        known = kept.get(batch.y.tobytes())
        kept[batch.y.tobytes()] = new = super().local_step(q, batch, known)
        return new


@dataclass(frozen=True)
class WithPrecision(Global):
    """Global parameters with E tau, which follows from them."""

    tau: float

    @classmethod
    def of(cls, q: Global, tau: float | None = None) -> WithPrecision:
        own = {name: vars(q)[name] for name in ("mean", "weight", "shape", "rate")}
        return cls(**own, tau=q.shape / q.rate if tau is None else tau)


class PrecisionLeftBehind(Toy):
    """The local step reads E tau where a vector does not bring it."""

    def init(self, observed: Observed, rng: np.random.Generator) -> WithPrecision:
        return WithPrecision.of(super().init(observed, rng))

    def local_step(self, q: WithPrecision, batch: Groups, local: Local | None) -> Local:
        return super().local_step(replace(q, rate=q.shape / q.tau), batch, local)

    def global_step(self, q: Global, stats: Sums) -> WithPrecision:
        return WithPrecision.of(super().global_step(q, stats))

    def from_vector(self, q: WithPrecision, vector: FloatArray) -> WithPrecision:
        return WithPrecision.of(super().from_vector(q, vector), q.tau)


class WeightBeforeItsLogarithm(Toy):
    """A vector's second number is a logarithm; it is taken for the weight."""

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        return replace(super().from_vector(q, vector), weight=float(vector[1]))
