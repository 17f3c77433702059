"""An additive model of a number: lines, curves and pairs of columns under Gaussian noise.

    y = b + sum_d (a_d x_d + f_d(x_d)) + sum_pairs g_de(x_d, x_e) + e,   e ~ N(0, s^2 / weight)

The blocks and their fits are those of the logistic model (`blocks`, `curves`, `pairs`), in closed
form here; the target has mean 0 and variance 1.

1. Lines; lines and curves, refined where the residuals say so (`screen`, with the score r / s^2);
   the pairs that they say it lacks. One pass over the rows for the sums of each, one to screen.
2. The same without each held-out part of the rows, selection included.
3. On held-out rows the additive form of the smallest squared error is taken (intercept, lines,
   curves), and pairs with the weight u that minimises |y - (1 - u) f - u g|^2, where that is worth
   `WORTH` nats. Both are sums of the same functions, so what is returned is one additive fit.
4. The error of a held-out row is its noise and what the coefficients of a fit without it are off,
   E (y - x'c)^2 = s^2 + x' H^-1 x, so the noise of predictions is the mean squared error less the
   mean of the latter (`HeldOutSpread`), which each new row then has of its own.
5. Where the rows come with the columns of a Gaussian process (`interactions`), lines and that are
   one more fit, with a variance of both by the evidence. Its share w of predictions (1 - w) f + w g
   is that whose mean gain in squared error on held-out rows, less the standard error of that mean,
   is largest: 0 without the process, and little where rows are few. The variance of a row shares
   both fits' uncertainty so, and the noise is what that leaves of the held-out error.
6. A missing number counts as its column's mean, and leaves the row's number as unsure as what the
   column adds varies over rows, v_d, but for what other columns say of it: the squared error is a
   on held-out rows without gaps, and a + c sum_{d missing} v_d in the mean of those with some. The
   noise is what 4 and 5 leave of a; c = 1 is believed with the weight of `BELIEVED` rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log
from typing import ClassVar

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase
from vbmodels.core.linalg import pack, unpack
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.additive.blocks import NOISE, BlockFit, climbed
from vbmodels.experts.additive.held_out import (
    FORMS,
    TINY,
    WORTH,
    FormChoice,
    FormModel,
    FormState,
    HeldOutSpread,
    SpreadSums,
    mean_spread,
)
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.likelihoods import Gaussian
from vbmodels.experts.terms.step_rows import CodedRows, TargetRows

FLOOR = 0.5
"""Least noise of predictions, as a share of that of the evidence."""
BELIEVED, FEWEST = 5.0, 20.0
"""Rows with gaps that c = 1 weighs as much as, and those without from which on a is theirs."""


@dataclass(frozen=True)
class Errors(Stats, kind="experts/additive.Errors"):
    """Products of the errors of 0, lines, curves and pairs on held-out rows without gaps and with.

    [2, 4, 4], the weights of both, [2], and of the rows in which each line is missing; [D].
    """

    products: FloatArray
    weight: FloatArray
    missing: FloatArray


@dataclass(frozen=True)
class HeldOutFits(State, kind="experts/additive.HeldOutFits"):
    """Fits without each held-out part: lines, curves, pairs, and what else there is; [F]."""

    fits: tuple[tuple[BlockFit, ...], ...]

    def sums(self, batch: TargetRows) -> Errors:
        """Sum up a partition."""
        fold, gaps = batch.rows.rows.fold(FOLDS), batch.rows.missing.any(axis=1)
        products, total, held = np.zeros((2, 4, 4)), np.zeros(2), np.zeros(batch.size)
        for fits in self.fits:
            weight = batch.used * (fold == fits[0].fold)
            found = [batch.rows.project(one.coefficients, terms=one.terms) for one in fits[:3]]
            errors = batch.y - np.stack([np.zeros(batch.size), *found])
            for i, own in enumerate((weight * ~gaps, weight * gaps)):
                products[i] += (errors * own) @ errors.T
                total[i] += own.sum()
            held += weight
        return Errors(products, total, held @ batch.rows.missing)


SHARES = np.linspace(0.0, 1.0, 41)
"""Shares of predictions that a process may have."""


@dataclass(frozen=True)
class ProcessSums(Stats, kind="experts/additive.ProcessSums"):
    """What a process brings to held-out rows.

    Attributes
    ----------
    gain, square
        Sums of how much smaller it makes the squared error of rows without gaps and with, [2, S],
        and of the squares of that, [S], at each of `SHARES`.
    spread
        What its uncertainty adds to the variance of a row.
    """

    gain: FloatArray
    square: FloatArray
    spread: SpreadSums


@dataclass(frozen=True)
class HeldOutProcess(State, kind="experts/additive.HeldOutProcess"):
    """The additive form and the process without each held-out part; [F] each."""

    parts: tuple[Part, ...]
    processes: tuple[Part, ...]

    def sums(self, batch: TargetRows) -> ProcessSums:
        """Sum up a partition."""
        fold, gaps = batch.rows.rows.fold(FOLDS), batch.rows.missing.any(axis=1)
        total, square = np.zeros((2, SHARES.size)), np.zeros(SHARES.size)
        for part, process in zip(self.parts, self.processes, strict=True):
            weight = batch.used * (fold == part.fold)
            own = part.project(batch.rows)
            error, away = batch.y - own, process.project(batch.rows) - own
            gain = SHARES[:, None] * away * (2.0 * error - SHARES[:, None] * away)
            total += np.stack([gain @ (weight * ~gaps), gain @ (weight * gaps)])
            square += gain**2 @ weight
        spread = HeldOutSpread(self.processes, Gaussian(1.0)).sums(batch)
        return ProcessSums(total, square, spread)


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
    split, weight, missing
        Squared error of held-out rows without gaps and with, summed, and their weights; [2] each.
        Weights of the rows in which each line is missing; [D].
    """

    errors: FloatArray
    split: FloatArray
    weight: FloatArray
    missing: FloatArray
    spread: float = 0.0

    @classmethod
    def of(cls, sums: Errors) -> GaussianChoice:
        """Choose the form and the weight of pairs."""
        products, rows = sums.products.sum(axis=0), float(sums.weight.sum())
        square = np.diag(products)
        best = int(np.argmin(square[:3]))
        own, both, cross = square[best], square[3], products[best, 3]
        away = own - 2.0 * cross + both
        weight = float(np.clip((own - cross) / away, 0.0, 1.0)) if away > 1e-12 * own else 0.0
        after = own - 2.0 * weight * (own - cross) + weight**2 * away
        if 0.5 * rows * log(max(own, 1e-300) / max(after, 1e-300)) < WORTH:
            weight, after = 0.0, own
        errors, shares = np.append(square, after) / max(rows, 1e-300), np.zeros(4)
        shares[best], shares[3] = 1.0 - weight, weight
        split = np.einsum("i,gij,j->g", shares, sums.products, shares)
        return cls(FORMS[best], weight, errors, split, sums.weight, sums.missing)

    def of_gaps(self, varied: FloatArray) -> tuple[float, float]:
        """Return a as a share of all rows' error, and c, for v [D]."""
        adds = float(self.missing @ varied)
        if not adds > 0.0:
            return 1.0, 1.0
        if self.weight[0] < FEWEST:
            return max(1.0 - adds / self.split.sum(), FLOOR), 1.0
        whole, believed = self.split[0] / self.weight[0], BELIEVED * adds / self.weight[1]
        factor = max(self.split[1] - self.weight[1] * whole, 0.0) + believed
        return whole * self.weight.sum() / self.split.sum(), factor / (adds + believed)

    def shared(self, sums: ProcessSums) -> GaussianChoice:
        """Return the choice with the share of a process that is surely worth the most.

        That is the mean gain of a row less its standard error, which is 0 without the process.
        """
        rows = max(sums.spread.weight, TINY)
        mean = sums.gain.sum(axis=0) / rows
        error = np.sqrt(np.maximum(sums.square / rows - mean**2, 0.0) / rows)
        best = int(np.argmax(mean - error))
        share, errors = float(SHARES[best]), self.errors.copy()
        errors[-1] -= mean[best]
        spread = (1.0 - share) * self.spread + share * sums.spread.total / rows
        split = self.split - sums.gain[:, best]
        return replace(self, errors=errors, split=split, spread=spread, process_weight=share)


