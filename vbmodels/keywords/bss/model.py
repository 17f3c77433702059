"""BSS, the Bayesian semi-supervised model before VBSS, and the prior of its importance.

As the dissertation describes it (sections 1.1 and 1.2, after Wang et al. 2023): importance
theta has TextRank's scores as prior mean and enters a logistic regression directly,

    y*_i ~ Bernoulli(p_i),  logit p_i = theta_i;   P(y_i = 1 | y*_i) = (1 - alpha) y*_i
    theta ~ N(theta_0, sigma^2 (B'B)^-1),  B = I - d G',  G = D^-1 A,  theta_0 = (1 - d) B^-1 1
    1/sigma^2 ~ Gamma(tau, tau);   alpha ~ Beta

so theta_0 knows no label: labels enter by the likelihood only. Its authors walk at random over
theta and maximise over alpha inside the chain; here alpha has a prior. See `gibbs`.

The prior of sigma^2 is cut at exp(`MOST_LOG_VARIANCE`). Once every theta is far from 0 the
likelihood no longer changes with sigma, so the posterior of ln sigma^2 falls like
exp(-tau ln sigma^2), over a thousand units at tau = .001: uncut it leaves the range of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.keywords.graph import textrank

MOST_LOG_VARIANCE = 20.0


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
