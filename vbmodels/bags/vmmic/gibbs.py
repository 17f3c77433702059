"""MICProB's Gibbs sampler for any number of modalities, with joint draws of (delta, U).

Given the globals t and the indicators delta a sweep draws

    y*_i ~ N(mu_i, 1) on the label's side,     mu_i = alpha + f_i w + sum_j delta_ij s_ij
    delta_ij ~ Bernoulli, U_ij integrated out, one instance of a bag after another:
        logit = log Phi(eta) - log Phi(-eta) + s (y*_i - mu_i + delta_ij s) - s^2 / 2
    U_ij | delta_ij ~ TN+-(eta_ij, 1)
    theta ~ N(V sum y* r, V),        V^-1 = L0 + sum r r',  r_i = (1, f_i, sum delta x)
    (a_k, b_k) ~ N(V_k sum U (1, x), V_k),   V_k^-1 = L + sum (1, x)(1, x)'

The text draws U given delta and delta given U, which determine one another: such a chain
stands still (its own B.1.9 and B.1.10 carry that over). A partition draws the local
variables with numbers of its own, spawned from the seed, the sweep, the chain and the
partition's id; the driver draws the globals.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from scipy.special import expit, log_ndtr

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic import likelihood_kernels as kernels
from vbmodels.bags.vmmic.layout import Observed, Scaling
from vbmodels.bags.vmmic.local import Rows, log_odds
from vbmodels.bags.vmmic.mean_field import FIXED
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import draw
from vbmodels.core.draws import Schedule
from vbmodels.core.linalg import solve_lower
from vbmodels.core.special import truncated_draw
from vbmodels.core.state import FloatArray, State, Stats

DRIVER = 2**32 - 1
"""In the place of a partition's id for what the driver draws."""


@dataclass(frozen=True)
class Chains(State, kind="bags/vmmic.Chains"):
    """The chains' globals after a sweep, and the draws kept so far.

    Attributes
    ----------
    t
        Present globals, [C, dim].
    grams
        sum (1, x)(1, x)' over scaled instances, of each modality.
    sweep
        Number of this sweep, from 0.
    kept
        Draws of t, [C, S, dim], every ``thin``-th after the warm-up.
    """

    scaling: Scaling
    t: FloatArray
    grams: tuple[FloatArray, ...]
    seed: int
    sweep: int
    kept: FloatArray

    def draws(self, count: int = 256) -> FloatArray:
        """Return about ``count`` kept draws of t, spread evenly over chains and sweeps."""
        every: FloatArray = self.kept.reshape(-1, self.t.shape[1])
        if not len(every):
            every = self.t
        chosen = np.linspace(0, len(every) - 1, min(count, len(every))).astype(int)
        return np.asarray(every[chosen])

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation of t, [dim] each."""
        every: FloatArray = self.kept.reshape(-1, self.t.shape[1])
        return np.asarray(every.mean(axis=0)), np.asarray(every.std(axis=0))


@dataclass(frozen=True)
class Indicators(State, kind="bags/vmmic.Indicators"):
    """delta of one partition's instances, [C, N_k] for each modality."""

    delta: tuple[NDArray[np.bool_], ...]


@dataclass(frozen=True)
class Draws(Stats, kind="bags/vmmic.Draws"):
    """Sums over a partition's bags, a chain a row.

    Attributes
    ----------
    outer
        sum r r', [C, T, T].
    label
        sum y* r, [C, T].
    latent
        sum U (1, x), [C, 1 + D_k].
    log_likelihood
        sum log Phi(s_i mu_i), [C], given the indicators.
    """

    outer: FloatArray
    label: FloatArray
    latent: tuple[FloatArray, ...]
    log_likelihood: FloatArray