@dataclass(frozen=True)
class GaussianPosterior(State, kind="experts/additive.GaussianPosterior"):
    """An additive fit and, with the share ``weight``, a Gaussian process.

    Attributes
    ----------
    part, process
        What is added up: curves and pairs; and lines with the process, None where there is none.
    noise
        Variance of the noise.
    hessian, process_hessian
        H of both, packed.
    gaps
        What a missing number of each line adds to the variance of a row, c v; [D].
    weight
        Share of the process.
    kept
        Part of the uncertainty of both that held-out errors leave room for: few landmarks for many
        rows say less of the process than it varies.
    """

    part: Part
    noise: float
    hessian: FloatArray
    gaps: FloatArray
    process: Part | None = None
    process_hessian: FloatArray = field(default_factory=lambda: np.zeros(0))
    weight: float = 0.0
    kept: float = 1.0

    def predict(self, batch: CodedRows) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of a new row's number, for every row; [N] each."""
        mean = self.part.project(batch)
        spread = batch.spread(unpack(self.hessian), terms=self.part.terms)
        if self.process is not None:
            own = batch.spread(unpack(self.process_hessian), joint=True)
            shares, every = (1.0 - self.weight, self.weight), own + self.process.unspanned(batch)
            mean = shares[0] * mean + shares[1] * self.process.project(batch)
            spread = self.kept * (shares[0] * spread + shares[1] * every)
        more = batch.missing @ self.gaps
        return mean, np.sqrt(self.noise + np.maximum(spread, 0.0) + more)


