"""Additive models of numbers and of counts: of lines, curves and pairs what predicts held-out rows.

1. Lines, curves, and curves with pairs are fitted to all rows, and without each held-out part of
   them, selection included.
2. On held-out rows the additive form that predicts best is taken (intercept, lines, curves), and
   pairs with a weight u, where that is worth `WORTH` nats. Both are sums of the same functions, so
   what is returned is one additive fit.
3. What a held-out row is off by is noise and what the coefficients of a fit without it are off, of
   which the mean is taken off the noise (`HeldOutSpread`): each new row has its own of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show, WithoutLocals
from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import (
    ROUGH,
    BlockFit,
    climbed,
    fit_curves,
    fit_pairs,
)
from vbmodels.experts.additive.newton import DesignSummary, FitSums
from vbmodels.experts.additive.posterior import Part, blended
from vbmodels.experts.additive.states import held_parts
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.likelihoods import Likelihood
from vbmodels.experts.terms.pairs import looked_for
from vbmodels.experts.terms.step_rows import TargetRows

WORTH = 2.0
"""Nats that pairs must bring over all held-out rows: they were chosen of many."""
FORMS = ("intercept", "lines", "curves")
"""Of two that are alike the first, which is simpler, is taken."""
TINY = 1e-300
CHOOSING = "the form was being chosen"


@dataclass(frozen=True)
class HeldOutSpread(State, kind="experts/additive.HeldOutSpread"):
    """The form that was taken without each held-out part, with covariances; [F]."""

    parts: tuple[Part, ...]
    likelihood: Likelihood

    def sums(self, batch: TargetRows) -> SpreadSums:
        """Sum up a partition."""
        fold, total, rows = batch.rows.rows.fold(FOLDS), 0.0, 0.0
        for part in self.parts:
            assert part.covariance is not None
            weight = batch.used * (fold == part.fold)
            curve = self.likelihood.slopes(part.project(batch.rows), batch.y).curve
            gram = batch.rows.gram(weight * curve, part.joint, part.terms)
            total += float(np.sum(unpack(part.covariance) * unpack(gram)))
            total += float(weight @ part.unspanned(batch.rows))
            rows += float(weight.sum())
        return SpreadSums(total, rows)


@dataclass(frozen=True)
class SpreadSums(Stats, kind="experts/additive.SpreadSums"):
    """Sum over held-out rows of c x' H^-1 x, c the curve of the likelihood, and their weight.

    Of a Gaussian process with what its landmarks do not span.
    """

    total: float
    weight: float


@dataclass(frozen=True)
class FormChoice(State, kind="experts/additive.FormChoice"):
    """Which form held-out rows chose, and the weight of pairs.

    ``process_weight`` is the share of a Gaussian process in predictions; pairs weigh in what is
    left.
    """

    form: str
    pairs_weight: float
    process_weight: float = field(default=0.0, kw_only=True)

    @property
    def place(self) -> int:
        """Place of the fit whose uncertainty predictions have: 0 lines, 1 curves, 2 pairs."""
        if self.pairs_weight > 0.0:
            return 2
        return 0 if self.form == "lines" else 1

    def coefficients(self, fits: Sequence[Any], alone: float) -> FloatArray:
        """Return those of the form among the fits to all rows; ``alone`` is its intercept."""
        c: FloatArray = fits[self.place].coefficients
        if self.form == "intercept":
            return blended(np.array([alone]), c, self.pairs_weight)
        if 0.0 < self.pairs_weight < 1.0:
            return blended(fits[self.form == "curves"].coefficients, c, self.pairs_weight)
        return c


@dataclass(frozen=True)
class FormState(State, kind="experts/additive.FormState"):
    """What is known of a fit.

    Attributes
    ----------
    design
        What is known of the columns.
    likelihood, intercept
        Of the labels, and what is predicted of a row of which nothing is known.
    fits
        To all rows: lines, curves and pairs, and lines with a Gaussian process where there is one.
    chosen
        A `FormChoice`; None before.
    """

    design: DesignSummary
    likelihood: Likelihood
    intercept: float = 0.0
    fits: tuple[BlockFit, ...] = ()
    chosen: Any = None

    @property
    def value(self) -> float:
        """The log evidence of the last additive fit, or its log-likelihood but for a constant."""
        evaluation = self.fits[:3][-1].evaluation
        return float("-inf") if evaluation is None else evaluation.value

    def sums(self, batch: TargetRows) -> FitSums:
        """Sum up a partition for the last additive fit."""
        last = self.fits[:3][-1] if self.fits else self.first(-1)
        return last.request(last.coefficients).sums(batch)

    def first(self, fold: int, lines: bool = False) -> BlockFit:
        """Begin a fit of lines, or of lines and curves, without a part of the rows."""
        return BlockFit.first(self.design, fold, self.likelihood, self.intercept, lines)

    def taken(self) -> tuple[BlockFit, Part]:
        """Return the fit that was chosen, and its part with the coefficients that were."""
        if self.chosen is None:
            raise ValueError("the form is still being chosen: there is no posterior yet")
        fit: BlockFit = self.fits[self.chosen.place]
        c = self.chosen.coefficients(self.fits, self.intercept)
        return fit, replace(fit.part(self.design), coefficients=c)


def fit_form(q: FormState, fold: int, lines: bool) -> Phase:
    """Return the phase that fits lines, or lines and curves."""
    first, rough = q.first(fold, lines), ROUGH * q.design.rows
    if lines:
        return Phase(climbed(first, q.design, rough))
    return Phase(fit_curves(q.design, first, rough))


@dataclass(frozen=True)
class FormModel(WithoutLocals):
    """Fit an additive model; ``pairs``: with pairs of columns, where they predict."""

    pairs: bool = True

    def baseline(self, q: FormState) -> Part:
        """Return regression on lines, each with a variance of its own."""
        return q.fits[0].part(q.design)

    def fit_forms(self, q: FormState, fold: int) -> Algorithm:
        """Return fits of lines, of curves, and of pairs without a part of the rows."""
        fits: tuple[BlockFit, ...] = ()
        for lines in (True, False):
            fits = (*fits, (yield fit_form(q, fold, lines)))
            if fold < 0:
                so_far = replace(q, fits=fits)
                yield Show(so_far, so_far.value, by_trace=False)
        pairs = fits[-1]
        if self.pairs and looked_for(q.design.curves):
            pairs = yield Phase(fit_pairs(q.design, pairs, ROUGH * q.design.rows))
        return *fits, pairs

    def elbo(self, q: FormState, stats: FitSums) -> float:
        """Return what is shown of the last fit."""
        return q.value

    def choose(self, q: FormState, fits: tuple[tuple[BlockFit, ...], ...]) -> Algorithm:
        """Return what held-out rows choose, from the fits without each part."""
        raise NotImplementedError

    def algorithm(self, q: FormState) -> Algorithm:
        """Fit all rows, then those without each held-out part, and choose."""
        every = []
        for fold in (-1, *held_parts(q.design)):
            every.append((yield Phase(self.fit_forms(q, fold), CHOOSING)))
            q = replace(q, fits=every[0])
            yield Show(q, q.value, by_trace=False)  # not of other rows
        q = replace(q, chosen=(yield from self.choose(q, tuple(every[1:]))))
        yield Show(q, q.value, by_trace=False)
        return q


def mean_spread(
    place: int, fits: Sequence[Sequence[BlockFit]], design: DesignSummary, likelihood: Likelihood
) -> Algorithm:
    """Return what the coefficients' uncertainty adds to a held-out row, in the mean.

    ``likelihood`` is that whose curve says so; ``place`` is that of the chosen ones among ``fits``
    without each held-out part.
    """
    parts = tuple(one[place].uncertain_part(design) for one in fits)
    spread = yield Evaluate(HeldOutSpread(parts, likelihood))
    return spread.total / max(spread.weight, TINY)
