"""Sums of a fit's residuals over levels, in one pass, and what they say that the fit lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.curves import Curves, Terms
from vbmodels.experts.terms.evidence import evidence, freed
from vbmodels.experts.terms.likelihoods import Likelihood, Logistic
from vbmodels.experts.terms.pairs import coarse_levels, missing_pairs, most_pairs
from vbmodels.experts.terms.step_rows import FittedRows

FINE_VARIANCES = np.geomspace(0.003, 30.0, 12)
"""Variances that what refines a curve may have."""
FINE_BUDGET = 300
"""Most functions that refine curves, of all columns."""
FEWEST = 3
"""Functions from which on they may be worth a block."""
_CHUNK = 2048


@dataclass(frozen=True)
class Residuals(Stats, kind="experts/additive.Residuals"):
    """Sums of r and of r^2: for every level of one curve after another, [L], or of pairs, for
    every two coarse levels, [B, B]."""

    first: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class Screen(State, kind="experts/additive.Screen"):
    """A fit whose residuals are to be summed up.

    Attributes
    ----------
    coefficients, terms
        Of the fit.
    fold
        The part of the rows that is left out; -1 for none.
    pairs
        Whether pairs are looked for, or else what refines curves.
    likelihood
        Of the labels.
    """

    coefficients: FloatArray
    terms: Terms
    fold: int
    pairs: bool = False
    likelihood: Likelihood = field(default_factory=Logistic)

    def sums(self, batch: FittedRows) -> Residuals:
        """Sum up a partition's slopes r."""
        coded, curves = batch.coded, batch.coded.basis.curves
        assert curves is not None
        at = coded.project(self.coefficients, terms=self.terms)
        slope = self.likelihood.slopes(at, batch.target).first
        weight = coded.rows.used
        if self.fold >= 0:
            weight = weight * (coded.rows.fold(FOLDS) != self.fold)
        weights = weight * slope, weight * slope**2
        if self.pairs:
            return Residuals(*_crossed(curves, coded.levels, weights))
        sums = [
            np.concatenate(
                [np.bincount(coded.levels[:, s], w, curves.sizes[s]) for s in curves.curved]
            ).astype(np.float64)
            for w in weights
        ]
        return Residuals(*sums)


def _crossed(
    curves: Curves, levels: np.ndarray, weights: tuple[FloatArray, FloatArray]
) -> list[FloatArray]:
    """Return the sums of weights for every two coarse levels; [B, B] each."""
    coarse, starts = coarse_levels(curves)
    found = [np.zeros((starts[-1], starts[-1])) for _ in weights]
    for first in range(0, len(levels), _CHUNK):
        rows = slice(first, first + _CHUNK)
        z = np.zeros((len(levels[rows]), starts[-1]))
        for s, own in enumerate(coarse):
            z[np.arange(len(z)), starts[s] + own[levels[rows, s]]] = 1.0
        for w, total in zip(weights, found, strict=True):
            total += z.T @ (z * w[rows, None])
    return found


def refined(curves: Curves, sums: Residuals) -> tuple[IntArray, FloatArray]:
    """Return the columns whose curves are to be refined, and their first variances.

    A curve is refined where the mean of its evidence over `FINE_VARIANCES` is more than the number
    of curves; the best first, as far as `FINE_BUDGET` goes.
    """
    ends = np.cumsum(curves.sizes[curves.curved])
    found: list[tuple[float, int, float]] = []
    for s, first, second in zip(
        curves.curved,
        np.split(sums.first, ends[:-1]),
        np.split(sums.second, ends[:-1]),
        strict=True,
    ):
        fine = curves.fine(s)
        if fine.shape[1] >= FEWEST:
            own = np.column_stack([np.ones(len(fine)), curves.smooth(s)])
            value = evidence(*freed(fine, own, first, second), FINE_VARIANCES)
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


Grown = Callable[[Any, Terms, FloatArray], Phase]
"""From a fit, all its blocks and the variances of those that join it to the phase that fits it."""


def refine_curves(curves: Curves, fit: Any, grown: Grown) -> Algorithm:
    """Return the fit with those curves refined that its residuals say; itself where none are."""
    columns, variances = refined(curves, (yield Evaluate(_screen(fit))))
    if columns.size:
        fit = yield grown(fit, Terms(columns), variances)
    return fit


def add_pairs(curves: Curves, fit: Any, grown: Grown) -> Algorithm:
    """Return the fit with the pairs that its residuals say it lacks.

    Half of the pairs that there may be join it first; it is fitted, and screened again for the
    rest.
    """
    for last in (False, True):
        terms = fit.terms
        left = most_pairs(curves) - len(terms.pairs)
        room = left if last else (left + 1) // 2
        if room <= 0:
            continue
        sums = yield Evaluate(_screen(fit, pairs=True))
        pairs, variances = missing_pairs(curves, terms, sums.first, sums.second, room)
        if not len(pairs):
            break
        terms = replace(terms, pairs=np.concatenate([terms.pairs, pairs]))
        fit = yield grown(fit, terms, variances)
    return fit


def _screen(fit: Any, pairs: bool = False) -> Screen:
    return Screen(fit.coefficients, fit.terms, fit.fold, pairs, fit.likelihood)
