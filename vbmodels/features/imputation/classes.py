"""Latent classes of rows, several starts and two numbers of classes side by side.

    c_n ~ Cat(pi),  x_nd | c_n = k ~ Cat(theta_kd)

over the cells that a row has. Every lane is one such model. Lanes of `FEW` classes are fitted by
variational Bayes: pi ~ Dirichlet(1/K), theta_kd ~ Dirichlet(1/R_d), q(c_n) the softmax of
E log pi + sum_d E log theta, q(pi) and q(theta) Dirichlet with the counts added (Bishop 2006,
section 10.2, for categories); classes that the table does not ask for are emptied. Lanes of `MANY`
are fitted by EM to the mode under Dirichlet(1 + `SMOOTH`) of both, which empties none: better where
a table has many kinds of rows, worse elsewhere. Lanes of one size differ by their start, and what
they predict is averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, logsumexp

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.features.draw_kernels import Keys, draw_uniform
from vbmodels.features.ibp.chain import BLOCK

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


def no_classes() -> Classes:
    """Return the classes before the first sums."""
    return Classes(np.zeros(0), np.zeros((0, 0)))


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
    total = int(EDGES[-1])
    rows, cells = np.zeros(total), np.zeros((total, int(levels.sum())))
    terms = _log_terms(at, levels) if len(at.rows) else None
    for i in range(0, len(codes), BLOCK):
        part = slice(i, i + BLOCK)
        x = one_hot(codes[part], levels)
        if terms is None:
            r = _normalised(SHARP * np.log(-np.log(draw_uniform(keys[part], total))))
        else:
            r = _normalised(terms[0] + x @ terms[1].T)
        r *= count[part, None]
        rows += r.sum(0)
        cells += r.T @ x
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
