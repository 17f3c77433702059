"""An additive model of a number: lines, curves and pairs of columns under Gaussian noise.

    y = b + sum_d (a_d x_d + f_d(x_d)) + sum_pairs g_de(x_d, x_e) + e,   e ~ N(0, s^2 / weight)

The blocks are those of the logistic model (`blocks`, `curves`, `pairs`), with coefficients N(0, v_g
I), and the target has mean 0 and variance 1. Given X'WX, X'Wy and y'Wy all is in closed form:
H = X'WX / s^2 + diag(1 / v), c = H^-1 X'Wy / s^2, and v and s^2 are at the fixed point of the
evidence (MacKay 1992; `Layout.moved`),

    s^2 <- (|y - X c|^2_W + BELIEF s0^2) / (n - tr(X'WX H^-1) / s^2 + BELIEF).

1. Lines; lines and curves, refined where the residuals say so (`screen`, with the score r / s^2);
   the pairs that they say it lacks. One pass over the rows for the sums of each, one to screen.
2. The same without each held-out part of the rows, selection included.
3. On held-out rows the additive form of the smallest squared error is taken (intercept, lines,
   curves), and pairs with the weight u that minimises |y - (1 - u) f - u g|^2, where that is worth
   `WORTH` nats. Both are sums of the same functions, so what is returned is one additive fit.
4. The error of a held-out row is its noise and what the coefficients of a fit without it are off,
   E (y - x'c)^2 = s^2 + x' H^-1 x, so the noise of predictions is the mean squared error less the
   mean of the latter (`HeldOutSpread`), which each new row then has of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show, WithoutLocals
from vbmodels.core.linalg import cholesky, inverse, log_det, pack, solve, unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import FIRST, Layout
from vbmodels.experts.additive.held_out import (
    FORMS,
    WORTH,
    FormChoice,
    best_form,
    fit_and_choose,
    refuse_no_levels,
)
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.curves import Terms
from vbmodels.experts.terms.likelihoods import Gaussian
from vbmodels.experts.terms.pairs import looked_for
from vbmodels.experts.terms.screen import add_pairs, refine_curves
from vbmodels.experts.terms.step_rows import CodedRows, TargetRows

NOISE, BELIEF, LEAST = 0.5, 1.0, 1e-8
"""Variance that the noise is believed to have with the weight of some rows, and its least one."""
MOVES, CLOSE = 60, 0.03
"""Most moves of the variances, and the move of a logarithm that ends them."""
FLOOR = 0.5
"""Least noise of predictions, as a share of that of the evidence."""


@dataclass(frozen=True)
class MomentSums(Stats, kind="experts/additive.MomentSums"):
    """X'WX, packed, X'Wy, y'Wy, and the weight of the rows."""

    second: FloatArray
    right: FloatArray
    square: float
    weight: float


@dataclass(frozen=True)
class Moments(State, kind="experts/additive.Moments"):
    """Blocks whose second moments are needed; ``fold``: without a part of the rows, -1: of all."""

    terms: Terms | None
    fold: int

    def sums(self, batch: TargetRows) -> MomentSums:
        """Sum up a partition."""
        weight = batch.used
        if self.fold >= 0:
            weight = weight * (batch.rows.rows.fold(FOLDS) != self.fold)
        right = weight * batch.y
        return MomentSums(
            batch.rows.gram(weight, terms=self.terms),
            batch.rows.collect(right, terms=self.terms),
            float(right @ batch.y),
            float(weight.sum()),
        )


