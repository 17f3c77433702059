"""Latent classes of rows, several starts and two numbers of classes side by side.

    c_n ~ Cat(pi),  x_nd | c_n = k ~ Cat(theta_kd)

over the cells that a row has. Every lane is one such model. Lanes of `FEW` classes are fitted by
variational Bayes: pi ~ Dirichlet(1/K), theta_kd ~ Dirichlet(1/R_d), q(c_n) the softmax of
E log pi + sum_d E log theta, q(pi) and q(theta) Dirichlet with the counts added (Bishop 2006,
section 10.2, for categories); classes that the table does not support are emptied. Lanes of `MANY`
are fitted by EM to the mode under Dirichlet(1 + `SMOOTH`) of both, which empties none: better where
a table has many kinds of rows, worse elsewhere. Lanes of one size differ by their start, and what
they predict is averaged.

Continuous traits behind a table of categories: logistic factor analysis by Gibbs sampling.

    psi_nj = b_j + u_n' l_j,  u_n ~ N(0, I_Q),  l_jk ~ N(0, v_k),  b_j ~ N(0, bias variance)

with the units j of `vbmodels.features.table`. By Polya-Gamma augmentation every step is in closed
form, the rows in parallel:

    omega_nj | u, l        ~ PG(1, psi_nj)
    u_n | omega, l         ~ N(P^-1 l'(s/2 - omega b), P^-1),  P = I + sum_j omega_nj l_j l_j'
    (b, l)_j | omega, u    ~ N(Lambda^-1 sum_n s_nj/2 (1, u_n), Lambda^-1)
    1 / v_k | l            ~ Gamma(1 + J/2, 1 + sum_j l_jk^2 / 2)

where s = +1 or -1 is the answer to a unit and omega is 0 where there is no answer. The draws of a
row depend on its key alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, logsumexp, ndtri

from vbmodels.core import linalg
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.features.draw_kernels import Keys, draw_omega, draw_uniform
from vbmodels.features.ibp.chain import draw_weights
from vbmodels.features.ibp.model import blocks
from vbmodels.features.imputation.class_kernels import class_sums

FEW, MANY = 15, 40
STARTS = 3
LANES = (FEW,) * STARTS + (MANY,) * STARTS
"""Classes K of each lane."""
EDGES = np.concatenate([[0], np.cumsum(LANES)])
SMOOTH = 0.1
SHARP = 4
"""The first responsibilities are powers of exponential draws, so that classes differ at once."""


@dataclass(frozen=True)
class ClassCounts(Stats, kind="features/imputation.ClassCounts"):
    """Expected rows [L] of each class of all lanes, and their cells' categories [L, C].

    C counts the categories of all columns, column by column.
    """

    rows: FloatArray
    cells: FloatArray


@dataclass(frozen=True)
class Classes(State, kind="features/imputation.Classes"):
    """Counts with the prior's added: of pi [L] and of theta [L, C]; none before the first sums."""

    rows: FloatArray
    cells: FloatArray


def one_hot(codes: NDArray[np.int16], levels: IntArray) -> FloatArray:
    """Return indicators [N, C] of the cells' categories, 0 where missing."""
    first = np.concatenate([[0], np.cumsum(levels)])
    found = np.zeros((len(codes), int(first[-1])))
    rows, columns = np.nonzero(codes >= 0)
    found[rows, first[columns] + codes[rows, columns]] = 1.0
    return found


def class_counts(
    at: Classes, codes: NDArray[np.int16], count: FloatArray, levels: IntArray, keys: Keys
) -> ClassCounts:
    """Sum what the classes' step needs over rows that each count for ``count`` [N].

    ``keys`` [N] are streams of the first responsibilities.
    """
    if len(at.rows):
        return ClassCounts(*class_sums(codes, count, levels, *_log_terms(at, levels), EDGES))
    total = int(EDGES[-1])
    rows, cells = np.zeros(total), np.zeros((total, int(levels.sum())))
    for part in blocks(len(codes), max(total, int(levels.sum()))):
        r = _normalised(SHARP * np.log(-np.log(draw_uniform(keys[part], total))))
        r *= count[part, None]
        rows += r.sum(0)
        cells += r.T @ one_hot(codes[part], levels)
    return ClassCounts(rows, cells)


