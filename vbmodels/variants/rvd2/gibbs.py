"""Metropolis-within-Gibbs for RVD2: the posterior itself, for the variational forms to meet.

One sweep, at given (A0, B0) and prior of log M:

    log M_j   random walk, theta_j integrated out          (BetaBin likelihood)
    mu_j      random walk on logit mu_j, theta_j integrated out
    theta_ji  Beta(r_ji + M_j mu_j, n_ji - r_ji + M_j (1-mu_j)), exactly
    mu_j      random walk on logit mu_j given theta_j, the papers' step

Moves with theta integrated out are valid because theta is drawn anew right after them (a
blocked update); without them mixing takes about 1 + M/n times longer. Step sizes adapt in
the burn-in only, so the kept draws come from one fixed kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, expit

from vbmodels.state import FloatArray
from vbmodels.variants.quadrature import log_beta_binomial, log_mu
from vbmodels.variants.rvd2.model import Errors, Global


@dataclass(frozen=True)
class Draws:
    """Kept draws.

    Attributes
    ----------
    logit_mu, log_m
        [chain, draw, J].
    acceptance
        [3] shares of accepted moves: log M, mu blocked, mu given theta.
    """

    logit_mu: FloatArray
    log_m: FloatArray
    acceptance: FloatArray


def gibbs(
    batch: Errors,
    q: Global,
    rng: np.random.Generator,
    *,
    log_m_sd: float = 0.5,
    chains: int = 4,
    burn_in: int = 1000,
    draws: int = 2000,
    thin: int = 1,
) -> Draws:
    """Sample mu_j and log M_j at given hyperparameters.

    Parameters
    ----------
    batch
        The reads.
    q
        A0, B0 and the mean of log M.
    rng
        Source of randomness.
    log_m_sd
        sd of log M_j; 0 holds all M_j at exp(q.log_m).
    chains, burn_in, draws, thin
        Chains (from over-dispersed starts), sweeps left out, draws kept of each, and sweeps
        between kept draws.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # where M mu underflows; see `_accept`
        runs = [
            _chain(batch, q, seed, log_m_sd, burn_in, draws, thin) for seed in rng.spawn(chains)
        ]
    return Draws(
        np.stack([run[0] for run in runs]),
        np.stack([run[1] for run in runs]),
        np.mean([run[2] for run in runs], axis=0),
    )


def _chain(
    batch: Errors,
    q: Global,
    rng: np.random.Generator,
    log_m_sd: float,
    burn_in: int,
    draws: int,
    thin: int,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r, n = batch.r, batch.n
    count = len(r)
    pooled = (r.sum(axis=1) + q.a0) / (n.sum(axis=1) + q.a0 + q.b0)
    x = np.log(pooled) - np.log1p(-pooled) + rng.standard_normal(count)
    log_m = q.log_m + log_m_sd * rng.standard_normal(count)
    log_step = np.zeros((3, count))
    accepted = np.zeros(3)
    kept_x, kept_m = np.empty((draws, count)), np.empty((draws, count))

    def prior(x: FloatArray) -> FloatArray:
        # The Jacobian of logit turns the exponents A0 - 1, B0 - 1 into A0, B0.
        l1, l2 = log_mu(x)
        return np.asarray(q.a0 * l1 + q.b0 * l2)

    def blocked(x: FloatArray, log_m: FloatArray) -> FloatArray:
        m = np.exp(log_m)[:, None]
        value: FloatArray = log_beta_binomial(r, n, x[:, None], m).sum(axis=1) + prior(x)
        if log_m_sd > 0.0:
            value -= 0.5 * ((log_m - q.log_m) / log_m_sd) ** 2
        return value

    for sweep in range(burn_in + draws * thin):
        gain = 0.0 if sweep >= burn_in else 1.0 / (1.0 + sweep) ** 0.6
        if log_m_sd > 0.0:
            moved = log_m + np.exp(log_step[0]) * rng.standard_normal(count)
            hit = _accept(rng, blocked(x, moved) - blocked(x, log_m), log_step[0], gain)
            log_m = np.where(hit, moved, log_m)
            accepted[0] += hit.mean() if gain == 0.0 else 0.0
        moved = x + np.exp(log_step[1]) * rng.standard_normal(count)
        hit = _accept(rng, blocked(moved, log_m) - blocked(x, log_m), log_step[1], gain)
        x = np.where(hit, moved, x)
        accepted[1] += hit.mean() if gain == 0.0 else 0.0
        m = np.exp(log_m)[:, None]
        log_theta, log_rest = _log_beta_draw(
            rng, r + m * expit(x)[:, None], n - r + m * expit(-x)[:, None]
        )

        def given_theta(
            x: FloatArray, m: FloatArray = m, lt: FloatArray = log_theta, lr: FloatArray = log_rest
        ) -> FloatArray:
            a, b = m * expit(x)[:, None], m * expit(-x)[:, None]
            return np.asarray((a * lt + b * lr - betaln(a, b)).sum(axis=1) + prior(x))

        moved = x + np.exp(log_step[2]) * rng.standard_normal(count)
        hit = _accept(rng, given_theta(moved) - given_theta(x), log_step[2], gain)
        x = np.where(hit, moved, x)
        accepted[2] += hit.mean() if gain == 0.0 else 0.0
        at, left_over = divmod(sweep - burn_in, thin)
        if sweep >= burn_in and left_over == 0:
            kept_x[at], kept_m[at] = x, log_m
    return kept_x, kept_m, accepted / (draws * thin)


def _accept(
    rng: np.random.Generator, log_ratio: FloatArray, log_step: FloatArray, gain: float
) -> np.ndarray:
    """Accept with probability min(1, ratio); move the log step towards 44 % acceptance."""
    # No number where a density is 0 at both ends: such a move is not made.
    log_ratio = np.where(np.isnan(log_ratio), -np.inf, log_ratio)
    chance = np.exp(np.minimum(log_ratio, 0.0))
    log_step += 3.0 * gain * (chance - 0.44)
    return rng.random(len(log_ratio)) < chance


def _log_beta_draw(
    rng: np.random.Generator, a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return log theta and log(1-theta), theta ~ Beta(a, b), also where theta underflows.

    log Gamma(a) draws by log Gamma(a + 1) draws plus log(U) / a.
    """
    ga = np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential(a.shape) / a
    gb = np.log(rng.standard_gamma(b + 1.0)) - rng.standard_exponential(b.shape) / b
    total = np.logaddexp(ga, gb)
    return ga - total, gb - total
