"""Gibbs sampling for the per-document VBSS model: the yardstick of its variational forms.

The model and its letters stand in `vbss` and `coordinate_ascent`. Every full conditional is known:

    z_i | .       N(m_i, 1), m_i = a + b theta_i: cut to z_i > 0 where y_i = 1; weighted by
                  alpha on z_i > 0 where y_i = 0
    theta | .     N, precision b^2 I + P / sigma^2, diagonal in the axes of B
    a, b | .      N, jointly
    1/sigma^2 | . Gamma(tau + n/2, tau + (theta - theta_0)'P(theta - theta_0)/2)
    alpha | .     Beta(alpha_1 + sum (1 - y) 1(z > 0), alpha_2 + sum y)

That alone mixes badly: a and alpha trade off (few keywords, or many that nobody named), and
so do b and sigma. So each sweep adds Metropolis moves of (a, b, ln sigma, logit alpha) with
z summed out and the standardised field (theta - theta_0)/sigma held. The chains of a
document advance together, as rows.

The samplers of one document, applied to every document of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, log_ndtr, logit

from reproduce.keyword_documents import documents
from vbmodels.core.draws import Diagnosis, Schedule, diagnose
from vbmodels.core.special import truncated_draw
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.model import VBSS
from vbmodels.keywords.vbss.spectrum import decompose


class Sampled:
    """Draws from the posterior of one document: C chains of S draws."""

    r: FloatArray
    """[C, S, n] P(keyword | y, the draw of the others)."""

    def columns(self) -> FloatArray:
        """Return the parameters side by side, [C, S, K]."""
        raise NotImplementedError

    @property
    def probability(self) -> FloatArray:
        """P(keyword | y) of each word [n]."""
        return np.asarray(self.r.mean(axis=(0, 1)))

    def diagnose(self) -> Diagnosis:
        """Return R-hat, effective sizes and Monte-Carlo errors of `columns`."""
        return diagnose(self.columns())


class Sampler(Protocol):
    """A sampler of one document with its model and lengths chosen."""

    def __call__(self, y: BoolArray, adjacency: FloatArray, *, rng: np.random.Generator) -> Sampled:
        """Draw given labels y [n] and co-occurrence counts [n, n]."""


def sample_documents(
    batch: KeywordBatch, sampler: Sampler, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Sample every document of a batch on its own, with a generator of its own.

    Parameters
    ----------
    batch
        The documents.
    sampler
        Such as `gibbs` with its model given (`functools.partial`).
    rng
        It is spawned, once a document.

    Returns
    -------
    probability
        [W] P(keyword | y).
    r_hat
        [D] the largest R-hat of the document's parameters that vary.
    """
    probability, r_hat = np.empty(batch.n_words), np.empty(batch.n_documents)
    spawned = rng.spawn(batch.n_documents)
    for d, ((y, a), own) in enumerate(zip(documents(batch), spawned, strict=True)):
        found = sampler(y, a, rng=own)
        probability[batch.words(d)] = found.probability
        r_hat[d] = found.diagnose().largest_r_hat
    return probability, r_hat


MOVES = 4
"""Metropolis moves of a sweep."""


@dataclass(frozen=True)
class Draws(Sampled):
    """Draws from the posterior of one document, C chains of S draws.

    Parameters
    ----------
    a, b, sigma2
        [C, S].
    alpha
        [C, S].
    theta
        [C, S, n].
    r
        [C, S, n] P(z_i > 0 | y, the draw's a, b, theta, alpha): its mean is P(keyword | y)
        with less noise than the mean of 1(z_i > 0).
    """

    a: FloatArray
    b: FloatArray
    sigma2: FloatArray
    alpha: FloatArray
    theta: FloatArray
    r: FloatArray

    def columns(self) -> FloatArray:
        """Return a, b, ln sigma^2, logit alpha and theta side by side [C, S, K]."""
        scalars = np.stack([self.a, self.b, np.log(self.sigma2), logit(self.alpha)], axis=-1)
        return np.concatenate([scalars, self.theta], axis=-1)


