"""An additive fit whose every block has a variance of its own, chosen by the evidence.

A block g (a column's line, a category's levels, a curve, what refines it) has coefficients
N(0, v_g I) on a scale on which v_g is the variance that the block gives the log odds. Newton's
steps climb sum_n log sigma(t_n f_n) - sum_g |c_g|^2 / 2 v_g; between two of them, by the same
second moments H, the variances move a few times towards the fixed point of the evidence's Laplace
approximation (MacKay 1992), shrunk to what blocks of a kind have in common, v0:

    gamma_g = n_g - tr (H + diag 1/v)^-1_gg / v_g,   v_g <- (|c_g|^2 + 2 v0) / (gamma_g + 2)

After `LEARNING` steps, or once they hardly move, the variances stay and the mode is sought alone.

Of numbers under Gaussian noise s^2 all is in closed form, given X'WX, X'Wy and y'Wy:
H = X'WX / s^2 + diag(1 / v), c = H^-1 X'Wy / s^2, and v and s^2 are at the fixed point,

    s^2 <- (|y - X c|^2_W + s0^2) / (n - tr(X'WX H^-1) / s^2 + 1).

The fit of lines, curves and pairs: each kind joins where the residuals of the last fit say so.

The fit without a part of the rows goes the same way from its start, selection included, so what it
says of that part is no flattery.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show
from vbmodels.core.linalg import cholesky, inverse_diagonal, log_det, pack, solve, unpack
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.experts.additive.newton import DesignSummary, Evaluation, FitRequest, Fits, FitSums
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.states import AdditiveState
from vbmodels.experts.likelihood import INTERCEPT_PRECISION
from vbmodels.experts.terms.curves import Terms
from vbmodels.experts.terms.likelihoods import Gaussian, Likelihood, Logistic
from vbmodels.experts.terms.pairs import pair_tables
from vbmodels.experts.terms.screen import add_pairs, refine_curves

LINES, LEVELS, SMOOTH, FINE, PAIR, PROCESS = range(6)
"""Kinds of block: a line, a category's levels, a curve, what refines one, a pair, and a Gaussian
process."""
USUAL = np.array([0.2, 0.2, 0.2, 0.2, 0.1, 0.2])
"""Variance that a block of each kind is believed to have, with the weight of `BELIEF` degrees of
freedom."""
FIRST = np.array([0.1, 0.1, 0.1, 0.1, 0.05, 0.5])
"""Variance of each kind that a fit begins with."""
BELIEF, POOL = 3.0, 2.0
POWER, SHORTEST, LONGEST = 1.4, 0.2, 4.0
"""A variance moves by this power of the ratio, no more than by these factors."""
LEAST, MOST = 1e-6, 30.0
"""Bounds of variances."""
LEARNING, MOVES, MANY = 9, 4, 400
"""Newton's steps between which variances move, how often between two, and the coefficients beyond
which they do so once: every move needs an inverse."""
NOISE, LEAST_NOISE = 0.5, 1e-8
"""Variance that the noise of numbers is believed to have with the weight of a row, and its least
one."""
SOLVING, CLOSE = 60, 0.03
"""Most moves of the variances of numbers, and the move of a logarithm that ends them."""
SETTLED = 0.25
"""Largest move of a logarithm of a variance with which they stay from then on."""
HALVINGS, SHORTER = 6, 0.3


@dataclass(frozen=True)
class Layout:
    """The order of a fit's blocks.

    Attributes
    ----------
    block
        Of every coefficient; -1 for the intercept; [P].
    scale
        Times 1 / v, a coefficient's prior precision; 1 of functions, for lines what makes v the
        variance of the block; [P].
    kind
        Of every block; [G].
    """

    block: IntArray
    scale: FloatArray
    kind: IntArray

    @classmethod
    def of(cls, observed: DesignSummary, terms: Terms | None, joint: bool = False) -> Layout:
        """Lay out lines, the curves and pairs of ``terms`` if given, and the intercept.

        ``joint``: all lines as one block, and a Gaussian process of all columns.
        """
        if joint:
            lines, process = observed.variance, np.ones(observed.interaction.size)
            own = np.repeat([0, 1, -1], [lines.size, process.size, 1])
            return cls(own, np.concatenate([lines, process, [1.0]]), np.array([LINES, PROCESS]))
        curves = observed.curves
        if curves is None:
            raise ValueError("expected rows with levels of columns (basis_of with bare=True)")
        variance = np.bincount(curves.blocks, observed.variance)
        kinds = [LINES if own.size == 1 else LEVELS for own in curves.lines]
        block, scale = [curves.blocks], [np.asarray(variance[curves.blocks], float)]
        sizes: list[int] = []
        if terms is not None:
            kinds += [SMOOTH] * curves.curved.size + [FINE] * terms.refined.size
            kinds += [PAIR] * len(terms.pairs)
            sizes = [table.shape[1] for _, table in curves.tables(terms)]
            sizes += [table.shape[1] for _, table, _ in pair_tables(curves, terms)]
        for number, size in enumerate(sizes, len(curves.lines)):
            block.append(np.full(size, number))
            scale.append(np.ones(size))
        full = np.concatenate([*block, [-1]]).astype(np.int64)
        return cls(full, np.concatenate([*scale, [1.0]]), np.array(kinds))

    def precision(self, variance: FloatArray) -> FloatArray:
        """Return the prior precision of every coefficient; [P]."""
        found = self.scale / variance[self.block]
        found[-1] = INTERCEPT_PRECISION
        return np.asarray(found)

    @cached_property
    def counts(self) -> FloatArray:
        """Number of coefficients of every block; [G]."""
        return np.bincount(self.block[:-1], minlength=self.kind.size).astype(np.float64)

    def moved(self, v: FloatArray, c: FloatArray, diagonal: FloatArray) -> tuple[FloatArray, float]:
        """Return the variances after a move, and the largest move of a logarithm that matters.

        Parameters
        ----------
        v
            The variances; [G].
        c
            The coefficients; [P].
        diagonal
            Of the inverse of the penalised second moments; [P].
        """
        own, size = self.block[:-1], self.kind.size
        square = np.bincount(own, self.scale[:-1] * c[:-1] ** 2, size)
        spread = np.bincount(own, self.scale[:-1] * diagonal[:-1], size)
        gamma = np.maximum(self.counts - spread / v, 1e-6)
        usual = np.zeros(size)
        for kind in np.unique(self.kind):
            of = self.kind == kind
            usual[of] = (square[of].sum() + BELIEF * USUAL[kind]) / (gamma[of].sum() + BELIEF)
        ratio = (square + POOL * usual) / (gamma + POOL) / v
        after = np.clip(v * np.clip(ratio**POWER, SHORTEST, LONGEST), LEAST, MOST)
        return after, float(np.max(np.abs(np.log(after / v)) * np.minimum(gamma, 1.0)))


@dataclass(frozen=True)
class BlockFit(State, kind="experts/additive.BlockFit"):
    """A fit, at its end or on its way.

    Attributes
    ----------
    terms
        Which curves come with lines; None for none.
    fold
        The part of the rows that is left out; -1 for none.
    likelihood
        Of the labels.
    variances
        v; [G].
    coefficients, evaluation
        [P], and the log-likelihood (of numbers the log evidence) and its moments there; None before
        they are known.
    joint
        Whether a Gaussian process comes with lines.
    """

    terms: Terms | None
    fold: int
    likelihood: Likelihood
    variances: FloatArray
    coefficients: FloatArray
    evaluation: Evaluation | None = None
    joint: bool = False

    @classmethod
    def process(cls, observed: DesignSummary, fold: int, likelihood: Likelihood) -> BlockFit:
        """Begin at 0 with lines and a Gaussian process."""
        layout = Layout.of(observed, None, joint=True)
        start = np.zeros(layout.block.size)
        return cls(None, fold, likelihood, FIRST[layout.kind], start, joint=True)

    @classmethod
    def first(
        cls,
        observed: DesignSummary,
        fold: int,
        likelihood: Likelihood | None = None,
        intercept: float | None = None,
        lines: bool = False,
    ) -> BlockFit:
        """Begin at the intercept alone with lines and smooth curves, or with ``lines`` alone."""
        terms = None if lines else Terms.none()
        layout = Layout.of(observed, terms)
        start = np.zeros(layout.block.size)
        if intercept is None:
            start = observed.start(layout.block.size)
        else:
            start[-1] = intercept
        of = Logistic() if likelihood is None else likelihood
        return cls(terms, fold, of, FIRST[layout.kind], start)

    def with_terms(self, terms: Terms, variances: FloatArray, observed: DesignSummary) -> BlockFit:
        """Go on with more blocks, which come last, and their variances."""
        at = np.zeros(Layout.of(observed, terms).block.size)
        at[: self.coefficients.size - 1] = self.coefficients[:-1]
        at[-1] = self.coefficients[-1]
        variances = np.append(self.variances, variances)
        return BlockFit(terms, self.fold, self.likelihood, variances, at)

    def request(self, at: FloatArray) -> Fits:
        """Request the log-likelihood and its moments at coefficients."""
        return Fits(
            (FitRequest(at, self.fold, True, None, self.joint, self.terms, self.likelihood),)
        )

    def left_out(self, observed: DesignSummary) -> FitRequest:
        """Request what leaving each row out gives at the fit's end."""
        packed = pack(self.hessian(observed))
        return FitRequest(
            self.coefficients, -1, False, packed, terms=self.terms, likelihood=self.likelihood
        )

    def hessian(self, observed: DesignSummary) -> FloatArray:
        """Return the penalised second moments; [P, P]."""
        assert self.evaluation is not None
        precision = Layout.of(observed, self.terms, self.joint).precision(self.variances)
        found = unpack(self.evaluation.second)
        found[np.diag_indices(len(found))] += precision
        return found

    def part(self, observed: DesignSummary) -> Part:
        """Return what the fit found, with the covariance where it has seen all rows."""
        return self.uncertain_part(observed) if self.fold < 0 else self._plain_part

    def uncertain_part(self, observed: DesignSummary) -> Part:
        """Return the same with the covariance."""
        return self._plain_part.with_covariance(self.hessian(observed))

    def varied(self, observed: DesignSummary, c: FloatArray) -> FloatArray:
        """Return the variance of what each line's column adds at c [P + 1], where given; [D]."""
        curves, evaluation = observed.curves, self.evaluation
        assert curves is not None
        assert evaluation is not None
        tables = [] if self.terms is None else curves.tables(self.terms)
        owner = np.concatenate([curves.blocks, *(np.full(f.shape[1], s) for s, f in tables)])
        second, c = unpack(evaluation.second), c[: owner.size]  # pairs come after
        moments = second / second[-1, -1]
        mean = moments[-1, : owner.size]
        adds = (moments[: owner.size, : owner.size] - np.outer(mean, mean)) * np.outer(c, c)
        of = (owner[:, None] == np.arange(curves.counts.size)).astype(float)
        return np.asarray(np.einsum("is,is->s", of, adds @ of)[curves.blocks] / observed.given)

    @property
    def noise(self) -> float:
        """The variance of numbers around the fit."""
        assert isinstance(self.likelihood, Gaussian)
        return self.likelihood.noise

    @property
    def _plain_part(self) -> Part:
        tau = 1.0 / float(self.variances[-1]) if self.joint else 0.0
        return Part(self.coefficients, tau, self.fold, None, self.joint, self.terms)


