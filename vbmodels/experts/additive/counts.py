"""An additive model of a count: log mean = b + lines, curves and pairs of columns.

    E y = e^f(x),   Var y = phi e^f(x),   f = b + sum_d (a_d x_d + f_d(x_d)) + sum_pairs g_de

The blocks, their variances and their search are those of the logistic model (`blocks`)
under the likelihood `Poisson`. Counts mostly vary more than a Poisson variable does:
phi >= 1 is Pearson's chi^2 over its degrees of freedom, of lines and then of curves, and divides
the likelihood, so that blocks are not refined by what is noise.

1. Lines and then curves of all rows, for phi; then lines, curves, and curves with pairs.
2. The same without each held-out part of the rows, selection included.
3. The form of the smallest held-out deviance is taken, and pairs with the weight u in f of the
   smallest one, where that is worth `WORTH` nats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show
from vbmodels.core.linalg import cholesky, inverse, pack, unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import (
    ROUGH,
    BlockFit,
    Layout,
    climbed,
    fit_curves,
    fit_pairs,
    part_of,
)
from vbmodels.experts.additive.gaussian import (
    FORMS,
    WORTH,
    FormChoice,
    HeldOutSpread,
    SpreadSums,
    TargetRows,
)
from vbmodels.experts.additive.likelihoods import Poisson, poisson_deviance
from vbmodels.experts.additive.newton import DesignSummary, FitRequest
from vbmodels.experts.additive.pairs import looked_for
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.screen import Residuals, Screen
from vbmodels.experts.additive.states import FIT, Fits, FitSums, answer_fits, held_parts
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.rows import FOLDS

WEIGHTS = np.linspace(0.0, 1.0, 21)
"""Weights that pairs may have."""
LEAST = 0.5
"""Smallest phi of predictions, as a share of Pearson's chi^2 of a held-out row."""
_HIGHEST, _TINY = 100.0, 1e-300


@dataclass(frozen=True)
class CountRows(TargetRows, kind="experts/additive.CountRows"):
    """Rows with a count each: ``y`` [N] as it is; t of a row without one is 0."""


@dataclass(frozen=True)
class CountSummary(Stats, kind="experts/additive.CountSummary"):
    """What is known of the rows before a fit: their columns, and the sum of the counts."""

    design: DesignSummary
    total: float

    @property
    def intercept(self) -> float:
        """Logarithm of the mean count."""
        return log(max(self.total, 0.5) / max(float(self.design.weight.sum()), _TINY))


@dataclass(frozen=True)
class HeldOutFits(State, kind="experts/additive.HeldOutCountFits"):
    """Lines, curves and pairs, each fitted without the same part of the rows; [F][3].

    A part of -1 stands for all rows, which are then not held out. ``intercept`` is b alone.
    """

    fits: tuple[tuple[BlockFit, ...], ...]
    intercept: float


@dataclass(frozen=True)
class CountErrors(Stats, kind="experts/additive.CountErrors"):
    """Deviance and Pearson's chi^2 of rows, and their weight.

    Of the intercept, lines and curves, with pairs in f by each of `WEIGHTS`; [3, U].
    """

    deviance: FloatArray
    pearson: FloatArray
    weight: float

    @classmethod
    def of(cls, q: HeldOutFits, batch: CountRows) -> CountErrors:
        """Sum up a partition."""
        fold = batch.rows.rows.fold(FOLDS)
        sums, total = np.zeros((2, 3, WEIGHTS.size)), 0.0
        for lines, curves, pairs in q.fits:
            part = lines.fold
            weight = batch.used if part < 0 else batch.used * (fold == part)
            at, f = {}, [np.full(batch.size, q.intercept)]
            for fit in (lines, curves, pairs):
                key = fit.coefficients.tobytes()
                if key not in at:
                    at[key] = batch.rows.project(fit.coefficients, terms=fit.terms)
                f.append(at[key])
            for i, own in enumerate(f[:3]):
                for j, u in enumerate(WEIGHTS):
                    mean = mean_of((1.0 - u) * own + u * f[3])
                    sums[0, i, j] += weight @ poisson_deviance(batch.y, mean)
                    sums[1, i, j] += weight @ ((batch.y - mean) ** 2 / mean)
            total += float(weight.sum())
        return cls(sums[0], sums[1], total)