def gibbs(
    y: BoolArray,
    adjacency: FloatArray,
    model: VBSS,
    rng: np.random.Generator,
    *,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 1000,
) -> Draws:
    """Sample the posterior of one document.

    Parameters
    ----------
    y
        [n] the observed keywords.
    adjacency
        [n, n] co-occurrence counts.
    model
        Its hyperparameters; ``form`` does not matter, the posterior is exact.
    rng
        The generator.
    chains, draws, warmup
        C, S, and the draws of each chain that are thrown away first.
    """
    prior, n, seen = model.prior, len(y), y.astype(float)
    beta, v = decompose(adjacency, model.damping)
    stiffness = beta**2
    scale = 1.0 - model.damping if model.scale is None else model.scale
    theta0 = scale * (v.T @ seen) / beta
    # Chains start apart: the first draws of theta come from priors of different widths.
    lam = rng.gamma(2.0, 0.5, chains)
    axes = theta0 + rng.standard_normal((chains, n)) / np.sqrt(lam[:, None] * stiffness)
    a, b = rng.standard_normal((2, chains))
    alpha = rng.uniform(0.2, 0.9, (chains, 1))

    def sweeps() -> Iterator[dict[str, FloatArray]]:
        nonlocal a, b, lam, alpha, axes
        while True:
            for _ in range(MOVES):
                a, b, lam, alpha, axes = _move(
                    (a, b, lam, alpha, axes), seen, theta0, v, model, rng
                )
            theta = axes @ v.T
            m = a[:, None] + b[:, None] * theta
            r = _probability(seen, m, np.log(alpha))
            side = np.where(rng.random(m.shape) < r, 1.0, -1.0)
            z = truncated_draw(m, side, np.log1p(-rng.random(m.shape)))
            now = {"a": a, "b": b, "sigma2": 1.0 / lam, "alpha": alpha[:, 0]}
            yield {**now, "theta": theta, "r": r}
            a, b = _draw_line(z, theta, prior.var_a, prior.var_b, rng)
            precision = b[:, None] ** 2 + lam[:, None] * stiffness
            pull = lam[:, None] * stiffness * theta0 + b[:, None] * ((z - a[:, None]) @ v)
            axes = pull / precision + rng.standard_normal(pull.shape) / np.sqrt(precision)
            away = (stiffness * (axes - theta0) ** 2).sum(axis=1)
            lam = rng.gamma(prior.tau + 0.5 * n, 1.0 / (prior.tau + 0.5 * away))
            hidden = ((1.0 - seen) * (z > 0.0)).sum(axis=1, keepdims=True)
            alpha = rng.beta(prior.alpha_1 + hidden, prior.alpha_2 + seen.sum())

    return Draws(**Schedule(warmup, draws).kept(sweeps()))


State4 = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def _move(
    now: State4,
    seen: FloatArray,
    theta0: FloatArray,
    v: FloatArray,
    model: VBSS,
    rng: np.random.Generator,
) -> State4:
    """Propose new (a, b, ln sigma, logit alpha) from a random walk of random width.

    The width is drawn apart from the state, so the proposal is symmetric.
    """
    a, b, lam, alpha, axes = now
    chains = len(a)
    width = np.exp(rng.uniform(np.log(0.05), np.log(2.0), chains))
    step = width * rng.standard_normal((4, chains))
    new_lam = lam * np.exp(-2.0 * step[2])
    new_axes = theta0 + (axes - theta0) * np.exp(step[2])[:, None]
    new_alpha = expit(logit(alpha) + step[3][:, None])
    new: State4 = (a + step[0], b + step[1], new_lam, new_alpha, new_axes)
    log_ratio = _log_marginal(new, seen, v, model) - _log_marginal(now, seen, v, model)
    taken = np.log(rng.random(chains)) < log_ratio
    return tuple(  # type: ignore[return-value]
        np.where(taken if x.ndim == 1 else taken[:, None], x, old)
        for x, old in zip(new, now, strict=True)
    )


def _log_marginal(at: State4, seen: FloatArray, v: FloatArray, model: VBSS) -> FloatArray:
    """ln p(y, a, b, ln sigma, logit alpha | standardised field), z summed out (section 1.2)."""
    a, b, lam, alpha, axes = at
    prior = model.prior
    log_pos = log_ndtr(a[:, None] + b[:, None] * (axes @ v.T))
    # 1 - (1 - alpha) Phi, safe where alpha is tiny and Phi near 1.
    log_not = np.log1p(-(1.0 - alpha) * np.exp(log_pos))
    value = np.where(seen > 0.0, np.log1p(-alpha) + log_pos, log_not).sum(axis=1)
    value -= 0.5 * (a**2 / prior.var_a + b**2 / prior.var_b)
    value += prior.tau * (np.log(lam) - lam)
    value += prior.alpha_1 * np.log(alpha[:, 0]) + prior.alpha_2 * np.log1p(-alpha[:, 0])
    total: FloatArray = value
    return total


def _probability(seen: FloatArray, m: FloatArray, log_alpha: FloatArray) -> FloatArray:
    """P(z > 0 | m, alpha, y)."""
    log_pos = log_alpha + log_ndtr(m)
    return np.where(seen > 0.0, 1.0, np.exp(log_pos - np.logaddexp(log_pos, log_ndtr(-m))))


def _draw_line(
    z: FloatArray, theta: FloatArray, var_a: float, var_b: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw (a, b) of each chain from their joint normal, b first."""
    n = theta.shape[1]
    precision_a = n + 1.0 / var_a
    sum_theta, sum_z = theta.sum(axis=1), z.sum(axis=1)
    # About the mean, or a wide theta would leave nothing of the difference of its squares.
    centred = theta - sum_theta[:, None] / n
    rest = sum_theta * (1.0 / n - 1.0 / precision_a)
    precision_b = (centred**2).sum(axis=1) + sum_theta * rest + 1.0 / var_b
    mean_b = ((centred * z).sum(axis=1) + rest * sum_z) / precision_b
    b = mean_b + rng.standard_normal(len(mean_b)) / np.sqrt(precision_b)
    mean_a = (sum_z - b * sum_theta) / precision_a
    return mean_a + rng.standard_normal(len(b)) / np.sqrt(precision_a), b
