"""Slice sampling for RVD2: the posterior itself, and the papers' test by its draws.

The target, at given (A0, B0) and prior of log M, has theta integrated out; x_j = logit mu_j,
l_j = log M_j:

    log p(x, l | r) = A0 log mu + B0 log(1-mu) - (l - log_m)^2 / (2 sd^2)
        + sum_i log [B(r_i + M mu, n_i - r_i + M (1-mu)) / B(M mu, M (1-mu))] + constant

One sweep updates every l_j, then every x_j, by an exact slice update (Neal 2003, figures 3 and
5): a level u below the log density at the present point, an interval around it that is widened
until both of its ends lie below u, then draws from the interval, which shrinks to every draw
below u, until one lies above. Nothing is ever refused, no step has to fit, and long tails
(exp(A0 x)) only cost more steps to widen. Were theta drawn too, mixing would take about
1 + M/n times longer. Widths adapt in the warm-up only, so the kept draws come from one fixed
kernel.

The likelihood must keep its digits at any M that an early sweep may visit (`log_rising`): with
the difference of two log Gammas the rounding at M = 1e18 outweighs the prior, and a chain that
comes there never leaves.

The test (`sample_rates`, `exceedance`) holds the hyperparameters at those of a fit. Unlike
`posterior_difference.compare` nothing is a Beta by assumption, and M_j is integrated out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from vbmodels.core.draws import Schedule, diagnose
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.quadrature import log_beta_binomial, log_mu
from vbmodels.variants.rvd2.model import Errors, Global

WIDEST = 200
"""Most widths of an interval: far more than any adapted one needs."""
WIDTHS = 4.0
"""Widths are this many mean distances from draw to draw: 4/3 of a slice's length."""

Density = Callable[[FloatArray, FloatArray, IntArray], FloatArray]


@dataclass(frozen=True)
class Draws:
    """Kept draws.

    Attributes
    ----------
    logit_mu, log_m
        [chain, draw, J].
    evaluations
        Evaluations of the density of a location for one kept draw, on average.
    """

    logit_mu: FloatArray
    log_m: FloatArray
    evaluations: float


def gibbs(
    batch: Errors,
    q: Global,
    rng: np.random.Generator,
    *,
    log_m_sd: float = 0.5,
    chains: int = 4,
    warmup: int = 200,
    draws: int = 1000,
    thin: int = 1,
) -> Draws:
    """Sample mu_j and log M_j from the integrand of eqs 2, 3, at given hyperparameters.

    Parameters
    ----------
    batch
        The reads.
    q
        A0, B0 and the mean of log M.
    rng
        Source of randomness; one stream serves all chains and locations.
    log_m_sd
        sd of log M_j; 0 holds all M_j at exp(q.log_m).
    chains, warmup, draws, thin
        Chains (from over-dispersed starts), sweeps thrown away, draws kept of each, and sweeps
        for each of them.
    """
    schedule = Schedule(warmup, draws, thin)
    r, n = np.tile(batch.r, (chains, 1)), np.tile(batch.n, (chains, 1))
    count, free = len(r), log_m_sd > 0.0
    pooled = (r.sum(axis=1) + q.a0) / (n.sum(axis=1) + q.a0 + q.b0)
    spread = rng.standard_normal((2, count))
    state = np.stack(
        [np.log(pooled) - np.log1p(-pooled) + spread[0], q.log_m + log_m_sd * spread[1]]
    )
    width = np.stack([np.ones(count), np.full(count, log_m_sd)])
    sampled = np.empty((2, draws, count))
    evaluations = 0

    def log_density(x: FloatArray, log_m: FloatArray, rows: IntArray) -> FloatArray:
        nonlocal evaluations
        evaluations += len(rows)
        l1, l2 = log_mu(x)
        reads = log_beta_binomial(r[rows], n[rows], x[:, None], np.exp(log_m)[:, None])
        value: FloatArray = reads.sum(axis=1) + q.a0 * l1 + q.b0 * l2
        return value - 0.5 * ((log_m - q.log_m) / log_m_sd) ** 2 if free else value

    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # see `_slice`
        level = log_density(state[0], state[1], np.arange(count))
        if not np.isfinite(level).all():
            j = int(np.flatnonzero(~np.isfinite(level))[0]) % len(batch.r)
            raise ValueError(
                f"expected a finite posterior density at A0 = {q.a0}, B0 = {q.b0} and log M = "
                f"{q.log_m}, got none at location {j}: {batch.r[j]} of {batch.n[j]} reads"
            )
        for sweep in range(schedule.sweeps):
            gain = 0.0 if sweep >= warmup else 1.0 / (1.0 + sweep) ** 0.6
            if sweep == warmup:
                evaluations = 0
            for which in (1, 0) if free else (0,):
                step, level = _slice(rng, log_density, state, which, level, width[which])
                state[which] += step
                width[which] += gain * (WIDTHS * np.abs(step) - width[which])
                np.maximum(width, 1e-6, out=width)
            slot = schedule.slot(sweep)
            if slot is not None:
                sampled[:, slot] = state
    logit_mu, log_m = sampled.reshape(2, draws, chains, -1).swapaxes(1, 2)
    return Draws(logit_mu, log_m, evaluations / (draws * count))


