"""The papers' test by draws: the difference of two samples' rates, location by location.

The hyperparameters (A0, B0, and M or the prior of log M_j) are held at those of a fit. Draws
are those of `gibbs`: mu_j and, where each location has its own, log M_j. Unlike
`posterior_difference.compare` nothing is a Beta by assumption, and M_j is integrated out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from vbmodels.core.diagnostics import diagnose
from vbmodels.core.state import FloatArray
from vbmodels.variants.rvd2.gibbs import Draws, gibbs
from vbmodels.variants.rvd2.model import Errors, Global

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
    found = gibbs(
        batch, q, rng, log_m_sd=sampler.log_m_sd, chains=sampler.chains,
        warmup=sampler.warmup, draws=sampler.draws, thin=sampler.thin,
    )  # fmt: skip
    mu = expit(found.logit_mu).reshape(-1, len(batch.r))
    quantiles = np.quantile(mu, LEVELS, axis=0)
    moments = np.stack([mu.mean(axis=0), mu.std(axis=0, ddof=1), *quantiles], axis=1)
    r_hat, ess = _mixing(found, sampler.log_m_sd > 0.0)
    return Rates(mu, moments, r_hat, ess)


def _mixing(found: Draws, own_dispersion: bool) -> tuple[FloatArray, FloatArray]:
    drawn = [found.logit_mu, found.log_m] if own_dispersion else [found.logit_mu]
    seen = [diagnose(d) for d in drawn]
    return (
        np.fmax.reduce([s.r_hat for s in seen]),
        np.min([s.ess_bulk for s in seen], axis=0),
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
    """Return log odds of shares of draws, none beyond what so many draws can tell.

    A share p of S draws is kept within 1 / (S + 1) of 0 and 1: where all draws agree, the
    posterior probability is known to lie there, not to be 1.
    """
    least = 1.0 / (draws + 1.0)
    p = np.clip(probability, least, 1.0 - least)
    return np.asarray(np.log(p) - np.log1p(-p))
