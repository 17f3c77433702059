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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, pi
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show
from vbmodels.core.linalg import cholesky, inverse, log_det, pack, solve, unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import FIRST, BlockFit, Layout
from vbmodels.experts.additive.curves import Terms
from vbmodels.experts.additive.likelihoods import Gaussian
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.additive.pairs import looked_for, missing_pairs, most_pairs
from vbmodels.experts.additive.posterior import Part, blended
from vbmodels.experts.additive.screen import Residuals, Screen, refined
from vbmodels.experts.additive.states import held_parts
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.rows import FOLDS

NOISE, BELIEF, LEAST = 0.5, 1.0, 1e-8
"""Variance that the noise is believed to have with the weight of some rows, and its least one."""
MOVES, CLOSE = 60, 0.03
"""Most moves of the variances, and the move of a logarithm that ends them."""
FLOOR = 0.5
"""Least noise of predictions, as a share of that of the evidence."""
WORTH = 2.0
"""Nats that pairs must bring over all held-out rows: they were chosen of many."""
FORMS = ("intercept", "lines", "curves")


@dataclass(frozen=True)
class TargetRows(State, kind="experts/additive.TargetRows"):
    """Rows with a number each: ``y`` [N], of mean 0 and variance 1; t of a row without one is 0."""

    rows: CodedRows
    y: FloatArray

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.rows.size

    @property
    def weight(self) -> FloatArray:
        """Weight of each row in the likelihood; [N]."""
        return self.rows.weight

    @property
    def used(self) -> FloatArray:
        """The same, 0 for rows without a number; [N]."""
        return self.rows.rows.used


@dataclass(frozen=True)
class Moments(State, kind="experts/additive.Moments"):
    """Blocks whose second moments are needed; ``fold``: without a part of the rows, -1: of all."""

    terms: Terms | None
    fold: int


