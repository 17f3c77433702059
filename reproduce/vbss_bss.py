"""BSS, the Bayesian semi-supervised model before VBSS, and the prior of its importance.

As the dissertation describes it (sections 1.1 and 1.2, after Wang et al. 2023): importance
theta has TextRank's scores as prior mean and enters a logistic regression directly,

    y*_i ~ Bernoulli(p_i),  logit p_i = theta_i;   P(y_i = 1 | y*_i) = (1 - alpha) y*_i
    theta ~ N(theta_0, sigma^2 (B'B)^-1),  B = I - d G',  G = D^-1 A,  theta_0 = (1 - d) B^-1 1
    1/sigma^2 ~ Gamma(tau, tau);   alpha ~ Beta

so theta_0 knows no label: labels enter by the likelihood only. Its authors walk at random over
theta and maximise over alpha inside the chain; here alpha has a prior.

The prior of sigma^2 is cut at exp(`MOST_LOG_VARIANCE`). Once every theta is far from 0 the
likelihood no longer changes with sigma, so the posterior of ln sigma^2 falls like
exp(-tau ln sigma^2), over a thousand units at tau = .001: uncut it leaves the range of numbers.

Every conditional is drawn exactly: with omega_i ~ PG(1, theta_i), theta is normal with
precision diag(omega) + B'B / sigma^2. As sigma hardly moves while theta is held, each sweep
adds Metropolis moves of (ln sigma, logit alpha) with y* summed out and (theta - theta_0)/sigma
held instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaincc, gammainccinv, log_expit, logit

from reproduce.keyword_documents import textrank
from reproduce.polya_gamma import draw_polya_gamma
from reproduce.vbss_gibbs import Sampled
from vbmodels.core.draws import Schedule
from vbmodels.core.state import BoolArray, FloatArray

MOST_LOG_VARIANCE = 20.0
MOVES = 4
"""Metropolis moves of a sweep."""


@dataclass(frozen=True)
class BSS:
    """The hyperparameters.

    Parameters
    ----------
    damping
        d, between 0 and 1.
    tau
        1/sigma^2 ~ Gamma(tau, rate tau), given that ln sigma^2 <= `MOST_LOG_VARIANCE`.
    alpha_prior
        Parameters of the Beta prior on alpha, the probability that a keyword is not observed.
    """

    damping: float = 0.85
    tau: float = 0.001
    alpha_prior: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if not 0.0 < self.damping < 1.0:
            raise ValueError(f"damping must lie between 0 and 1, found {self.damping}")
        if not (self.tau > 0.0 and min(self.alpha_prior) > 0.0):
            raise ValueError(
                f"tau and alpha_prior must be positive, found {self.tau} and {self.alpha_prior}"
            )


def prior_field(adjacency: FloatArray, damping: float) -> tuple[FloatArray, FloatArray]:
    """Return theta_0 [n] and B'B [n, n] with B = I - d G'; an isolated word has a row of I."""
    degree = adjacency.sum(axis=1)
    g = adjacency / np.where(degree > 0.0, degree, 1.0)[:, None]
    b = np.eye(len(g)) - damping * g.T
    return textrank(adjacency, damping), b.T @ b


@dataclass(frozen=True)
class BSSDraws(Sampled):
    """Draws from the posterior of one document, C chains of S draws.

    Parameters
    ----------
    theta
        [C, S, n].
    sigma2, alpha
        [C, S].
    r
        [C, S, n] P(y*_i = 1 | y_i, the draw's theta and alpha).
    """

    theta: FloatArray
    sigma2: FloatArray
    alpha: FloatArray
    r: FloatArray

    def columns(self) -> FloatArray:
        """Return ln sigma^2, logit alpha and theta side by side [C, S, 2 + n]."""
        scalars = np.stack([np.log(self.sigma2), logit(self.alpha)], axis=-1)
        return np.concatenate([scalars, self.theta], axis=-1)


def bss(
    y: BoolArray,
    adjacency: FloatArray,
    model: BSS,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 1000,
) -> BSSDraws:
    """Sample the posterior of one document.

    Parameters
    ----------
    y
        [n] the observed keywords.
    adjacency
        [n, n] co-occurrence counts.
    model
        The hyperparameters.
    rng
        The generator.
    chains, draws, warmup
        C, S, and the draws of each chain that are thrown away first.
    """
    n, k = len(y), int(y.sum())
    theta0, precision = prior_field(adjacency, model.damping)
    alpha = rng.uniform(0.2, 0.9, chains)
    # Chains start apart: around theta_0, by a normal of their own width.
    theta = theta0 + rng.standard_normal((chains, n)) * rng.uniform(0.2, 2.0, (chains, 1))

    def sweeps() -> Iterator[dict[str, FloatArray]]:
        nonlocal theta, alpha
        while True:
            away = theta - theta0
            energy = 0.5 * np.einsum("ci,ij,cj->c", away, precision, away)
            lam = _draw_precision(model.tau + 0.5 * n, model.tau + energy, rng)
            for _ in range(MOVES):
                theta, lam, alpha = _move((theta, lam, alpha), y, theta0, model, rng)
            r = _probability(y, theta, alpha)
            yield {"theta": theta, "sigma2": 1.0 / lam, "alpha": alpha, "r": r}
            keyword = rng.random((chains, n)) < r
            hidden = (keyword & ~y).sum(axis=1)
            alpha = rng.beta(model.alpha_prior[0] + hidden, model.alpha_prior[1] + k)
            omega = draw_polya_gamma(theta, rng)
            theta = theta0 + _draw_away(keyword - 0.5 - omega * theta0, omega, lam, precision, rng)

    return BSSDraws(**Schedule(warmup, draws).kept(sweeps()))


def _draw_precision(shape: float, rate: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw 1/sigma^2 ~ Gamma(shape, rate) above exp(-`MOST_LOG_VARIANCE`), by its quantiles."""
    least = np.exp(-MOST_LOG_VARIANCE)
    above = gammaincc(shape, rate * least)
    drawn = gammainccinv(shape, above * rng.random(rate.shape)) / rate
    # Where nearly all of the Gamma lies below the cut, what is left of it lies at the cut.
    result: FloatArray = np.where(above > 0.0, np.maximum(drawn, least), least)
    return result


Position = tuple[FloatArray, FloatArray, FloatArray]


def _move(
    now: Position, y: BoolArray, theta0: FloatArray, model: BSS, rng: np.random.Generator
) -> Position:
    """Propose new (ln sigma, logit alpha) by a random walk whose width is drawn apart."""
    theta, lam, alpha = now
    chains = len(alpha)
    width = np.exp(rng.uniform(np.log(0.05), np.log(2.0), chains))
    step = width * rng.standard_normal((2, chains))
    new = (
        theta0 + (theta - theta0) * np.exp(step[0])[:, None],
        lam * np.exp(-2.0 * step[0]),
        expit(logit(alpha) + step[1]),
    )
    log_ratio = _log_marginal(new, y, model) - _log_marginal(now, y, model)
    taken = (np.log(rng.random(chains)) < log_ratio) & (np.log(new[1]) >= -MOST_LOG_VARIANCE)
    return (
        np.where(taken[:, None], new[0], theta),
        np.where(taken, new[1], lam),
        np.where(taken, new[2], alpha),
    )


def _log_marginal(at: Position, y: BoolArray, model: BSS) -> FloatArray:
    """ln p(y, ln sigma, logit alpha | standardised field) with y* summed out."""
    theta, lam, alpha = at
    log_p, log_alpha, log_rest = log_expit(theta), np.log(alpha), np.log1p(-alpha)
    log_not = np.logaddexp(log_expit(-theta), log_alpha[:, None] + log_p)
    value = np.where(y, log_rest[:, None] + log_p, log_not).sum(axis=1)
    value += model.tau * (np.log(lam) - lam)
    total: FloatArray = value + model.alpha_prior[0] * log_alpha + model.alpha_prior[1] * log_rest
    return total


def _probability(y: BoolArray, theta: FloatArray, alpha: FloatArray) -> FloatArray:
    """P(y* = 1 | theta, alpha, y) = alpha p / (alpha p + 1 - p) where y = 0."""
    log_missed = np.log(alpha)[:, None] + log_expit(theta)
    log_total = np.logaddexp(log_missed, log_expit(-theta))
    r: FloatArray = np.where(y, 1.0, np.exp(log_missed - log_total))
    return r


def _draw_away(
    pull: FloatArray,
    omega: FloatArray,
    lam: FloatArray,
    precision: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw theta - theta_0 of each chain: precision L L' = diag(omega) + lambda B'B.

    With L L' x = pull the mean is x, and L' e = a standard normal has the right spread.
    """
    matrix = lam[:, None, None] * precision
    matrix[:, np.arange(len(precision)), np.arange(len(precision))] += omega
    root = np.linalg.cholesky(matrix)
    half = np.linalg.solve(root, pull[..., None])
    drawn = np.linalg.solve(root.transpose(0, 2, 1), half + rng.standard_normal(half.shape))
    away: FloatArray = drawn[..., 0]
    return away