def moved_classes(counts: ClassCounts, levels: IntArray) -> Classes:
    """Add the priors to the counts."""
    k = np.repeat(LANES, LANES)
    of_rows = np.where(k == FEW, 1.0 / k, SMOOTH)
    of_cells = np.where((k == FEW)[:, None], np.repeat(1.0 / levels, levels), SMOOTH)
    return Classes(counts.rows + of_rows, counts.cells + of_cells)


def class_shares(
    at: Classes, codes: NDArray[np.int16], levels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return P(category) of every column for rows, by few classes and by many; [N, C] each.

    What the lanes of one size say is averaged.
    """
    (pi, theta), means = _log_terms(at, levels), _means(at.cells, levels)
    r = _normalised(pi + one_hot(codes, levels) @ theta.T)
    few, each = int(EDGES[STARTS]), 1.0 / STARTS
    return each * (r[:, :few] @ means[:few]), each * (r[:, few:] @ means[few:])


def column_shares(at: Classes, levels: IntArray) -> FloatArray:
    """Return the columns' shares of categories over all rows; [C]."""
    return np.asarray(_means(at.cells[: EDGES[1]].sum(0)[None], levels)[0])


def _log_terms(at: Classes, levels: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return what a class [L] and a category in it [L, C] add to a row's log responsibility."""
    pi = np.concatenate(
        [_log_of(at.rows[i:j], k) for (i, j), k in zip(pairwise(EDGES), LANES, strict=True)]
    )
    few = int(EDGES[STARTS])
    own = at.cells[:few]
    bayes = digamma(own) - np.repeat(digamma(_column_sums(own, levels)), levels, axis=1)
    return pi, np.concatenate([bayes, np.log(_means(at.cells[few:], levels))])


def _log_of(rows: FloatArray, size: int) -> FloatArray:
    if size == FEW:
        return np.asarray(digamma(rows) - digamma(rows.sum()))
    return np.asarray(np.log(rows / rows.sum()))


def _means(cells: FloatArray, levels: IntArray) -> FloatArray:
    return np.asarray(cells / np.repeat(_column_sums(cells, levels), levels, axis=1))


def _column_sums(cells: FloatArray, levels: IntArray) -> FloatArray:
    first = np.concatenate([[0], np.cumsum(levels)[:-1]])
    return np.asarray(np.add.reduceat(cells, first, axis=1))


def _normalised(log_r: FloatArray) -> FloatArray:
    lanes = [log_r[:, i:j] for i, j in pairwise(EDGES)]
    log_p = [own - logsumexp(own, axis=1, keepdims=True) for own in lanes]
    return np.asarray(np.exp(np.concatenate(log_p, axis=1)))


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
    """Draw omega and then u of every row; return u, and the sums at both if they are wanted.

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
    for rows in blocks(len(u), units):
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
    return moved, TraitStats(linear, linalg.pack(quadratic.reshape(units, size + 1, size + 1)))


def draw_traits(
    at: Traits, stats: TraitStats, bias_variance: float, rng: np.random.Generator
) -> Traits:
    """Draw biases, loadings and the loadings' variances."""
    prior = np.concatenate([[1.0 / bias_variance], 1.0 / at.variance])
    loadings = draw_weights(stats.linear, stats.quadratic, prior, rng)
    square = (loadings[:, 1:] ** 2).sum(0)
    variance = (1.0 + 0.5 * square) / rng.gamma(1.0 + 0.5 * len(loadings), size=len(square))
    return Traits(loadings, variance)