def mean_of(f: FloatArray) -> FloatArray:
    """Return the mean count exp(f); f beyond 100 in size is cut."""
    return np.asarray(np.exp(np.clip(f, -_HIGHEST, _HIGHEST)))


@dataclass(frozen=True)
class CountChoice(FormChoice, kind="experts/additive.CountChoice"):
    """What held-out rows said.

    Attributes
    ----------
    form
        "intercept", "lines" or "curves".
    pairs_weight
        u.
    deviances
        Mean deviance of the intercept, lines, curves, curves with pairs, and what was taken; [5].
    dispersion
        Variance of a count over its mean: Pearson's chi^2 of held-out rows, a row, less the mean
        of e^f x' H^-1 x, by which the coefficients are uncertain.
    """

    deviances: FloatArray
    dispersion: float

    @classmethod
    def of(cls, sums: CountErrors, phi: float) -> CountChoice:
        """Choose the form and the weight of pairs; ``phi`` is what the fits had."""
        best = int(np.argmin(sums.deviance[:, 0]))
        along = sums.deviance[best]
        at = int(np.argmin(along))
        if 0.5 * (along[0] - along[at]) / phi < WORTH:
            at = 0
        rows = max(sums.weight, _TINY)
        found = np.append(sums.deviance[:, 0], [along[-1], along[at]]) / rows
        dispersion = float(sums.pearson[best, at]) / rows
        return cls(FORMS[best], float(WEIGHTS[at]), found, dispersion)


@dataclass(frozen=True)
class CountState(State, kind="experts/additive.CountState"):
    """What is known of a fit: ``fits`` to all rows are lines, curves and pairs."""

    observed: CountSummary
    likelihood: Poisson = field(default_factory=Poisson)
    fits: tuple[BlockFit, ...] = ()
    chosen: CountChoice | None = None


@dataclass(frozen=True)
class CountPosterior(State, kind="experts/additive.CountPosterior"):
    """An additive fit of the log mean: its part, phi, and H, packed."""

    part: Part
    dispersion: float
    hessian: FloatArray

    def predict(self, batch: CodedRows) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of a new row's count, for every row; [N] each."""
        mean = mean_of(self.part.project(batch))
        spread = np.maximum(batch.spread(unpack(self.hessian), terms=self.part.terms), 0.0)
        return mean, np.sqrt(self.dispersion * mean + mean**2 * spread)


