"""A chain's sums over rows and its global draw: of the sampler, and of the starts of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.ibp.model import FeatureGlobal, blocks
from vbmodels.features.ibp.sticks import draw_sticks
from vbmodels.features.moment_kernels import packed_moments, sum_log_sigmoid

Omega = Callable[[FloatArray, slice], FloatArray]
"""omega [B, J] of a block of rows at its psi: drawn, or its expectation; 0 without an answer."""


def chain_sums(
    weights: FloatArray,
    sign: NDArray[np.int8],
    z: NDArray[np.int8],
    count: FloatArray,
    omega_of: Omega,
) -> ChainStats:
    """Sum what a chain's global draw needs.

    Parameters
    ----------
    weights
        [J, K + 1] biases and weights.
    sign, z
        [N, J] answers and [N, K] features of the rows.
    count
        [N] rows that each row counts for.
    omega_of
        omega of a block of rows.
    """
    units, size = weights.shape
    linear, quadratic = np.zeros((units, size)), np.zeros((units, size * (size + 1) // 2))
    log_likelihood = 0.0
    for rows in blocks(len(z), units):
        full = np.concatenate([np.ones((len(z[rows]), 1)), z[rows]], axis=1)
        psi, counts = full @ weights.T, count[rows, None]
        linear += (0.5 * (sign[rows] * counts)).T @ full
        quadratic += (omega_of(psi, rows) * counts).T @ packed_moments(full)
        log_likelihood += float(count[rows] @ sum_log_sigmoid(sign[rows], psi))
    return ChainStats(float(count.sum()), count @ z, linear, quadratic, log_likelihood)


def draw_chain(
    chain: Chain, sums: ChainStats, bias_variance: float, learn: bool, rng: np.random.Generator
) -> Chain:
    """Draw weights, sticks and, if they are learned, alpha and the weights' variance."""
    prior = np.full(sums.linear.shape[1], 1.0 / chain.variance)
    prior[0] = 1.0 / bias_variance
    weights = draw_weights(sums.linear, sums.quadratic, prior, rng)
    v = draw_sticks(sums.on, sums.n_rows, chain.alpha, chain.v, rng)
    alpha, variance = chain.alpha, chain.variance
    if learn:
        alpha = float(rng.gamma(1.0 + len(v), 1.0 / (1.0 - np.log(v).sum())))
        square = weights[:, 1:] ** 2
        shape, rate = 1.0 + 0.5 * square.size, 1.0 + 0.5 * square.sum()
        variance = float(rate / rng.gamma(shape))
    return Chain(weights, v, alpha, variance)


def draw_weights(
    linear: FloatArray, quadratic: FloatArray, prior: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw from N(Lambda^-1 b, Lambda^-1), Lambda = Q + diag(prior), for every unit; [J, D].

    Parameters
    ----------
    linear, quadratic
        b [J, D] and Q [J, D (D + 1) / 2], packed.
    prior
        [D] precisions.
    """
    precision = linalg.unpack(quadratic) + np.diag(prior)
    factor = linalg.cholesky(precision, "the precision of the weights")
    half = linalg.solve_lower(factor, linear[..., None])[..., 0]
    noise = rng.standard_normal(linear.shape)
    return linalg.solve_lower(factor, (half + noise)[..., None], transposed=True)[..., 0]


def chain_from(q: FeatureGlobal, extra: int, rng: np.random.Generator) -> Chain:
    """Start a chain at a fit's means, with so many free features more."""
    weights = np.concatenate([q.mean, rng.normal(0.0, 0.5, (len(q.mean), extra))], axis=1)
    tau = np.concatenate([q.tau, np.ones((extra, 2))])
    variance = float(np.exp(np.log(q.variance).mean())) if len(q.variance) else 1.0
    return Chain(weights, tau[:, 0] / tau.sum(1), q.alpha, variance)


def first_chain(
    stop: FloatArray,
    go_on: FloatArray,
    k: int,
    alpha: float,
    variance: float,
    rng: np.random.Generator,
) -> Chain:
    """Start a chain from weights around 0 and biases at the margins [J] of the answers."""
    weights = rng.normal(0.0, 0.5, (len(stop), k + 1))
    weights[:, 0] = np.log((go_on + 1.0) / (stop + 1.0))
    return Chain(weights, np.full(k, (alpha + 1.0) / (alpha + 2.0)), alpha, variance)


@dataclass(frozen=True)
class Chain(State, kind="features/ibp.Chain"):
    """One chain's global draw.

    Parameters
    ----------
    weights
        [J, K + 1] biases and weights.
    v
        [K] sticks; pi_k = v_1 ... v_k.
    alpha, variance
        Concentration and prior variance of the weights.
    """

    weights: FloatArray
    v: FloatArray
    alpha: float
    variance: float

    @property
    def log_odds(self) -> FloatArray:
        """log(pi_k / (1 - pi_k)); [K]."""
        log_pi = np.cumsum(np.log(self.v))
        # pi = 1 to rounding has finite odds here.
        return np.asarray(log_pi - np.log(np.maximum(-np.expm1(log_pi), 1e-16)))


@dataclass(frozen=True)
class ChainStats(Stats, kind="features/ibp.ChainStats"):
    """Sums of one chain; see `vbmodels.features.ibp.model.FeatureStats`."""

    n_rows: float
    on: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    log_likelihood: float
