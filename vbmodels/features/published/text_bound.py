"""The IBP with multinomial-logit observations by the text's own bound (section 4), corrected.

Category r of column d has weights b^d_0r, b^d_kr ~ N(0, sigma_B^2) and
p(x_nd = r) ∝ exp(b^d_0r + z_n . b^d_r) (eq 10). With q(b) = N(phi, sigma^2),
E_kr = exp(phi_kr + sigma^2_kr / 2) and

    P_nr = E_0r prod_k (1 - nu_nk + nu_nk E_kr),

each cell costs log sum_r P_nr (eq 40 at its best xi, eq 26). The text's eq 24 has the sign of
its likelihood part wrong; the derivative of the bound is

    logit nu_nk = prior + sum_d (phi_k x_nd - xi_nd sum_r P_nr^(without k) (E_kr - 1)).

Given all of that at one point, one reduce brings the gradient and the packed curvature of
T = sum_n xi_nd P_nr in u = phi + sigma^2 / 2, jointly over k: a Newton step in (phi, log sigma^2)
of each category on the driver. -T is concave in u; a step that would lower the bound is halved.

The softmax has a free direction. ``gauge="pinned"`` holds each column's most frequent category
at 0 and doubles the variance of the others (for two categories the same model, exactly).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from vbmodels.core import linalg
from vbmodels.core.cavi import evaluated
from vbmodels.core.protocol import Cursor, Reduce, Step
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.features.batch import FeatureBatch, bearable
from vbmodels.features.published.softmax_cells import cells_of, indicators, log_totals, normalised
from vbmodels.features.published.text_newton import newton_step
from vbmodels.features.sticks import bound_log_off, fit_sticks, mean_log_on, stick_bound

BLOCK = 256
LARGEST_LOGIT = 35.0
LARGEST_U = 30.0
"""|phi + sigma^2 / 2| stays within."""
HALVINGS = 12


@dataclass(frozen=True)
class TextGlobal(State):
    """Global parameters; L categories of all columns stand side by side.

    Parameters
    ----------
    phi, log_variance
        [L, K + 1] q(b_0r), q(b_kr); the latter is log sigma^2.
    levels
        [D] categories of each column.
    tau, alpha
        Sticks [K, 2] and concentration.
    variance
        sigma_B^2.
    share, n_rows
        [K] share of the rows with nu > 1/2, and N.
    size
        Length of the weights' last Newton step, as a part of the whole.
    """

    phi: FloatArray
    log_variance: FloatArray
    levels: IntArray
    tau: FloatArray
    alpha: float
    variance: float
    share: FloatArray
    n_rows: float
    size: float


@dataclass(frozen=True)
class TextLocal(State):
    """nu [U, K]."""

    nu: FloatArray


@dataclass(frozen=True)
class LevelCounts(Stats):
    """N and how often each category occurs [L]; ``levels`` is summed with ``parts``."""

    n_rows: float
    counts: FloatArray
    levels: IntArray
    parts: int


@dataclass(frozen=True)
class TextStats(Stats):
    """Additive statistics.

    Parameters
    ----------
    n_rows, on, likely
        N, [K] expected rows and [K] likely rows with each feature.
    linear
        [L, K + 1] sum of E[z_n] (with a leading 1) over the cells of each category.
    slope
        [L, K + 1] derivative of T in u.
    curvature
        [L, (K + 1)(K + 2) / 2] second derivative of T in u, packed.
    bound
        Entropy of z minus log sum_r P_nr over the cells.
    """

    n_rows: float
    on: FloatArray
    likely: FloatArray
    linear: FloatArray
    slope: FloatArray
    curvature: FloatArray
    bound: float


@dataclass(frozen=True)
class TextIBP:
    """The text's variational inference.

    Parameters
    ----------
    n_features
        K, the truncation.
    alpha, sigma2
        Concentration and sigma_B^2 (eqs 2 and 10).
    gauge
        "free" as in the text, or "pinned".
    """

    n_features: int
    alpha: float = 1.0
    sigma2: float = 1.0
    gauge: Literal["free", "pinned"] = "pinned"

    def observe(self, batch: FeatureBatch) -> LevelCounts:
        """Count categories."""
        counts = indicators(batch.codes, batch.levels).T @ batch.count
        return LevelCounts(float(batch.count.sum()), counts, batch.levels, 1)

    def init(self, observed: LevelCounts, rng: np.random.Generator) -> TextGlobal:
        """Biases at the margins, weights drawn around 0."""
        k, levels = bearable(self.n_features, observed.n_rows), observed.levels // observed.parts
        phi = rng.normal(0.0, 0.5, (len(observed.counts), k + 1))
        column = np.repeat(np.arange(len(levels)), levels)
        log_count = np.log(observed.counts + 1.0)
        first = np.concatenate([[0], np.cumsum(levels)[:-1]])
        if self.gauge == "pinned":
            centre = log_count[first]
        else:
            centre = np.bincount(column, log_count) / levels
        phi[:, 0] = log_count - centre[column]
        phi[~self.free(levels)] = 0.0
        on = np.full(k, 0.2 * observed.n_rows)
        tau = np.stack([np.full(k, self.alpha), np.ones(k)], axis=1)
        tau, _ = fit_sticks(on, observed.n_rows, self.alpha, tau, learn_alpha=False)
        return TextGlobal(
            phi=phi,
            log_variance=np.full(phi.shape, math.log(0.1)),
            levels=levels,
            tau=tau,
            alpha=self.alpha,
            variance=self.sigma2,
            share=np.full(k, 0.2),
            n_rows=observed.n_rows,
            size=1.0,
        )

    def free(self, levels: IntArray) -> BoolArray:
        """Return which categories have weights of their own; [L]."""
        free = np.ones(int(levels.sum()), dtype=bool)
        if self.gauge == "pinned":
            free[np.concatenate([[0], np.cumsum(levels)[:-1]])] = False
        return free

    def prior_variance(self, q: TextGlobal) -> float:
        """Return the prior variance of a weight."""
        return q.variance * (2.0 if self.gauge == "pinned" else 1.0)

    def log_mean(self, q: TextGlobal) -> FloatArray:
        """log E_kr = phi + sigma^2 / 2, 0 where pinned; [L, K + 1]."""
        u = q.phi + 0.5 * np.exp(q.log_variance)
        u = np.where(self.free(q.levels)[:, None], u, 0.0)
        return np.clip(u, -LARGEST_U, LARGEST_U)

    def local_step(self, q: TextGlobal, batch: FeatureBatch, local: TextLocal | None) -> TextLocal:
        """Set xi, then nu_nk for k = 1..K in turn, xi anew after each."""
        nu = np.full((len(batch.count), len(q.tau)), 0.5) if local is None else local.nu.copy()
        prior = mean_log_on(q.tau) - bound_log_off(q.tau)
        u = self.log_mean(q)
        rise = np.expm1(u[:, 1:]).T
        for rows in _blocks(len(nu)):
            told, asked = cells_of(batch, rows)
            own = nu[rows]
            pull = prior + told @ q.phi[:, 1:]
            factors = [1.0 + own[:, k, None] * rise[k] for k in range(own.shape[1])]
            log_p = u[:, 0] + sum((np.log(f) for f in factors), np.zeros((1, 1)))
            for k, factor in enumerate(factors):
                rest = log_p - np.log(factor)
                xi_p = normalised(log_p, rest, asked, batch.levels)
                logit = pull[:, k] - (xi_p * rise[k]).sum(1)
                own[:, k] = expit(np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT))
                log_p = rest + np.log(1.0 + own[:, k, None] * rise[k])
        return TextLocal(nu)

    def suff_stats(self, q: TextGlobal, batch: FeatureBatch, local: TextLocal) -> TextStats:
        """Sum gradient and curvature, with xi at its best for ``q`` and ``local``."""
        nu, u = local.nu, self.log_mean(q)
        size = len(q.tau) + 1
        linear, slope = np.zeros(u.shape), np.zeros(u.shape)
        curvature = np.zeros((len(u), size, size))
        bound = -float(batch.count @ (xlogy(nu, nu) + xlog1py(1.0 - nu, -nu)).sum(1))
        mean = np.exp(u[:, 1:])
        for rows in _blocks(len(nu)):
            told, asked = cells_of(batch, rows)
            count, own = batch.count[rows], nu[rows]
            factor = 1.0 + own[:, None, :] * (mean - 1.0)
            log_p = u[:, 0] + np.log(factor).sum(2)
            weight = normalised(log_p, log_p, asked, batch.levels) * count[:, None]
            part = np.concatenate(
                [np.ones((*factor.shape[:2], 1)), own[:, None, :] * mean / factor], axis=2
            )
            scaled = (part * weight[:, :, None]).transpose(1, 2, 0)
            curvature += scaled @ part.transpose(1, 0, 2)
            slope += scaled.sum(2)
            z = np.concatenate([np.ones((len(own), 1)), own], axis=1)
            linear += (told * count[:, None]).T @ z
            bound -= float(count @ log_totals(log_p, batch.levels, asked).sum(1))
        diagonal = np.arange(size)
        curvature[:, diagonal, diagonal] = slope
        return TextStats(
            n_rows=float(batch.count.sum()),
            on=batch.count @ nu,
            likely=batch.count @ (nu > 0.5),
            linear=linear,
            slope=slope,
            curvature=linalg.pack(curvature),
            bound=bound,
        )

    def global_step(self, q: TextGlobal, stats: TextStats) -> TextGlobal:
        """Take ``q.size`` of the joint Newton step of every category, and set the sticks."""
        phi, log_variance = newton_step(
            q.phi,
            q.log_variance,
            stats.linear,
            stats.slope,
            stats.curvature,
            1.0 / self.prior_variance(q),
        )
        size = np.where(self.free(q.levels), q.size, 0.0)[:, None]
        tau, _ = fit_sticks(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=False)
        return replace(
            q,
            phi=q.phi + size * phi,
            log_variance=q.log_variance + size * log_variance,
            tau=tau,
            share=stats.likely / stats.n_rows,
            n_rows=stats.n_rows,
        )

    def elbo(self, q: TextGlobal, stats: TextStats) -> float:
        """Return the bound, eq 43 with eq 42's sign corrected, at ``q`` and the local states."""
        prior = self.prior_variance(q)
        square = q.phi**2 + np.exp(q.log_variance)
        kl = 0.5 * (square / prior - 1.0 - q.log_variance + math.log(prior))
        sticks = stick_bound(stats.on, stats.n_rows, q.alpha, q.tau, learn_alpha=False)
        told = float((stats.linear * np.where(self.free(q.levels)[:, None], q.phi, 0.0)).sum())
        return stats.bound + told + sticks - float(kl[self.free(q.levels)].sum())

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Newton steps, each halved until the bound does not fall; iteration numbers may skip."""
        at = cursor
        while True:
            yield Step.at(at)
            at = self._next(reduce, at)

    def _next(self, reduce: Reduce, at: Cursor) -> Cursor:
        size = min(1.0, 2.0 * at.q.size)
        for halving in range(HALVINGS + 1):
            tried = replace(at.q, size=size if halving < HALVINGS else 0.0)
            moved = self.global_step(tried, at.stats)
            found = evaluated(self, reduce, moved, at.number + 1 + halving, at.number)
            if math.isfinite(found.elbo) and found.elbo >= at.elbo:
                break
            size *= 0.5
        return replace(found, q=replace(found.q, size=max(size, 2.0**-HALVINGS)))


def _blocks(n: int) -> Iterator[slice]:
    return (slice(i, min(i + BLOCK, n)) for i in range(0, n, BLOCK))