@dataclass(frozen=True)
class CountAdditive:
    """Fit an additive model to counts; ``pairs``: with pairs of columns, where they predict."""

    pairs: bool = True

    objective: ClassVar[str] = FIT

    def observe(self, batch: CountRows) -> CountSummary:
        """Sum up the columns and the counts."""
        return CountSummary(DesignSummary.of(batch.rows), float(batch.used @ batch.y))

    def init(self, observed: CountSummary, rng: np.random.Generator) -> CountState:
        """Return what is known before the first sweep."""
        if observed.design.curves is None:
            raise ValueError("expected rows with levels of columns (basis_of with bare=True)")
        return CountState(observed)

    def local_step(self, q: CountState, batch: CountRows, local: None) -> None:
        """Do nothing: a partition has no parameters of its own."""

    def suff_stats(
        self,
        q: CountState | Fits | Screen | HeldOutFits | HeldOutSpread,
        batch: CountRows,
        local: None,
    ) -> FitSums | Residuals | CountErrors | SpreadSums:
        """Return what a fit, a screen or a choice needs."""
        if isinstance(q, Screen):
            fold = batch.rows.rows.fold(FOLDS) if q.fold >= 0 else None
            return Residuals.of(q, batch.rows, batch.y, fold)
        if isinstance(q, HeldOutFits):
            return CountErrors.of(q, batch)
        if isinstance(q, HeldOutSpread):
            return SpreadSums.of(q, batch, mean_of)
        if isinstance(q, CountState):
            fit = _last(q)
            how = fit.coefficients, -1, True
            q = Fits((FitRequest(*how, terms=fit.terms, likelihood=fit.likelihood),))
        return answer_fits(q, batch.rows, batch.y)

    def global_step(self, q: CountState, stats: FitSums) -> CountState:
        """Return the last fit a step of Newton further; `algorithm` goes on to its end."""
        fit = _last(q)
        fit = replace(fit, trial=fit.coefficients, evaluation=None)
        fit = fit.take(stats.evaluations[0], q.observed.design, 0.0)
        return replace(q, fits=(*q.fits[:-1], replace(fit, coefficients=fit.trial)))

    def elbo(self, q: CountState, stats: FitSums) -> float:
        """Return the log-likelihood over phi of the last fit, but for a constant."""
        return stats.mean

    def posterior(self, q: CountState) -> CountPosterior:
        """Return the additive fit that held-out rows chose."""
        if q.chosen is None:
            raise ValueError("the form is still being chosen: there is no posterior yet")
        fit = q.fits[q.chosen.place]
        c = q.chosen.coefficients(q.fits, q.observed.intercept)
        part = part_of(fit, q.observed.design)
        hessian = pack(fit.hessian(q.observed.design))
        return CountPosterior(replace(part, coefficients=c), q.chosen.dispersion, hessian)

    def baseline(self, q: CountState) -> Part:
        """Return Poisson regression on lines, each with a variance of its own."""
        return part_of(q.fits[0], q.observed.design)

    def algorithm(self, q: CountState) -> Algorithm:
        """Fit all rows, then those without each held-out part, and choose."""
        doing = "the form was being chosen"
        for lines in (True, False):
            fit = yield Phase(self._fit_form(q, -1, lines), doing)
            phi = yield Phase(self._dispersion(q, fit), doing)
            q = replace(q, likelihood=Poisson(phi))
        every = []
        for fold in (-1, *held_parts(q.observed.design)):
            every.append((yield Phase(self._fit(q, fold), doing)))
            q = replace(q, fits=every[0])
            yield Show(q, _log_likelihood(q), by_trace=False)
        sums = yield Evaluate(HeldOutFits(tuple(every[1:]), q.observed.intercept))
        chosen = CountChoice.of(sums, q.likelihood.dispersion)
        design, place = q.observed.design, chosen.place
        taken = (fits[place] for fits in every[1:])
        parts = (part_of(fit, design).with_covariance(fit.hessian(design)) for fit in taken)
        spread = yield Evaluate(HeldOutSpread(tuple(parts)))
        phi = chosen.dispersion - spread.total / max(spread.weight, _TINY)
        q = replace(q, chosen=replace(chosen, dispersion=max(phi, LEAST * chosen.dispersion)))
        yield Show(q, _log_likelihood(q), by_trace=False)
        return q

    def _fit(self, q: CountState, fold: int) -> Algorithm:
        """Return fits of lines, of curves, and of pairs without a part of the rows."""
        lines = yield Phase(self._fit_form(q, fold, True))
        if fold < 0:
            q = replace(q, fits=(lines,))
            yield Show(q, _log_likelihood(q), by_trace=False)
        curves = yield Phase(self._fit_form(q, fold, False))
        if fold < 0:
            q = replace(q, fits=(lines, curves))
            yield Show(q, _log_likelihood(q), by_trace=False)
        pairs = curves
        design = q.observed.design
        if self.pairs and looked_for(design.curves):
            pairs = yield Phase(fit_pairs(design, curves, ROUGH * design.rows))
        return lines, curves, pairs

    def _fit_form(self, q: CountState, fold: int, lines: bool) -> Algorithm:
        """Return the fit of lines, or of lines and curves."""
        design = q.observed.design
        first = BlockFit.first(design, fold, q.likelihood, q.observed.intercept, lines)
        rough = ROUGH * design.rows
        if lines:
            return (yield Phase(climbed(first, design, rough)))
        return (yield Phase(fit_curves(design, first, rough)))

    def _dispersion(self, q: CountState, fit: BlockFit) -> Algorithm:
        """Return Pearson's chi^2 of a fit over its degrees of freedom, at least 1."""
        sums = yield Evaluate(HeldOutFits(((fit, fit, fit),), q.observed.intercept))
        design = q.observed.design
        precision = Layout.of(design, fit.terms).precision(fit.variances)
        covariance = inverse(cholesky(fit.hessian(design), "the second moments"))
        free = float(precision.size - precision @ np.diag(covariance))
        return max(float(sums.pearson[1, 0]) / max(sums.weight - free, 1.0), 1.0)


def _last(q: CountState) -> BlockFit:
    if q.fits:
        return q.fits[-1]
    return BlockFit.first(q.observed.design, -1, q.likelihood, q.observed.intercept)


def _log_likelihood(q: CountState) -> float:
    evaluation = _last(q).evaluation
    return float("-inf") if evaluation is None else evaluation.value