@dataclass(frozen=True)
class GaussianFit(State, kind="experts/additive.GaussianFit"):
    """A fit of some blocks.

    Attributes
    ----------
    terms, fold
        See `Moments`; None for lines alone.
    variances
        v; [G].
    noise
        s^2.
    coefficients
        c; [P].
    hessian
        H, packed.
    evidence
        log p(y) at these variances.
    """

    terms: Terms | None
    fold: int
    variances: FloatArray
    noise: float
    coefficients: FloatArray
    hessian: FloatArray
    evidence: float

    @classmethod
    def at(
        cls, q: Moments, sums: MomentSums, layout: Layout, variances: FloatArray, noise: float
    ) -> GaussianFit:
        """Find variances, noise and coefficients by the sums of all rows."""
        second = unpack(sums.second)
        for _ in range(MOVES):
            precision = layout.precision(variances)
            factor = cholesky(second / noise + np.diag(precision), "the second moments")
            c = solve(factor, sums.right / noise)
            diagonal = np.diag(inverse(factor))
            after, change = layout.moved(variances, c, diagonal)
            free = float(c.size - precision @ diagonal)
            left = _residual(second, sums, c)
            found = (left + BELIEF * NOISE) / (max(sums.weight - free, 1.0) + BELIEF)
            found = max(found, LEAST)
            change = max(change, abs(log(found / noise)))
            variances, noise = after, found
            if change < CLOSE:
                break
        precision = layout.precision(variances)
        hessian = second / noise + np.diag(precision)
        factor = cholesky(hessian, "the second moments")
        c = solve(factor, sums.right / noise)
        value = -0.5 * (
            sums.weight * log(2.0 * pi * noise)
            + _residual(second, sums, c) / noise
            + precision @ c**2
            + float(log_det(factor))
            - np.log(precision).sum()
        )
        return cls(q.terms, q.fold, variances, noise, c, pack(hessian), float(value))

    @property
    def likelihood(self) -> Gaussian:
        """Of the numbers."""
        return Gaussian(self.noise)

    def uncertain_part(self, observed: DesignSummary) -> Part:
        """Return what predicts, with the covariance."""
        part = Part(self.coefficients, 0.0, self.fold, None, terms=self.terms)
        return part.with_covariance(unpack(self.hessian))


def _residual(second: FloatArray, sums: MomentSums, c: FloatArray) -> float:
    """Return |y - X c|^2_W."""
    return max(float(sums.square - 2.0 * c @ sums.right + c @ second @ c), 0.0)


@dataclass(frozen=True)
class Errors(Stats, kind="experts/additive.Errors"):
    """Products of the errors of 0, lines, curves and pairs on held-out rows [4, 4]; weight."""

    products: FloatArray
    weight: float


@dataclass(frozen=True)
class HeldOutFits(State, kind="experts/additive.HeldOutFits"):
    """Fits without each held-out part: lines, curves, and pairs, in this order; [F][3]."""

    fits: tuple[tuple[GaussianFit, ...], ...]

    def sums(self, batch: TargetRows) -> Errors:
        """Sum up a partition."""
        fold = batch.rows.rows.fold(FOLDS)
        products, total = np.zeros((4, 4)), 0.0
        for fits in self.fits:
            weight = batch.used * (fold == fits[0].fold)
            found = [batch.rows.project(one.coefficients, terms=one.terms) for one in fits]
            errors = batch.y - np.stack([np.zeros(batch.size), *found])
            products += (errors * weight) @ errors.T
            total += float(weight.sum())
        return Errors(products, total)


@dataclass(frozen=True)
class GaussianChoice(FormChoice, kind="experts/additive.GaussianChoice"):
    """What held-out rows said.

    Attributes
    ----------
    form
        "intercept", "lines" or "curves".
    pairs_weight
        u.
    errors
        Mean squared error of the intercept, lines, curves, curves with pairs, and what was taken,
        as shares of the target's variance; [5].
    spread
        Mean over the same rows of what the coefficients' uncertainty adds to the variance of a
        prediction, in the fits without them.
    """

    errors: FloatArray
    spread: float = 0.0

    @classmethod
    def of(cls, sums: Errors) -> GaussianChoice:
        """Choose the form and the weight of pairs."""
        square = np.diag(sums.products)
        form = best_form(-square[:3])
        best = FORMS.index(form)
        own, both, cross = square[best], square[3], sums.products[best, 3]
        away = own - 2.0 * cross + both
        weight = float(np.clip((own - cross) / away, 0.0, 1.0)) if away > 1e-12 * own else 0.0
        after = own - 2.0 * weight * (own - cross) + weight**2 * away
        if 0.5 * sums.weight * log(max(own, 1e-300) / max(after, 1e-300)) < WORTH:
            weight, after = 0.0, own
        errors = np.append(square, after) / max(sums.weight, 1e-300)
        return cls(form, weight, errors)

    def less(self, spread: float) -> GaussianChoice:
        """Return the choice with what is known of the coefficients' uncertainty."""
        return replace(self, spread=spread)


@dataclass(frozen=True)
class GaussianState(State, kind="experts/additive.GaussianState"):
    """What is known of a fit: its summary of the rows, the fits to all of them, and the choice.

    ``fits`` are lines, curves and pairs.
    """

    design: DesignSummary
    fits: tuple[GaussianFit, ...] = ()
    chosen: GaussianChoice | None = None

    @property
    def value(self) -> float:
        """The log evidence of the last fit."""
        return self.fits[-1].evidence

    def sums(self, batch: TargetRows) -> MomentSums:
        """Sum up a partition for the last fit."""
        return Moments(self.fits[-1].terms if self.fits else Terms.none(), -1).sums(batch)