def _slice(
    rng: np.random.Generator,
    log_density: Density,
    state: FloatArray,
    which: int,
    level: FloatArray,
    width: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Update one coordinate of every row; return the steps and the log densities after them.

    Parameters
    ----------
    state
        [2, K] points.
    which
        The coordinate to update.
    level
        [K] log density at the points.
    width
        [K] width of the interval that is widened.

    Notes
    -----
    A density that is no number (M = 0 or infinite, beyond any prior) lies below every level.
    """

    def inside(step: FloatArray, rows: IntArray) -> tuple[BoolArray, FloatArray]:
        point = state[:, rows]
        point[which] += step
        densities = log_density(point[0], point[1], rows)
        return densities > lowest[rows], densities

    count = len(level)
    lowest = level - rng.standard_exponential(count)
    below = -width * rng.random(count)
    end = np.concatenate([below, below + width])
    stride = np.concatenate([-width, width])
    # At most WIDEST widths on both sides together, shared out at random (Neal, figure 3).
    left = np.floor(WIDEST * rng.random(count))
    allowed = np.concatenate([left, WIDEST - 1.0 - left])
    ends = np.arange(2 * count)
    while ends.size:
        ends = ends[inside(end[ends], ends % count)[0] & (allowed[ends] > 0.0)]
        end[ends] += stride[ends]
        allowed[ends] -= 1.0
    low, high = end[:count], end[count:]
    step, after = np.zeros(count), level.copy()
    rows = np.arange(count)
    while rows.size:
        trial = low[rows] + (high[rows] - low[rows]) * rng.random(rows.size)
        good, densities = inside(trial, rows)
        step[rows[good]], after[rows[good]] = trial[good], densities[good]
        rows, trial = rows[~good], trial[~good]
        low[rows] = np.where(trial < 0.0, trial, low[rows])
        high[rows] = np.where(trial < 0.0, high[rows], trial)
    return step, after


LEVELS = (0.025, 0.05, 0.95, 0.975)


@dataclass(frozen=True)
class Sampler:
    """How much is drawn.

    Attributes
    ----------
    chains, warmup, draws, thin
        Chains, sweeps of each that are thrown away, draws kept of each, and sweeps for each of
        them.
    log_m_sd
        sd of log M_j; 0 holds all M_j at exp(q.log_m).
    """

    chains: int = 4
    warmup: int = 200
    draws: int = 1000
    thin: int = 1
    log_m_sd: float = 0.0


@dataclass(frozen=True)
class Rates:
    """One sample's rates mu_j by their draws.

    Attributes
    ----------
    draws
        [draw, J] of all chains.
    moments
        [J, 6] mean, sd, and the quantiles at `LEVELS`.
    r_hat, ess
        [J] the largest R-hat and the smallest effective number of draws of logit mu_j and, where
        it is drawn, log M_j.
    """

    draws: FloatArray
    moments: FloatArray
    r_hat: FloatArray
    ess: FloatArray


def sample_rates(batch: Errors, q: Global, rng: np.random.Generator, sampler: Sampler) -> Rates:
    """Draw the rates of one sample.

    Parameters
    ----------
    batch
        The reads of J locations.
    q
        The sample's hyperparameters.
    rng
        Source of randomness; one stream serves all J locations.
    sampler
        How much is drawn.
    """
    draws = gibbs(
        batch,
        q,
        rng,
        log_m_sd=sampler.log_m_sd,
        chains=sampler.chains,
        warmup=sampler.warmup,
        draws=sampler.draws,
        thin=sampler.thin,
    )
    mu = expit(draws.logit_mu).reshape(-1, len(batch.r))
    quantiles = np.quantile(mu, LEVELS, axis=0)
    moments = np.stack([mu.mean(axis=0), mu.std(axis=0, ddof=1), *quantiles], axis=1)
    r_hat, ess = _mixing(draws, sampler.log_m_sd > 0.0)
    return Rates(mu, moments, r_hat, ess)


def _mixing(draws: Draws, own_dispersion: bool) -> tuple[FloatArray, FloatArray]:
    drawn = [draws.logit_mu, draws.log_m] if own_dispersion else [draws.logit_mu]
    seen = [diagnose(d) for d in drawn]
    return (
        np.fmax.reduce([s.r_hat for s in seen]),
        np.minimum.reduce([s.ess_bulk for s in seen]),
    )


def exceedance(case: FloatArray, control: FloatArray, tau: float) -> FloatArray:
    """Return P(X - Y > tau) over all pairs of independent draws [draw, J] of X and Y; [J].

    >>> exceedance(np.array([[0.1], [0.3]]), np.array([[0.2], [0.0]]), 0.0).tolist()
    [0.75]
    """
    ordered = np.sort(control, axis=0)
    below = [
        np.searchsorted(ordered[:, j], case[:, j] - tau, side="left").mean()
        for j in range(case.shape[1])
    ]
    return np.asarray(below) / len(control)


def log_odds(probability: FloatArray, draws: int) -> FloatArray:
    """Return log odds of shares of draws, none beyond what so many draws can show.

    A share p of S draws is kept within 1 / (S + 1) of 0 and 1: where all draws agree, the
    posterior probability is known to lie there, not to be 1.
    """
    least = 1.0 / (draws + 1.0)
    p = np.clip(probability, least, 1.0 - least)
    return np.asarray(np.log(p) - np.log1p(-p))