def climbed(
    fit: BlockFit, observed: DesignSummary, tolerance: float, settled: bool = False
) -> Algorithm:
    """Climb, a step at least, until less than ``tolerance`` nats are promised.

    ``settled``: the variances stay. For numbers the solution is in closed form.
    """
    if isinstance(fit.likelihood, Gaussian):
        if fit.evaluation is None:
            at_zero = replace(fit, likelihood=Gaussian(1.0)).request(0.0 * fit.coefficients)
            sums = yield Evaluate(at_zero)
            fit = solved(fit, observed, sums.evaluations[0])
        return fit
    layout = Layout.of(observed, fit.terms)
    taken = 0
    while True:
        fit, taken, settled = yield Save((fit, taken, settled))
        c, now, learning = fit.coefficients, fit.evaluation, not settled and taken < LEARNING
        if now is None:
            sums = yield Evaluate(fit.request(c))
            now = sums.evaluations[0]
        second = unpack(now.second)
        right, v = now.slope + second @ c, fit.variances
        if learning:
            v, change = _moved_variances(layout, v, second, right)
            settled = taken >= 2 and change < SETTLED
        fit, precision = replace(fit, evaluation=now, variances=v), layout.precision(v)
        trial = solve(_factor(second, precision), right)
        rise = 0.5 * float((trial - c) @ (now.slope - precision * c))
        if taken > 0 and not learning and rise < tolerance:
            return fit
        before = now.value - 0.5 * precision @ c**2
        for _ in range(1 + HALVINGS):
            sums = yield Evaluate(fit.request(trial))
            after = sums.evaluations[0].value - 0.5 * precision @ trial**2
            if after >= before - 1e-12 * abs(before):
                break
            trial = c + SHORTER * (trial - c)
        else:
            return fit
        fit, taken = replace(fit, coefficients=trial, evaluation=sums.evaluations[0]), taken + 1


