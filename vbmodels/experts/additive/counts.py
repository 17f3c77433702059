"""An additive model of a count: log mean = b + lines, curves and pairs of columns.

    E y = e^f(x),   Var y = phi e^f(x),   f = b + sum_d (a_d x_d + f_d(x_d)) + sum_pairs g_de

Where a row has an exposure, such as the years that its count is of, it multiplies the mean
(`CountRows`).

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

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase
from vbmodels.core.linalg import cholesky, inverse, pack, unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import (
    BlockFit,
    Layout,
)
from vbmodels.experts.additive.held_out import (
    CHOOSING,
    FORMS,
    TINY,
    WORTH,
    FormChoice,
    FormModel,
    FormState,
    fit_form,
    mean_spread,
)
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.states import FIT
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.likelihoods import Poisson, poisson_deviance
from vbmodels.experts.terms.step_rows import CodedRows, CountRows

WEIGHTS = np.linspace(0.0, 1.0, 21)
"""Weights that pairs may have."""
LEAST = 0.5
"""Smallest phi of predictions, as a share of Pearson's chi^2 of a held-out row."""
_HIGHEST = 100.0


@dataclass(frozen=True)
class CountSummary(Stats, kind="experts/additive.CountSummary"):
    """What is known of the rows before a fit: their columns, and the sum of the counts."""

    design: DesignSummary
    total: float

    @property
    def intercept(self) -> float:
        """Logarithm of the mean count."""
        return log(max(self.total, 0.5) / max(float(self.design.weight.sum()), TINY))


@dataclass(frozen=True)
class CountErrors(Stats, kind="experts/additive.CountErrors"):
    """Deviance and Pearson's chi^2 of rows, and their weight.

    Of the intercept, lines and curves, with pairs in f by each of `WEIGHTS`; [3, U]. An exposure
    is no part of the weight.
    """

    deviance: FloatArray
    pearson: FloatArray
    weight: float


@dataclass(frozen=True)
class HeldOutFits(State, kind="experts/additive.HeldOutCountFits"):
    """Lines, curves and pairs, each fitted without the same part of the rows; [F][3].

    A part of -1 stands for all rows, which are then not held out. ``intercept`` is b alone.
    """

    fits: tuple[tuple[BlockFit, ...], ...]
    intercept: float

    def sums(self, batch: CountRows) -> CountErrors:
        """Sum up a partition."""
        fold = batch.rows.rows.fold(FOLDS)
        sums, total = np.zeros((2, 3, WEIGHTS.size)), 0.0
        for lines, curves, pairs in self.fits:
            part = lines.fold
            weight = batch.used if part < 0 else batch.used * (fold == part)
            f = [np.full(batch.size, self.intercept)]
            for fit in (lines, curves, pairs):
                f.append(batch.rows.project(fit.coefficients, terms=fit.terms))
            for i, own in enumerate(f[:3]):
                for j, u in enumerate(WEIGHTS):
                    mean = mean_of((1.0 - u) * own + u * f[3])
                    sums[0, i, j] += weight @ poisson_deviance(batch.y, mean)
                    sums[1, i, j] += weight @ ((batch.y - mean) ** 2 / mean)
            total += float((weight / batch.exposure).sum())
        return CountErrors(sums[0], sums[1], total)


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
    dispersion
        Variance of a count over its mean: Pearson's chi^2 of held-out rows, a row, less the mean
        of e^f x' H^-1 x, by which the coefficients are uncertain.
    """

    dispersion: float

    @classmethod
    def of(cls, sums: CountErrors, phi: float) -> CountChoice:
        """Choose the form and the weight of pairs; ``phi`` is what the fits had."""
        best = int(np.argmin(sums.deviance[:, 0]))
        along = sums.deviance[best]
        at = int(np.argmin(along))
        if 0.5 * (along[0] - along[at]) / phi < WORTH:
            at = 0
        dispersion = float(sums.pearson[best, at]) / max(sums.weight, TINY)
        return cls(FORMS[best], float(WEIGHTS[at]), dispersion)


@dataclass(frozen=True)
class CountPosterior(State, kind="experts/additive.CountPosterior"):
    """An additive fit of the log mean: its part, phi, and H, packed."""

    part: Part
    dispersion: float
    hessian: FloatArray

    def predict(
        self, batch: CodedRows, exposure: FloatArray | float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of a new row's count, for every row; [N] each."""
        mean = exposure * mean_of(self.part.project(batch))
        spread = np.maximum(batch.spread(unpack(self.hessian), terms=self.part.terms), 0.0)
        return mean, np.sqrt(self.dispersion * mean + mean**2 * spread)


@dataclass(frozen=True)
class CountAdditive(FormModel):
    """Fit an additive model to counts."""

    objective: ClassVar[str] = FIT

    def observe(self, batch: CountRows) -> CountSummary:
        """Sum up the columns and the counts."""
        return CountSummary(DesignSummary.of(batch.rows), float(batch.used @ batch.y))

    def init(self, observed: CountSummary, rng: np.random.Generator) -> FormState:
        """Return what is known before the first sweep."""
        return FormState(observed.design, Poisson(), observed.intercept)

    def posterior(self, q: FormState) -> CountPosterior:
        """Return the additive fit that held-out rows chose."""
        fit, part = q.taken()
        return CountPosterior(part, q.chosen.dispersion, pack(fit.hessian(q.design)))

    def algorithm(self, q: FormState) -> Algorithm:
        """Find phi; fit all rows, then those without each held-out part, and choose."""
        for lines in (True, False):
            fit = yield replace(fit_form(q, -1, lines), doing=CHOOSING)
            phi = yield Phase(_dispersion(q, fit), CHOOSING)
            q = replace(q, likelihood=Poisson(phi))
        return (yield from super().algorithm(q))

    def choose(self, q: FormState, fits: tuple[tuple[BlockFit, ...], ...]) -> Algorithm:
        """Return what held-out rows choose, with phi less what coefficients are uncertain by."""
        assert isinstance(q.likelihood, Poisson)
        sums = yield Evaluate(HeldOutFits(fits, q.intercept))
        chosen = CountChoice.of(sums, q.likelihood.dispersion)
        spread = yield from mean_spread(chosen.place, fits, q.design, Poisson())
        left = max(chosen.dispersion - spread, LEAST * chosen.dispersion)
        return replace(chosen, dispersion=left)


def _dispersion(q: FormState, fit: BlockFit) -> Algorithm:
    """Return Pearson's chi^2 of a fit over its degrees of freedom, at least 1."""
    sums = yield Evaluate(HeldOutFits(((fit, fit, fit),), q.intercept))
    precision = Layout.of(q.design, fit.terms).precision(fit.variances)
    covariance = inverse(cholesky(fit.hessian(q.design), "the second moments"))
    free = float(precision.size - precision @ np.diag(covariance))
    return max(float(sums.pearson[1, 0]) / max(sums.weight - free, 1.0), 1.0)
