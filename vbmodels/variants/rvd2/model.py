"""RVD2 by partitioned variational Bayes: one sample, and a case and a control side by side.

    mu_j ~ Beta(mu0 M0, (1-mu0) M0)                            error rate of a location
    theta_ji ~ Beta(mu_j M_j, (1-mu_j) M_j)                    of a replicate there
    r_ji ~ Binomial(n_ji, theta_ji)                            its reads with an error
    q = prod_j q(mu_j) prod_i q(theta_ji),  q(mu_j) = Beta(delta_j, gamma_j)
    log M_j ~ N(m, .5^2)                                       ours alone

(eq. 1 of the text and its mean field, eq. 7). The sd under q is too small by about sqrt(1 + M/n).
With M_j and (mu0, M0) all free the optimum is degenerate: M0 runs off, every mu_j equals mu0 and
variants hide in small M_j. So log M_j has a normal prior whose mean is global, and M0 has a cap;
with strong variants the fit may still end in the degenerate optimum (at 10 % and 4000 reads, 6 of
14 found).

The text's tangent for E[lgamma(M) - lgamma(M mu) - lgamma(M (1-mu))] (eqs. 22-23) is an upper
bound, so with it the objective is no bound at all; it is integrated here. A replicate without reads
drops out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, gammaln

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.variants.counts import Counts, totals
from vbmodels.variants.hyperparameters import CAP, beta_maximum
from vbmodels.variants.rvd2.local_step import (
    LIMITS_LOG_M,
    Locations,
    Prior,
    maximise,
    psi_gap,
    values,
)


@dataclass(frozen=True)
class Errors(State, kind="variants/rvd2.Errors"):
    """Reads of one sample.

    Attributes
    ----------
    r, n
        [J, N] reads that do not show the reference, and depth; a missing replicate has 0.
    """

    r: IntArray
    n: IntArray

    def __post_init__(self) -> None:
        if self.r.shape != self.n.shape or self.r.ndim != 2:
            raise ValueError(f"expected r and n [J, N], got {self.r.shape} and {self.n.shape}")
        wrong = np.argwhere((self.r < 0) | (self.r > self.n))
        if wrong.size:
            j, i = wrong[0]
            raise ValueError(
                f"expected 0 <= r <= n; location {j}, replicate {i} has r = {self.r[j, i]} "
                f"and n = {self.n[j, i]}"
            )


@dataclass(frozen=True)
class Global(State, kind="variants/rvd2.Global"):
    """A0 = mu0 M0, B0 = (1-mu0) M0, and the mean of log M_j."""

    a0: float
    b0: float
    log_m: float


@dataclass(frozen=True)
class Local(State, kind="variants/rvd2.Local"):
    """Parameters of q(mu_j) (eqs 4, 7), and log M_j; [J] each."""

    delta: FloatArray
    gamma: FloatArray
    log_m: FloatArray


@dataclass(frozen=True)
class Observed(Stats, kind="variants/rvd2.Observed"):
    """Locations and their summed log rates, for the start."""

    locations: float
    log_rate: float


@dataclass(frozen=True)
class Sums(Stats, kind="variants/rvd2.Sums"):
    """What a partition returns.

    Attributes
    ----------
    locations
        J.
    log_mu, log_nu
        Summed E[log mu_j], E[log(1-mu_j)].
    bound
        Expected log likelihood plus the entropy of q.
    log_m, log_m2
        Summed log M_j and its square.
    """

    locations: float
    log_mu: float
    log_nu: float
    bound: float
    log_m: float
    log_m2: float


@dataclass(frozen=True)
class RVD2:
    """The papers' model (Algorithm 1); see the module's docstring.

    Parameters
    ----------
    log_m_sd
        sd of the prior of log M_j.
    n_nodes
        Nodes of the quadrature over q(mu).
    """

    log_m_sd: float = 0.5
    n_nodes: int = 32

    def observe(self, batch: Errors) -> Observed:
        """Return moments of log((r + .5) / (n + 1)) over locations with reads."""
        n = batch.n.sum(axis=1)
        rate = np.log((batch.r.sum(axis=1) + 0.5) / (n + 1.0))[n > 0]
        return Observed(float(rate.size), float(rate.sum()))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Return the start: a Beta with A0 = 1 at the mean rate, M = 2000; no randomness."""
        mean = observed.log_rate / observed.locations if observed.locations else np.log(1e-3)
        rate = float(np.clip(np.exp(mean), 1e-6, 0.5))
        return Global(a0=1.0, b0=(1.0 - rate) / rate, log_m=float(np.log(2000.0)))

    def local_step(self, q: Global, batch: Errors, local: Local | None) -> Local:
        """Return the bound's maximum in delta_j, gamma_j (eq 6) and M_j (eqs 21-24), by Newton."""
        if local is None:
            local = _first_local(q, batch)
        start = np.stack([np.log(local.delta), np.log(local.gamma), local.log_m], axis=1)
        prior = Prior(q.a0, q.b0, q.log_m, self.log_m_sd**-2)
        maximum = maximise(Locations(batch.r, batch.n, prior, self.n_nodes), start)
        return Local(np.exp(maximum[:, 0]), np.exp(maximum[:, 1]), maximum[:, 2].copy())

    def suff_stats(self, q: Global, batch: Errors, local: Local) -> Sums:
        """Return the sums over locations (eq 14), and their bound (eqs 11, 12, 15, 16)."""
        # A flat Beta(1, 1) in place of the prior leaves likelihood and entropy.
        flat = Locations(batch.r, batch.n, Prior(1.0, 1.0, 0.0, 0.0), self.n_nodes)
        point = np.stack([np.log(local.delta), np.log(local.gamma), local.log_m], axis=1)
        n, r = batch.n + 1.0, batch.r + 1.0
        binomials = gammaln(n) - gammaln(r) - gammaln(n - batch.r)
        return Sums(
            locations=float(len(local.log_m)),
            log_mu=float(psi_gap(local.gamma, local.delta).sum()),
            log_nu=float(psi_gap(local.delta, local.gamma).sum()),
            bound=float(values(flat, point).sum() + binomials.sum()),
            log_m=float(local.log_m.sum()),
            log_m2=float((local.log_m**2).sum()),
        )

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return (A0, B0) by `beta_maximum` (eqs 17-20) and the mean of log M."""
        if stats.locations == 0.0:
            return q
        n, s1, s2 = (np.array([v]) for v in (stats.locations, stats.log_mu, stats.log_nu))
        a0, b0 = beta_maximum(n, s1, s2, (np.array([q.a0]), np.array([q.b0])))
        return Global(float(a0[0]), float(b0[0]), stats.log_m / stats.locations)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the bound (eqs 8, 10, 13), with the normal prior of log M_j at its estimate."""
        j = stats.locations
        value = stats.bound - j * float(betaln(q.a0, q.b0))
        value += (q.a0 - 1.0) * stats.log_mu + (q.b0 - 1.0) * stats.log_nu
        spread = stats.log_m2 - 2.0 * q.log_m * stats.log_m + j * q.log_m**2
        value -= 0.5 * spread / self.log_m_sd**2
        return value - j * float(np.log(self.log_m_sd * np.sqrt(2.0 * np.pi)))

    def to_vector(self, q: Global) -> FloatArray:
        """Return (log A0, log B0, log M)."""
        return np.array([np.log(q.a0), np.log(q.b0), q.log_m])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the global parameters at these coordinates, cut to their ranges."""
        over = max(float(np.logaddexp(vector[0], vector[1])) - float(np.log(CAP)), 0.0)
        a0, b0 = np.exp(np.clip(vector[:2] - over, -30.0, None))
        return Global(float(a0), float(b0), float(np.clip(vector[2], *LIMITS_LOG_M)))

    def is_all_alike(self, q: Global) -> bool:
        """Whether no difference between locations was found in a sample's errors."""
        # Hardly anything changes near the limit: where sweeps end before it depends on the machine.
        return q.a0 + q.b0 >= 0.9 * CAP


