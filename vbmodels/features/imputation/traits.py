"""Continuous traits behind a table of categories: logistic factor analysis by Gibbs sampling.

    psi_nj = b_j + u_n' l_j,  u_n ~ N(0, I_Q),  l_jk ~ N(0, v_k),  b_j ~ N(0, bias variance)

with the units j of `vbmodels.features.table`. By Polya-Gamma augmentation every step is in closed
form, the rows in parallel:

    omega_nj | u, l        ~ PG(1, psi_nj)
    u_n | omega, l         ~ N(P^-1 l'(s/2 - omega b), P^-1),  P = I + sum_j omega_nj l_j l_j'
    (b, l)_j | omega, u    ~ N(Lambda^-1 sum_n s_nj/2 (1, u_n), Lambda^-1)
    1 / v_k | l            ~ Gamma(1 + J/2, 1 + sum_j l_jk^2 / 2)

where s = +1 or -1 is the answer to a unit and omega is 0 where it was not asked. The draws of a
row hang on its key alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.features.draw_kernels import Keys, draw_omega, draw_uniform
from vbmodels.features.ibp.chain import BLOCK, draw_weights


@dataclass(frozen=True)
class Traits(State, kind="features/imputation.Traits"):
    """Global draw: biases and loadings [J, Q + 1], and the loadings' prior variances v [Q]."""

    loadings: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class TraitStats(Stats, kind="features/imputation.TraitStats"):
    """Sums over rows with x = (1, u).

    Parameters
    ----------
    linear
        [J, Q + 1] sum_n s_nj / 2 x_n.
    quadratic
        [J, (Q + 1)(Q + 2) / 2] sum_n omega_nj x_n x_n', packed.
    """

    linear: FloatArray
    quadratic: FloatArray


def first_traits(
    stop: FloatArray, go_on: FloatArray, size: int, rng: np.random.Generator
) -> Traits:
    """Start from loadings around 0 and biases at the margins [J] of the answers."""
    loadings = rng.normal(0.0, 0.3, (len(stop), size + 1))
    loadings[:, 0] = np.log((go_on + 1.0) / (stop + 1.0))
    return Traits(loadings, np.ones(size))


def draw_rows(
    loadings: FloatArray,
    sign: NDArray[np.int8],
    u: FloatArray,
    omega_keys: Keys,
    keys: Keys,
    count: FloatArray | None = None,
) -> tuple[FloatArray, TraitStats | None]:
    """Draw omega and then u of every row; return u, and the sums at both if they are asked for.

    Parameters
    ----------
    loadings
        [J, Q + 1].
    sign
        [N, J] answers.
    u
        [N, Q] traits before.
    omega_keys, keys
        [N] streams of omega and of u.
    count
        [N] rows that each row counts for in the sums; None where no sums are wanted.
    """
    units, size = loadings.shape[0], loadings.shape[1] - 1
    bias, own = loadings[:, 0], loadings[:, 1:]
    outer = (own[:, :, None] * own[:, None, :]).reshape(units, -1)
    moved = np.empty_like(u)
    linear, quadratic = np.zeros((units, size + 1)), np.zeros((units, (size + 1) ** 2))
    for i in range(0, len(u), BLOCK):
        rows = slice(i, i + BLOCK)
        half = 0.5 * sign[rows]
        omega = draw_omega(bias + u[rows] @ own.T, sign[rows], omega_keys[rows])
        precision = (omega @ outer).reshape(-1, size, size) + np.eye(size)
        factor = linalg.cholesky(precision, "the precision of a row's traits")
        noise = ndtri(draw_uniform(keys[rows], size))
        right = linalg.solve_lower(factor, ((half - omega * bias) @ own)[..., None])[..., 0]
        drawn = linalg.solve_lower(factor, (right + noise)[..., None], transposed=True)[..., 0]
        moved[rows] = drawn
        if count is not None:
            weight = count[rows, None]
            x = np.concatenate([np.ones((len(drawn), 1)), drawn], axis=1)
            linear += (half * weight).T @ x
            quadratic += (omega * weight).T @ (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    if count is None:
        return moved, None
    packed = linalg.pack(quadratic.reshape(units, size + 1, size + 1))
    return moved, TraitStats(linear, packed)


def draw_traits(
    at: Traits, stats: TraitStats, bias_variance: float, rng: np.random.Generator
) -> Traits:
    """Draw biases, loadings and the loadings' variances."""
    prior = np.concatenate([[1.0 / bias_variance], 1.0 / at.variance])
    loadings = draw_weights(stats.linear, stats.quadratic, prior, rng)
    square = (loadings[:, 1:] ** 2).sum(0)
    variance = (1.0 + 0.5 * square) / rng.gamma(1.0 + 0.5 * len(loadings), size=len(square))
    return Traits(loadings, variance)
