"""RVD2 by partitioned variational Bayes: one sample, its locations, its replicates.

    mu_j ~ Beta(mu0 M0, (1-mu0) M0),  theta_ji ~ Beta(mu_j M_j, (1-mu_j) M_j),
    r_ji ~ Binomial(n_ji, theta_ji)          eq. 1 of the text

with q(mu_j) = Beta(delta_j, gamma_j) (eq. 7). With M_j and (mu0, M0) all free the optimum is
degenerate: M0 runs off, every mu_j equals mu0 and variants hide in small M_j. So log M_j has
a normal prior whose mean is global, or one M is shared, and M0 has a cap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import betaln

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.variants.hyperparameters import CAP, beta_maximum
from vbmodels.variants.published import rvd2_kernels as kernels

LIMITS_LOG_M = (0.0, float(np.log(1e7)))
REACH = 1.0


@dataclass(frozen=True)
class Errors(State):
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
class Global(State):
    """A0 = mu0 M0, B0 = (1-mu0) M0, and the mean of log M_j (or log M where it is shared)."""

    a0: float
    b0: float
    log_m: float


@dataclass(frozen=True)
class Local(State):
    """Parameters of q(mu_j), and log M_j; [J] each."""

    delta: FloatArray
    gamma: FloatArray
    log_m: FloatArray


@dataclass(frozen=True)
class Observed(Stats):
    """Locations, summed log rates and their squares, for the start."""

    locations: float
    log_rate: float
    log_rate2: float


@dataclass(frozen=True)
class Sums(Stats):
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
    profile
        [4] with a shared M, q(mu) held: slope and curvature of the bound in log M, and what
        the bound gains at log M - 1 and log M + 1; else empty.
    """

    locations: float
    log_mu: float
    log_nu: float
    bound: float
    log_m: float
    log_m2: float
    profile: FloatArray