@dataclass(frozen=True)
class GaussianPosterior(State, kind="experts/additive.GaussianPosterior"):
    """An additive fit: its part, the variance of the noise, and H, packed."""

    part: Part
    noise: float
    hessian: FloatArray

    def predict(self, batch: CodedRows) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of a new row's number, for every row; [N] each."""
        spread = batch.spread(unpack(self.hessian), terms=self.part.terms)
        return self.part.project(batch), np.sqrt(self.noise + np.maximum(spread, 0.0))


@dataclass(frozen=True)
class GaussianAdditive(WithoutLocals):
    """Fit an additive model to numbers; ``pairs``: with pairs of columns, where they predict."""

    pairs: bool = True

    objective: ClassVar[str] = "log evidence"

    def observe(self, batch: TargetRows) -> DesignSummary:
        """Count the rows and sum up their columns."""
        return DesignSummary.of(batch.rows)

    def init(self, observed: DesignSummary, rng: np.random.Generator) -> GaussianState:
        """Return what is known before the first sweep."""
        refuse_no_levels(observed)
        return GaussianState(observed)

    def elbo(self, q: GaussianState, stats: MomentSums) -> float:
        """Return the log evidence of the last fit."""
        return q.value

    def posterior(self, q: GaussianState) -> GaussianPosterior:
        """Return the additive fit that held-out rows chose."""
        if q.chosen is None:
            raise ValueError("the form is still being chosen: there is no posterior yet")
        fit, c = q.fits[q.chosen.place], q.chosen.coefficients(q.fits, 0.0)
        noise = max(float(q.chosen.errors[-1]) - q.chosen.spread, FLOOR * fit.noise)
        part = replace(fit.uncertain_part(q.design), coefficients=c)
        return GaussianPosterior(part, noise, fit.hessian)

    def baseline(self, q: GaussianState) -> Part:
        """Return ridge regression on lines, each with a variance of its own."""
        return q.fits[0].uncertain_part(q.design)

    def algorithm(self, q: GaussianState) -> Algorithm:
        """Fit all rows, then those without each held-out part, and choose."""
        return fit_and_choose(q, self._fit_forms, _chosen, Gaussian(1.0))

    def _fit_forms(self, q: GaussianState, fold: int) -> Algorithm:
        """Return fits of lines, of curves, and of pairs without a part of the rows."""
        curves = q.design.curves
        assert curves is not None
        searched = self.pairs and looked_for(curves)
        at = Moments(Terms.none(), fold)
        sums = yield Evaluate(at)
        lines = _fitted(Moments(None, fold), _of_lines(sums, curves.blocks.size), q.design)
        fit = _fitted(at, sums, q.design)

        def grown(fit: GaussianFit, terms: Terms, variances: FloatArray) -> Phase:
            return Phase(_grown(q.design, fit, terms, variances))

        if fold < 0 and (searched or curves.curved.size):
            yield Show(replace(q, fits=(lines,)), lines.evidence, by_trace=False)
        if curves.curved.size:
            fit = yield from refine_curves(curves, fit, grown)
            if fold < 0 and searched:
                yield Show(replace(q, fits=(lines, fit)), fit.evidence, by_trace=False)
        paired = (yield from add_pairs(curves, fit, grown)) if searched else fit
        return lines, fit, paired


def _chosen(q: GaussianState, fits: tuple[tuple[GaussianFit, ...], ...]) -> Algorithm:
    return GaussianChoice.of((yield Evaluate(HeldOutFits(fits))))


def _grown(
    design: DesignSummary, fit: GaussianFit, terms: Terms, variances: FloatArray
) -> Algorithm:
    """Return a fit with more blocks, which come last."""
    at = Moments(terms, fit.fold)
    sums = yield Evaluate(at)
    return _fitted(at, sums, design, np.append(fit.variances, variances), fit.noise)


def _of_lines(sums: MomentSums, lines: int) -> MomentSums:
    """Return the sums of lines and the intercept alone."""
    kept = np.append(np.arange(lines), sums.right.size - 1)
    second = unpack(sums.second)[np.ix_(kept, kept)]
    return replace(sums, second=pack(second), right=sums.right[kept])


def _fitted(
    q: Moments,
    sums: MomentSums,
    design: DesignSummary,
    variances: FloatArray | None = None,
    noise: float = NOISE,
) -> GaussianFit:
    layout = Layout.of(design, q.terms)
    begins = FIRST[layout.kind] if variances is None else variances
    return GaussianFit.at(q, sums, layout, begins, noise)