@dataclass(frozen=True)
class GaussianAdditive(FormModel):
    """Fit an additive model to numbers."""

    objective: ClassVar[str] = "log evidence"

    def observe(self, batch: TargetRows) -> DesignSummary:
        """Count the rows and sum up their columns."""
        return DesignSummary.of(batch.rows)

    def init(self, observed: DesignSummary, rng: np.random.Generator) -> FormState:
        """Return what is known before the first sweep."""
        return FormState(observed, Gaussian(NOISE))

    def posterior(self, q: FormState) -> GaussianPosterior:
        """Return the additive fit that held-out rows chose, and the process with its share."""
        fit, part = q.taken()
        share, process = q.chosen.process_weight, q.fits[-1]
        varied = fit.varied(q.design, part.coefficients)
        whole, factor = q.chosen.of_gaps(varied)
        least = FLOOR * whole * ((1.0 - share) * fit.noise + share * process.noise)
        error, spread = whole * float(q.chosen.errors[-1]), q.chosen.spread
        found = GaussianPosterior(
            part, max(error - spread, least), pack(fit.hessian(q.design)), factor * varied
        )
        if not share:
            return found
        return replace(
            found,
            process=process.part(q.design),
            process_hessian=pack(process.hessian(q.design)),
            weight=share,
            kept=min(1.0, max(error - least, 0.0) / max(spread, TINY)),
        )

    def fit_forms(self, q: FormState, fold: int) -> Algorithm:
        """Return fits of each form, and of lines with a process where the rows come with one."""
        fits = yield from super().fit_forms(q, fold)
        if not q.design.interaction.size:
            return fits
        first = BlockFit.process(q.design, fold, q.likelihood)
        return *fits, (yield Phase(climbed(first, q.design, 0.0)))

    def choose(self, q: FormState, fits: tuple[tuple[BlockFit, ...], ...]) -> Algorithm:
        """Choose the additive form, and then the share of the process."""
        chosen = GaussianChoice.of((yield Evaluate(HeldOutFits(fits))))
        spread = yield from mean_spread(chosen.place, fits, q.design, Gaussian(1.0))
        chosen = replace(chosen, spread=spread)
        if not q.design.interaction.size:
            return chosen
        own = tuple(
            replace(one[chosen.place].part(q.design), coefficients=chosen.coefficients(one, 0.0))
            for one in fits
        )
        processes = tuple(one[-1].uncertain_part(q.design) for one in fits)
        return chosen.shared((yield Evaluate(HeldOutProcess(own, processes))))