@dataclass(frozen=True)
class RVD2:
    """The papers' model; see the module's docstring.

    Parameters
    ----------
    inference
        "collapsed": theta integrated out under q(mu). "mean_field": the text's q(mu) q(theta);
        its sd is too small by about sqrt(1 + M/n).
    dispersion
        "shared": one M. "per_location": log M_j ~ N(mean, sd^2); with strong variants this
        may still end in the degenerate optimum (at 10 % and 4000 reads, 6 of 14 found).
    log_m_sd
        sd of that prior.
    n_nodes
        Nodes of the quadrature over q(mu).
    """

    passes: ClassVar[Any] = kernels
    """The loops over locations."""
    inference: Literal["collapsed", "mean_field"] = "collapsed"
    dispersion: Literal["per_location", "shared"] = "shared"
    log_m_sd: float = 0.5
    n_nodes: int = 32

    def __post_init__(self) -> None:
        if self.inference not in ("collapsed", "mean_field"):
            raise ValueError(
                f"expected inference 'collapsed' or 'mean_field', got {self.inference!r}"
            )
        if self.dispersion not in ("per_location", "shared"):
            raise ValueError(
                f"expected dispersion 'per_location' or 'shared', got {self.dispersion!r}"
            )

    @property
    def shared(self) -> bool:
        """Whether one M serves all locations."""
        return self.dispersion == "shared"

    def observe(self, batch: Errors) -> Observed:
        """Return moments of log((r + .5) / (n + 1)) over locations with reads."""
        n = batch.n.sum(axis=1)
        rate = np.log((batch.r.sum(axis=1) + 0.5) / (n + 1.0))[n > 0]
        return Observed(float(rate.size), float(rate.sum()), float((rate**2).sum()))

    def init(self, observed: Observed, rng: np.random.Generator) -> Global:
        """Return the start: a Beta with A0 = 1 at the mean rate, M = 2000; no randomness."""
        mean = observed.log_rate / observed.locations if observed.locations else np.log(1e-3)
        rate = float(np.clip(np.exp(mean), 1e-6, 0.5))
        return Global(a0=1.0, b0=(1.0 - rate) / rate, log_m=float(np.log(2000.0)))

    def _prior(self, q: Global) -> tuple[float, float, float, float]:
        return q.a0, q.b0, q.log_m, 0.0 if self.shared else self.log_m_sd**-2

    def local_step(self, q: Global, batch: Errors, local: Local | None) -> Local:
        """Return the maximum of the bound in (delta_j, gamma_j, M_j), by Newton's method."""
        if local is None:
            local = _first_local(q, batch)
        log_m = np.full_like(local.log_m, q.log_m) if self.shared else local.log_m
        start = np.stack([np.log(local.delta), np.log(local.gamma), log_m], axis=1)
        found = self.passes.newton(
            batch.r,
            batch.n,
            start,
            np.array(self._prior(q)),
            self.inference == "mean_field",
            self.shared,
            self.n_nodes,
        )
        return Local(np.exp(found[:, 0]), np.exp(found[:, 1]), found[:, 2].copy())

    def suff_stats(self, q: Global, batch: Errors, local: Local) -> Sums:
        """Return the sums over the locations, and their bound at ``q`` and ``local``."""
        log_m = np.full_like(local.log_m, q.log_m) if self.shared else local.log_m
        found: FloatArray = self.passes.sums(
            batch.r,
            batch.n,
            np.stack([np.log(local.delta), np.log(local.gamma), log_m], axis=1),
            # A flat Beta(1, 1) in place of the prior leaves likelihood and entropy.
            np.array([1.0, 1.0, 0.0, 0.0]),
            self.inference == "mean_field",
            REACH if self.shared else 0.0,
            self.n_nodes,
        ).sum(axis=0)
        return Sums(
            locations=float(len(log_m)),
            log_mu=float(found[1]),
            log_nu=float(found[2]),
            bound=float(found[0] + found[3]),
            log_m=float(log_m.sum()),
            log_m2=float((log_m**2).sum()),
            profile=found[4:].copy(),
        )

    def global_step(self, q: Global, stats: Sums) -> Global:
        """Return (A0, B0) by `beta_maximum` and the mean of log M, or M itself if shared."""
        if stats.locations == 0.0:
            return q
        n, s1, s2 = (np.array([v]) for v in (stats.locations, stats.log_mu, stats.log_nu))
        a0, b0 = beta_maximum(n, s1, s2, (np.array([q.a0]), np.array([q.b0])))
        log_m = stats.log_m / stats.locations
        if self.shared:
            log_m = float(np.clip(q.log_m + _newton_step(stats.profile, REACH), *LIMITS_LOG_M))
        return Global(float(a0[0]), float(b0[0]), log_m)

    def elbo(self, q: Global, stats: Sums) -> float:
        """Return the bound, with the normal prior of log M_j at its point estimate."""
        j = stats.locations
        value = stats.bound - j * float(betaln(q.a0, q.b0))
        value += (q.a0 - 1.0) * stats.log_mu + (q.b0 - 1.0) * stats.log_nu
        if not self.shared:
            spread = stats.log_m2 - 2.0 * q.log_m * stats.log_m + j * q.log_m**2
            value -= 0.5 * spread / self.log_m_sd**2
            value -= j * float(np.log(self.log_m_sd * np.sqrt(2.0 * np.pi)))
        return value

    def to_vector(self, q: Global) -> FloatArray:
        """Return (log A0, log B0, log M)."""
        return np.array([np.log(q.a0), np.log(q.b0), q.log_m])

    def from_vector(self, q: Global, vector: FloatArray) -> Global:
        """Return the global parameters at these coordinates, cut to their ranges."""
        over = max(float(np.logaddexp(vector[0], vector[1])) - float(np.log(CAP)), 0.0)
        a0, b0 = np.exp(np.clip(vector[:2] - over, -30.0, None))
        return Global(float(a0), float(b0), float(np.clip(vector[2], *LIMITS_LOG_M)))

    def caps_hit(self, q: Global, local: Local | None = None) -> list[str]:
        """Name the parameters that stand at a limit of their range."""
        found = [f"M0 = {CAP:.0g}"] if q.a0 + q.b0 >= CAP * (1 - 1e-9) else []
        if min(abs(q.log_m - limit) for limit in LIMITS_LOG_M) < 1e-9:
            found.append(f"log M = {q.log_m:.3g}")
        if local is not None:
            at = [np.abs(local.log_m - limit) < 1e-9 for limit in LIMITS_LOG_M]
            if np.any(at):
                found.append(f"M_j at a limit at {int((at[0] | at[1]).sum())} locations")
        return found


def _first_local(q: Global, batch: Errors) -> Local:
    m = np.exp(q.log_m)
    weight = (m + 1.0) / (m + batch.n)
    hits = (weight * batch.r).sum(axis=1)
    rest = (weight * (batch.n - batch.r)).sum(axis=1)
    return Local(q.a0 + hits, q.b0 + rest, np.full(len(hits), q.log_m))


def _newton_step(profile: FloatArray, reach: float) -> float:
    """Return where within ``reach`` the bound is largest, by its values at both ends.

    The quartic with the bound's slope and curvature at 0 and its gains at the ends: at small
    steps it is Newton's, at large ones the ends guard it against a curvature that changes
    or points upwards.
    """
    slope, bend, low, high = profile
    third = (0.5 * (high - low) - slope * reach) / reach**3
    fourth = (0.5 * (high + low) - 0.5 * bend * reach**2) / reach**4
    gain = Polynomial([0.0, slope, 0.5 * bend, third, fourth])
    flat = gain.deriv().roots()
    inner = flat[np.isreal(flat)].real
    tried = np.array([0.0, -reach, reach, *inner[np.abs(inner) < reach]])
    return float(tried[int(np.argmax(gain(tried)))])
