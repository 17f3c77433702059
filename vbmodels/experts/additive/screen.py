"""Which blocks a fit lacks, by sums of its residuals over levels: one pass for all of them.

With r_n = t_n sigma(-t_n f_n) the slope of a row, Phi the functions of a block and M those that the
fit has of the same column, its score is Phi'r and, as rows vary, its variance Phi' diag(r^2) Phi,
both freed of M (Schur complement). A block's coefficients N(0, v I) then have the log evidence

    L(v) = h'(A + I/v)^-1 h / 2 - log |I + v A| / 2,

A and h its variance and score. r^2 in place of p (1 - p): a row of tiny p that is wrong would
else make tens of nats by itself. Both are sums over rows, and of levels alone: sum r and sum r^2
for every level say all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from scipy.special import expit, logsumexp

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.additive.curves import Curves, Terms
from vbmodels.experts.additive.step_rows import CodedRows

FINE_VARIANCES = np.geomspace(0.003, 30.0, 12)
"""Variances that what refines a curve may have."""
FINE_BUDGET = 300
"""Most functions that refine curves, of all columns."""
FEWEST = 3
"""Functions from which on they may be worth a block."""
_RIDGE = 1e-3


@dataclass(frozen=True)
class Screen(State, kind="experts/additive.Screen"):
    """A fit whose residuals are to be summed up.

    Attributes
    ----------
    coefficients, terms
        Of the fit.
    fold
        The part of the rows that is left out; -1 for none.
    """

    coefficients: FloatArray
    terms: Terms
    fold: int


@dataclass(frozen=True)
class Residuals(Stats, kind="experts/additive.Residuals"):
    """Sums of r and of r^2 for every level of every curve, one curve after another; [L]."""

    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, screen: Screen, batch: CodedRows, fold: IntArray | None) -> Residuals:
        """Sum up a partition's."""
        curves = batch.basis.curves
        assert curves is not None
        weight = batch.rows.used
        if fold is not None and screen.fold >= 0:
            weight = weight * (fold != screen.fold)
        t = batch.t
        slope = t * expit(-t * batch.project(screen.coefficients, terms=screen.terms))
        sums = [
            np.bincount(batch.levels[:, s], weight * slope**power, curves.sizes[s])
            for power in (1, 2)
            for s in curves.curved
        ]
        first, second = np.split(np.concatenate(sums).astype(np.float64), 2)
        return cls(first, second)


def refined(curves: Curves, sums: Residuals) -> tuple[IntArray, FloatArray]:
    """Return the columns whose curves are to be refined, and their first variances.

    A curve is refined where the mean of its evidence over `FINE_VARIANCES` is more than the number
    of curves; the best first, as far as `FINE_BUDGET` goes.
    """
    ends = np.cumsum(curves.sizes[curves.curved])
    found: list[tuple[float, int, float]] = []
    for s, first, second in zip(
        curves.curved, np.split(sums.first, ends[:-1]), np.split(sums.second, ends[:-1]),
        strict=True,
    ):  # fmt: skip
        fine = curves.fine(s)
        if fine.shape[1] >= FEWEST:
            own = np.column_stack([np.ones(len(fine)), curves.smooth(s)])
            value = evidence(fine, own, first, second, FINE_VARIANCES)
            mean = float(logsumexp(value)) - log(len(value))
            found.append((mean, int(s), float(FINE_VARIANCES[np.argmax(value)])))
    columns, variances, room = [], [], FINE_BUDGET
    for mean, s, variance in sorted(found, reverse=True):
        size = curves.fine(s).shape[1]
        if mean > log(curves.blocks.size) and size <= room:
            room -= size
            columns.append(s)
            variances.append(variance)
    return np.array(columns, np.int64), np.array(variances, np.float64)


def evidence(
    functions: FloatArray, own: FloatArray, first: FloatArray, second: FloatArray,
    variances: FloatArray,
) -> FloatArray:  # fmt: skip
    """Return L at every variance; [V].

    Parameters
    ----------
    functions
        Phi at the levels; [L, q].
    own
        M; [L, m].
    first, second
        Sums of r and of r^2 of the levels; [L].
    variances
        v; [V].
    """
    weighted = own * second[:, None]
    inner = own.T @ weighted
    inner[np.diag_indices(len(inner))] += _RIDGE * np.trace(inner) / len(inner) + 1e-300
    cross = weighted.T @ functions
    solved = np.linalg.solve(inner, np.column_stack([cross, own.T @ first]))
    a = functions.T @ (functions * second[:, None]) - cross.T @ solved[:, :-1]
    h = functions.T @ first - cross.T @ solved[:, -1]
    return of_variances(a, h, variances)


def of_variances(a: FloatArray, h: FloatArray, variances: FloatArray) -> FloatArray:
    """Return h'(A + I/v)^-1 h / 2 - log |I + v A| / 2 at every variance; [V]."""
    size, axes = np.linalg.eigh(a)
    v, size = variances[:, None], np.maximum(size, 0.0)
    square = (axes.T @ h) ** 2
    gain = v * square / (1.0 + v * size) - np.log1p(v * size)
    return np.asarray(0.5 * gain.sum(1))