def _first_local(q: Global, batch: Errors) -> Local:
    m = np.exp(q.log_m)
    weight = (m + 1.0) / (m + batch.n)
    hits = (weight * batch.r).sum(axis=1)
    rest = (weight * (batch.n - batch.r)).sum(axis=1)
    return Local(q.a0 + hits, q.b0 + rest, np.full(len(hits), q.log_m))


@dataclass(frozen=True)
class PairGlobal(State, kind="variants/rvd2.PairGlobal"):
    """The global parameters of both samples."""

    case: Global
    control: Global


@dataclass(frozen=True)
class PairLocal(State, kind="variants/rvd2.PairLocal"):
    """The local parameters of both samples."""

    case: Local
    control: Local


@dataclass(frozen=True)
class PairObserved(Stats, kind="variants/rvd2.PairObserved"):
    """The first statistics of both samples."""

    case: Observed
    control: Observed


@dataclass(frozen=True)
class PairSums(Stats, kind="variants/rvd2.PairSums"):
    """The statistics of both samples."""

    case: Sums
    control: Sums


@dataclass(frozen=True)
class Pair:
    """Two independent fits of ``model``: the bound is their sum.

    A sample without replicates has no reads, so it leaves its prior as it is.
    """

    model: RVD2

    def observe(self, batch: Counts) -> PairObserved:
        """See `RVD2.observe`."""
        return PairObserved(*(self.model.observe(e) for e in samples(batch)))

    def init(self, observed: PairObserved, rng: np.random.Generator) -> PairGlobal:
        """See `RVD2.init`."""
        return PairGlobal(
            self.model.init(observed.case, rng), self.model.init(observed.control, rng)
        )

    def local_step(self, q: PairGlobal, batch: Counts, local: PairLocal | None) -> PairLocal:
        """See `RVD2.local_step`."""
        case, control = samples(batch)
        return PairLocal(
            self.model.local_step(q.case, case, local.case if local else None),
            self.model.local_step(q.control, control, local.control if local else None),
        )

    def suff_stats(self, q: PairGlobal, batch: Counts, local: PairLocal) -> PairSums:
        """See `RVD2.suff_stats`."""
        case, control = samples(batch)
        return PairSums(
            self.model.suff_stats(q.case, case, local.case),
            self.model.suff_stats(q.control, control, local.control),
        )

    def global_step(self, q: PairGlobal, stats: PairSums) -> PairGlobal:
        """See `RVD2.global_step`."""
        return PairGlobal(
            self.model.global_step(q.case, stats.case),
            self.model.global_step(q.control, stats.control),
        )

    def elbo(self, q: PairGlobal, stats: PairSums) -> float:
        """Return the sum of both bounds."""
        return self.model.elbo(q.case, stats.case) + self.model.elbo(q.control, stats.control)

    def to_vector(self, q: PairGlobal) -> FloatArray:
        """Return the coordinates of both, one after the other."""
        return np.concatenate([self.model.to_vector(q.case), self.model.to_vector(q.control)])

    def from_vector(self, q: PairGlobal, vector: FloatArray) -> PairGlobal:
        """Return ``q`` moved to these coordinates."""
        return PairGlobal(
            self.model.from_vector(q.case, vector[:3]),
            self.model.from_vector(q.control, vector[3:]),
        )

    def is_all_alike(self, q: PairGlobal) -> bool:
        """Whether that is so of the case or of the control."""
        return self.model.is_all_alike(q.case) or self.model.is_all_alike(q.control)


def samples(batch: Counts) -> tuple[Errors, Errors]:
    """Return the reads of the case and of the control."""
    r, n = totals(batch)
    return (
        Errors(r[:, batch.case], n[:, batch.case]),
        Errors(r[:, ~batch.case], n[:, ~batch.case]),
    )