def solved(fit: BlockFit, observed: DesignSummary, sums: Evaluation) -> BlockFit:
    """Return the fit of numbers at the fixed point of variances and noise.

    ``sums`` are those at 0 under noise of variance 1: X'WX, X'Wy, and y'Wy over -2.
    """
    layout = Layout.of(observed, fit.terms, fit.joint)
    second, variances, change = unpack(sums.second), fit.variances, np.inf
    rows, noise = float(second[-1, -1]), fit.noise
    for move in range(1 + SOLVING):
        precision = layout.precision(variances)
        factor = _factor(second / noise, precision)
        c = solve(factor, sums.slope / noise)
        left = max(float(c @ (second @ c - 2.0 * sums.slope) - 2.0 * sums.value), 0.0)
        if change < CLOSE or move == SOLVING:
            break
        diagonal = inverse_diagonal(factor)
        variances, change = layout.moved(variances, c, diagonal)
        before, free = noise, float(c.size - precision @ diagonal)
        noise = max((left + NOISE) / (max(rows - free, 1.0) + 1.0), LEAST_NOISE)
        change = max(change, abs(log(noise / before)))
    value = -0.5 * (
        rows * log(2.0 * pi * noise)
        + left / noise
        + precision @ c**2
        + float(log_det(factor))
        - np.log(precision).sum()
    )
    return replace(
        fit,
        likelihood=Gaussian(noise),
        variances=variances,
        coefficients=c,
        evaluation=Evaluation(float(value), precision * c, sums.second / noise),
    )