@dataclass(frozen=True)
class MomentSums(Stats, kind="experts/additive.MomentSums"):
    """X'WX, packed, X'Wy, y'Wy, and the weight of the rows."""

    second: FloatArray
    right: FloatArray
    square: float
    weight: float

    @classmethod
    def of(cls, q: Moments, batch: TargetRows) -> MomentSums:
        """Sum up a partition."""
        weight = batch.used
        if q.fold >= 0:
            weight = weight * (batch.rows.rows.fold(FOLDS) != q.fold)
        right = weight * batch.y
        return cls(
            batch.rows.gram(weight, terms=q.terms),
            batch.rows.collect(right, terms=q.terms),
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

    def part(self) -> Part:
        """Return what predicts."""
        part = Part(self.coefficients, 0.0, self.fold, None, terms=self.terms)
        return part.with_covariance(unpack(self.hessian)) if self.fold < 0 else part


def _residual(second: FloatArray, sums: MomentSums, c: FloatArray) -> float:
    """Return |y - X c|^2_W."""
    return max(float(sums.square - 2.0 * c @ sums.right + c @ second @ c), 0.0)


@dataclass(frozen=True)
class HeldOutFits(State, kind="experts/additive.HeldOutFits"):
    """Fits without each held-out part: lines, curves, and pairs, in this order; [F][3]."""

    fits: tuple[tuple[GaussianFit, ...], ...]


@dataclass(frozen=True)
class Errors(Stats, kind="experts/additive.Errors"):
    """Products of the errors of 0, lines, curves and pairs on held-out rows [4, 4]; weight."""

    products: FloatArray
    weight: float

    @classmethod
    def of(cls, q: HeldOutFits, batch: TargetRows) -> Errors:
        """Sum up a partition."""
        fold = batch.rows.rows.fold(FOLDS)
        products, total = np.zeros((4, 4)), 0.0
        for fits in q.fits:
            weight = batch.used * (fold == fits[0].fold)
            found = [batch.rows.project(one.coefficients, terms=one.terms) for one in fits]
            errors = batch.y - np.stack([np.zeros(batch.size), *found])
            products += (errors * weight) @ errors.T
            total += float(weight.sum())
        return cls(products, total)


@dataclass(frozen=True)
class HeldOutSpread(State, kind="experts/additive.HeldOutSpread"):
    """The form that was taken without each held-out part, with covariances; [F]."""

    parts: tuple[Part, ...]


@dataclass(frozen=True)
class SpreadSums(Stats, kind="experts/additive.SpreadSums"):
    """Sum over held-out rows of c x' H^-1 x, and their weight."""

    total: float
    weight: float

    @classmethod
    def of(
        cls, q: HeldOutSpread, batch: TargetRows, curve: Callable[[FloatArray], FloatArray]
    ) -> SpreadSums:
        """Sum up a partition; ``curve`` is c by f, [N]."""
        fold, total, rows = batch.rows.rows.fold(FOLDS), 0.0, 0.0
        for part in q.parts:
            assert part.covariance is not None
            weight = batch.used * (fold == part.fold)
            gram = batch.rows.gram(weight * curve(part.project(batch.rows)), terms=part.terms)
            total += float(np.sum(unpack(part.covariance) * unpack(gram)))
            rows += float(weight.sum())
        return cls(total, rows)


@dataclass(frozen=True)
class FormChoice(State, kind="experts/additive.FormChoice"):
    """Which form held-out rows chose, and the weight of pairs."""

    form: str
    pairs_weight: float

    @property
    def place(self) -> int:
        """Place of the fit whose uncertainty predictions have: 0 lines, 1 curves, 2 pairs."""
        if self.pairs_weight > 0.0:
            return 2
        return 0 if self.form == "lines" else 1

    def coefficients(self, fits: Sequence[BlockFit | GaussianFit], alone: float) -> FloatArray:
        """Return those of the form among the fits to all rows; ``alone`` is its intercept."""
        c = fits[self.place].coefficients
        if self.form == "intercept":
            return blended(np.array([alone]), c, self.pairs_weight)
        if 0.0 < self.pairs_weight < 1.0:
            return blended(fits[self.form == "curves"].coefficients, c, self.pairs_weight)
        return c


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
        best = int(np.argmin(square[:3]))
        own, both, cross = square[best], square[3], sums.products[best, 3]
        away = own - 2.0 * cross + both
        weight = float(np.clip((own - cross) / away, 0.0, 1.0)) if away > 1e-12 * own else 0.0
        after = own - 2.0 * weight * (own - cross) + weight**2 * away
        if 0.5 * sums.weight * log(max(own, 1e-300) / max(after, 1e-300)) < WORTH:
            weight, after = 0.0, own
        errors = np.append(square, after) / max(sums.weight, 1e-300)
        return cls(FORMS[best], weight, errors)


@dataclass(frozen=True)
class GaussianState(State, kind="experts/additive.GaussianState"):
    """What is known of a fit: its summary of the rows, the fits to all of them, and the choice.

    ``fits`` are lines, curves and pairs.
    """

    observed: DesignSummary
    fits: tuple[GaussianFit, ...] = ()
    chosen: GaussianChoice | None = None


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
class GaussianAdditive:
    """Fit an additive model to numbers; ``pairs``: with pairs of columns, where they predict."""

    pairs: bool = True

    objective: ClassVar[str] = "log evidence"

    def observe(self, batch: TargetRows) -> DesignSummary:
        """Count the rows and sum up their columns."""
        return DesignSummary.of(batch.rows)

    def init(self, observed: DesignSummary, rng: np.random.Generator) -> GaussianState:
        """Return what is known before the first sweep."""
        if observed.curves is None:
            raise ValueError("expected rows with levels of columns (basis_of with bare=True)")
        return GaussianState(observed)

    def local_step(self, q: GaussianState, batch: TargetRows, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(
        self,
        q: GaussianState | Moments | Screen | HeldOutFits | HeldOutSpread,
        batch: TargetRows,
        local: None,
    ) -> MomentSums | Residuals | Errors | SpreadSums:
        """Return the sums that a fit, a screen or a choice needs."""
        if isinstance(q, Screen):
            fold = batch.rows.rows.fold(FOLDS) if q.fold >= 0 else None
            return Residuals.of(q, batch.rows, batch.y, fold)
        if isinstance(q, HeldOutFits):
            return Errors.of(q, batch)
        if isinstance(q, HeldOutSpread):
            return SpreadSums.of(q, batch, np.ones_like)
        if isinstance(q, GaussianState):
            q = _last(q)
        return MomentSums.of(q, batch)

    def global_step(self, q: GaussianState, stats: MomentSums) -> GaussianState:
        """Return the last fit's blocks fitted to these sums."""
        return replace(q, fits=(*q.fits[:-1], _fitted(_last(q), stats, q.observed)))

    def elbo(self, q: GaussianState, stats: MomentSums) -> float:
        """Return the log evidence of the last fit."""
        return q.fits[-1].evidence if q.fits else float("-inf")

    def posterior(self, q: GaussianState) -> GaussianPosterior:
        """Return the additive fit that held-out rows chose."""
        if q.chosen is None:
            raise ValueError("the form is still being chosen: there is no posterior yet")
        fit, c = q.fits[q.chosen.place], q.chosen.coefficients(q.fits, 0.0)
        noise = max(float(q.chosen.errors[-1]) - q.chosen.spread, FLOOR * fit.noise)
        return GaussianPosterior(replace(fit.part(), coefficients=c), noise, fit.hessian)

    def baseline(self, q: GaussianState) -> Part:
        """Return ridge regression on lines, each with a variance of its own."""
        return q.fits[0].part()

    def algorithm(self, q: GaussianState) -> Algorithm:
        """Fit all rows, then those without each held-out part, and choose."""
        every = []
        for fold in (-1, *held_parts(q.observed)):
            fits = yield Phase(self._fit(q, fold), "the form was being chosen")
            every.append(fits)
            q = replace(q, fits=every[0])
            yield Show(q, q.fits[-1].evidence, by_trace=False)  # not of other rows
        errors = yield Evaluate(HeldOutFits(tuple(every[1:])))
        chosen = GaussianChoice.of(errors)
        taken = (fits[chosen.place] for fits in every[1:])
        parts = (fit.part().with_covariance(unpack(fit.hessian)) for fit in taken)
        spread = yield Evaluate(HeldOutSpread(tuple(parts)))
        chosen = replace(chosen, spread=spread.total / max(spread.weight, 1e-300))
        q = replace(q, chosen=chosen)
        yield Show(q, q.fits[-1].evidence, by_trace=False)
        return q

    def _fit(self, q: GaussianState, fold: int) -> Algorithm:
        """Return fits of lines, of curves, and of pairs without a part of the rows."""
        curves = q.observed.curves
        assert curves is not None
        searched = self.pairs and looked_for(curves)
        at = Moments(Terms.none(), fold)
        sums = yield Evaluate(at)
        alone = Moments(None, fold)
        lines = _fitted(alone, _of_lines(sums, curves.blocks.size), q.observed)
        fit = _fitted(at, sums, q.observed)
        if fold < 0 and (searched or curves.curved.size):
            yield Show(replace(q, fits=(lines,)), lines.evidence, by_trace=False)
        if curves.curved.size:
            residuals = yield Evaluate(_screen(fit))
            columns, variances = refined(curves, residuals)
            if columns.size:
                fit = yield Phase(self._grown(q, fit, Terms(columns), variances))
            if fold < 0 and searched:
                yield Show(replace(q, fits=(lines, fit)), fit.evidence, by_trace=False)
        paired, terms = fit, fit.terms or Terms.none()
        for last in (False, True) if searched else ():
            left = most_pairs(curves) - len(terms.pairs)
            room = left if last else (left + 1) // 2
            if room <= 0:
                continue
            residuals = yield Evaluate(_screen(paired, pairs=True))
            pairs, variances = missing_pairs(curves, terms, residuals.first, residuals.second, room)
            if not len(pairs):
                break
            terms = replace(terms, pairs=np.concatenate([terms.pairs, pairs]))
            paired = yield Phase(self._grown(q, paired, terms, variances))
        return lines, fit, paired

    def _grown(
        self, q: GaussianState, fit: GaussianFit, terms: Terms, variances: FloatArray
    ) -> Algorithm:
        """Return a fit with more blocks, which come last."""
        at = Moments(terms, fit.fold)
        sums = yield Evaluate(at)
        found = np.append(fit.variances, variances)
        return _fitted(at, sums, q.observed, found, fit.noise)


def _last(q: GaussianState) -> Moments:
    return Moments(q.fits[-1].terms if q.fits else Terms.none(), -1)


def _screen(fit: GaussianFit, pairs: bool = False) -> Screen:
    assert fit.terms is not None
    return Screen(fit.coefficients, fit.terms, fit.fold, pairs, Gaussian(fit.noise))


def _of_lines(sums: MomentSums, lines: int) -> MomentSums:
    """Return the sums of lines and the intercept alone."""
    kept = np.append(np.arange(lines), sums.right.size - 1)
    second = unpack(sums.second)[np.ix_(kept, kept)]
    return replace(sums, second=pack(second), right=sums.right[kept])


def _fitted(
    q: Moments,
    sums: MomentSums,
    observed: DesignSummary,
    variances: FloatArray | None = None,
    noise: float = NOISE,
) -> GaussianFit:
    layout = Layout.of(observed, q.terms)
    begins = FIRST[layout.kind] if variances is None else variances
    return GaussianFit.at(q, sums, layout, begins, noise)