@dataclass(frozen=True)
class GibbsVMMIC:
    """Sample vMMIC's posterior, as MICProB does of one modality (section 2.1).

    Parameters
    ----------
    priors
        Priors of the global parameters, with variances that are given.
    standardise
        Whether features are brought to mean 0 and standard deviation 1.
    chains
        Independent chains.
    warmup, draws, thin
        Sweeps thrown away, draws kept of each chain, and sweeps for each of them.
    start_sd
        Standard deviation of the chains' starts around 0.
    """

    priors: Priors = field(default_factory=lambda: FIXED)
    standardise: bool = True
    chains: int = 4
    warmup: int = 500
    draws: int = 500
    thin: int = 1
    start_sd: float = 0.1
    objective: ClassVar[str] = "log likelihood"

    @property
    def schedule(self) -> Schedule:
        """The sweeps of each chain."""
        return Schedule(self.warmup, self.draws, self.thin)

    def observe(self, batch: Bags) -> Observed:
        """Return the scaling's moments; they hold sum x x' of every modality too."""
        return Observed.of(batch)

    def init(self, observed: Observed, rng: np.random.Generator) -> Chains:
        """Start every chain near 0."""
        scaling = observed.scaling(self.standardise)
        layout = scaling.layout
        observed.refuse_hopeless()
        return Chains(
            scaling=scaling,
            t=self.start_sd * rng.standard_normal((self.chains, layout.dim)),
            grams=observed.grams(scaling),
            seed=int(rng.integers(2**62)),
            sweep=0,
            kept=np.empty((self.chains, 0, layout.dim)),
        )

    def local_step(self, q: Chains, batch: Bags, local: Indicators | None) -> Indicators:
        """Draw y* and then delta, with U integrated out, of every chain."""
        rows = Rows.of(batch, q.scaling)
        chains = []
        for c, t in enumerate(q.t):
            rng = self._rng(q, c, batch.partition)
            before = None if local is None else tuple(d[c] for d in local.delta)
            chains.append(_draw_indicators(rows, t, before, rng))
        return Indicators(tuple(np.array(d) for d in zip(*chains, strict=True)))

    def suff_stats(self, q: Chains, batch: Bags, local: Indicators) -> Draws:
        """Draw U given delta and y* again given delta, and sum what the globals need."""
        rows = Rows.of(batch, q.scaling)
        sums = []
        for c, t in enumerate(q.t):
            rng = self._rng(q, len(q.t) + c, batch.partition)
            sums.append(_draw_sums(rows, t, tuple(d[c] for d in local.delta), rng))
        outer, label, latent, values = zip(*sums, strict=True)
        by_modality = tuple(np.array(x) for x in zip(*latent, strict=True))
        return Draws(np.array(outer), np.array(label), by_modality, np.array(values))

    def global_step(self, q: Chains, stats: Draws) -> Chains:
        """Draw theta and every (a_k, b_k) given the local variables; keep the draw."""
        layout = q.scaling.layout
        prior = self.priors.precision(layout)
        theta = slice(0, layout.n_theta)
        t = np.empty_like(q.t)
        for c in range(len(t)):
            rng = self._rng(q, c, DRIVER)
            t[c, theta] = _draw(np.diag(prior[theta]) + stats.outer[c], stats.label[c], rng)
            for k, gram in enumerate(q.grams):
                part = layout.gates[k]
                t[c, part] = _draw(np.diag(prior[part]) + gram, stats.latent[k][c], rng)
        sampled = q.kept
        if self.schedule.slot(q.sweep) is not None:
            sampled = np.concatenate([sampled, t[:, None]], axis=1)
        return replace(q, t=t, sweep=q.sweep + 1, kept=sampled)

    def elbo(self, q: Chains, stats: Draws) -> float:
        """Return the chains' mean log likelihood given their indicators; it is no bound."""
        return float(stats.log_likelihood.mean())

    def posterior(self, q: Chains) -> Chains:
        """Return the chains: they are draws already."""
        return q

    def algorithm(self, q: Chains) -> Algorithm:
        """Sweep until all draws have been made."""
        return draw(self, q, lambda q: q.kept.shape[1] >= self.draws)

    def without_draws(self, q: Chains) -> Chains:
        """Return what a sweep needs."""
        return replace(q, kept=q.kept[:, :0])

    def _rng(self, q: Chains, chain: int, partition: int) -> np.random.Generator:
        return np.random.default_rng([q.seed, q.sweep, chain, partition])


def _draw(precision: FloatArray, linear: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw from N(precision^-1 linear, precision^-1)."""
    factor = cholesky(precision, lower=True)
    half = solve_lower(factor, linear[:, None])[:, 0] + rng.standard_normal(linear.size)
    return solve_lower(factor, half[:, None], transposed=True)[:, 0]


def _truncated(
    mean: FloatArray, positive: NDArray[np.bool_], rng: np.random.Generator
) -> FloatArray:
    """Draw from N(mean, 1) cut to the positive or the negative side."""
    side = np.where(positive, 1.0, -1.0)
    return truncated_draw(mean, side, -rng.standard_exponential(mean.size))


def _linear(rows: Rows, t: FloatArray, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    layout = rows.scaling.layout
    x = rows.features(k)
    gate = t[layout.gates[k]]
    return x, gate[0] + x @ gate[1:], x @ t[layout.slopes[k]]


def _draw_indicators(
    rows: Rows,
    t: FloatArray,
    before: tuple[NDArray[np.bool_], ...] | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], ...]:
    data, layout = rows.data, rows.scaling.layout
    terms = [_linear(rows, t, k) for k in range(len(data.modalities))]
    if before is None:
        before = tuple(rng.random(eta.size) < expit(log_odds(eta)) for _, eta, _ in terms)
    mu = rows.design(tuple(d.astype(float) for d in before)) @ t[: layout.n_theta]
    residual = _truncated(mu, data.sign > 0.0, rng) - mu
    after = []
    for part, (_, eta, s), old in zip(data.modalities, terms, before, strict=True):
        odds, uniform, delta = log_odds(eta) - 0.5 * s**2, rng.random(eta.size), old.copy()
        kernels.draw_indicators(part.offsets, odds, s, uniform, residual, delta)
        after.append(delta)
    return tuple(after)


def _draw_sums(
    rows: Rows, t: FloatArray, delta: tuple[NDArray[np.bool_], ...], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, ...], float]:
    data, layout = rows.data, rows.scaling.layout
    r = rows.design(tuple(d.astype(float) for d in delta))
    mu = r @ t[: layout.n_theta]
    label = _truncated(mu, data.sign > 0.0, rng)
    latent = []
    for k in range(len(data.modalities)):
        x, eta, _ = _linear(rows, t, k)
        u = _truncated(eta, delta[k], rng)
        latent.append(np.concatenate([[u.sum()], x.T @ u]))
    return r.T @ r, r.T @ label, tuple(latent), float(log_ndtr(data.sign * mu).sum())