def _moved_variances(
    layout: Layout, v: FloatArray, second: FloatArray, right: FloatArray
) -> tuple[FloatArray, float]:
    """Return variances nearer their fixed point, and the largest of their moves."""
    largest = 0.0
    for _ in range(MOVES if right.size <= MANY else 1):
        factor = _factor(second, layout.precision(v))
        v, move = layout.moved(v, solve(factor, right), inverse_diagonal(factor))
        largest = max(largest, move)
    return v, largest


def _factor(second: FloatArray, precision: FloatArray) -> FloatArray:
    return cholesky(second + np.diag(precision), "the second moments")


ROUGH = 2e-4
"""Rise to come, in nats a row, that ends a fit which blocks may still join."""


def fit_curves(observed: DesignSummary, first: BlockFit, tolerance: float) -> Algorithm:
    """Return the `BlockFit` of lines and curves that begins with ``first``.

    ``tolerance`` is the rise to come, in nats, that ends it.
    """
    curves = observed.curves
    assert curves is not None
    if not curves.curved.size:
        return (yield Phase(climbed(first, observed, tolerance)))
    fit = yield Phase(climbed(first, observed, ROUGH * observed.rows))

    def grown(fit: BlockFit, terms: Terms, variances: FloatArray) -> Phase:
        return Phase(climbed(fit.with_terms(terms, variances, observed), observed, tolerance))

    refined = yield from refine_curves(curves, fit, grown)
    if refined is not fit:
        return refined
    return (yield Phase(climbed(fit, observed, tolerance, settled=True)))


def fit_pairs(observed: DesignSummary, fit: BlockFit, tolerance: float) -> Algorithm:
    """Return a fit of lines and curves with the pairs that its residuals say it lacks.

    ``tolerance`` is the rise to come, in nats, that ends it.
    """
    assert observed.curves is not None

    def grown(fit: BlockFit, terms: Terms, variances: FloatArray) -> Phase:
        more = fit.with_terms(terms, variances, observed)
        return Phase(climbed(more, observed, ROUGH * observed.rows))

    fit = yield from add_pairs(observed.curves, fit, grown)
    assert fit.terms is not None
    if not len(fit.terms.pairs):
        return fit
    return (yield Phase(climbed(fit, observed, tolerance, settled=True)))


def shown(algorithm: Algorithm, q: AdditiveState) -> Algorithm:
    """Run an algorithm of fits, and show each one's log-likelihood."""
    answer = None
    while True:
        try:
            request = algorithm.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(request, Phase):
            request = replace(request, algorithm=shown(request.algorithm, q))
        answer = yield request
        if isinstance(answer, FitSums):
            yield Show(q, answer.mean, by_trace=False)
