"""What a step of Newton needs of rows: log-likelihood, slope, second moments; and leaving rows out.

With f = X w a fit climbs sum_n v_n log p(t_n | f_n) less a penalty, with the Hessian
H = sum v c xx' + diag(precision), c the curve of a row (p (1 - p) of labels).

Leaving row n out moves its sum, to first order in the fit (Pregibon 1981; Rad and Maleki 2020), to
f_n - v_n (dl/df)_n h_n / (1 - v_n p_n (1 - p_n) h_n), h_n = x_n' H^-1 x_n: a sum over rows.
Where the whole table repeats m times, rows weigh v_n / m and all m copies of a row are
left out: v_n stays in this formula, and v_n / m in the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vbmodels.core.algorithm import Algorithm, Phase
from vbmodels.core.driver import together
from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.likelihood import INTERCEPT_PRECISION
from vbmodels.experts.rows import FOLDS
from vbmodels.experts.terms.curves import Curves, Terms
from vbmodels.experts.terms.likelihoods import Likelihood, Logistic
from vbmodels.experts.terms.step_rows import CodedRows, FittedRows

RARE = 10.0
"""Rows' worth that is added to a column's variance."""
LINES_TAU = 100.0
"""Precision of the lines of a Gaussian process, which takes over what they leave."""
_LEAST = 1e-3


@dataclass(frozen=True)
class DesignSummary(Stats, kind="experts/additive.DesignSummary"):
    """What is known of the labelled rows before a fit; sums weigh rows as the fit does.

    Attributes
    ----------
    rows, positive
        Number of labelled rows, and of those with the label 1; copies of a whole table count once.
    weight
        [2]: of the rows with the label 0, and with 1.
    sums, squares
        Of every line, intercept last; [D + 1].
    mixing
        Sums of squares of the mixture's columns, intercept last; [U + 1].
    interaction
        Of the columns of the Gaussian process; [P], and empty where there is none.
    missing
        Rows in which each line is missing; [D].
    curves
        The levels of the columns' curves; None where no column has one.
    """

    rows: float
    positive: float
    weight: FloatArray
    sums: FloatArray
    squares: FloatArray
    mixing: FloatArray
    missing: FloatArray
    interaction: FloatArray = field(default_factory=lambda: np.zeros(0))
    curves: Curves | None = None

    @classmethod
    def of(cls, batch: CodedRows) -> DesignSummary:
        """Count one partition."""
        used = batch.rows.used
        return cls(
            float(np.count_nonzero(used)) / batch.copies,
            float(np.count_nonzero(used * (batch.t > 0))) / batch.copies,
            np.array([used @ (batch.t < 0), used @ (batch.t > 0)]),
            batch.rows.collect(used[None])[0],
            batch.rows.collect_squares(used[None])[0],
            batch.mixing.collect_squares(used[None])[0],
            used @ batch.missing,
            np.zeros(0) if batch.basis.interaction is None else used @ batch.interaction,
            batch.basis.curves,
        )

    @property
    def variance(self) -> FloatArray:
        """That of every line, with ten rows' worth; [D]."""
        total = self.sums[-1]
        mean, square = self.sums[:-1] / total, self.squares[:-1] / total
        return np.asarray(np.maximum(square - mean**2, 0.0) + RARE / total)

    @property
    def given(self) -> FloatArray:
        """Share of the rows in which each line is not missing; [D]."""
        return np.asarray(np.maximum(self.sums[-1] - self.missing, 1.0) / self.sums[-1])

    def precision(self, tau: float, joint: bool = False) -> FloatArray:
        """Return the prior precision of all coefficients, intercept last."""
        if joint:
            lines, process = LINES_TAU * self.variance, np.full(self.interaction.size, tau)
            return np.concatenate([lines, process, [INTERCEPT_PRECISION]])
        return np.append(tau * self.variance, INTERCEPT_PRECISION)

    @property
    def rate(self) -> float:
        """Share of the label 1."""
        return float(self.weight[1] / self.weight.sum())

    def start(self, size: int) -> FloatArray:
        """Return so many coefficients that give every row the share of the label 1."""
        found = np.zeros(size)
        found[-1] = np.log(self.rate / (1.0 - self.rate))
        return found

    @property
    def without_columns(self) -> float:
        """Leave-one-out log-likelihood of the intercept alone.

        log((N_t - w_t / 2) / (N - w_t)), w_t the mean weight of a row of label t (1 where none is
        given): the row itself is out, but for half of it, as a rule of succession.
        """
        own = self.weight / np.array([self.rows - self.positive, self.positive])
        return float(self.weight @ np.log((self.weight - 0.5 * own) / (self.weight.sum() - own)))


@dataclass(frozen=True)
class FitRequest(State, kind="experts/additive.FitRequest"):
    """What one fit needs of every partition.

    Attributes
    ----------
    coefficients
        Of lines and what comes with them; [P + 1].
    fold
        The part of the rows that is left out; -1 for none.
    second
        Whether second moments are wanted.
    hessian
        H, packed, where leaving each row out is wanted.
    joint
        Whether a Gaussian process comes with lines.
    terms
        Which curves come with lines; None for none.
    likelihood
        Of the labels.
    """

    coefficients: FloatArray
    fold: int
    second: bool
    hessian: FloatArray | None = None
    joint: bool = False
    terms: Terms | None = None
    likelihood: Likelihood = field(default_factory=Logistic)


@dataclass(frozen=True)
class Evaluation(Stats, kind="experts/additive.Evaluation"):
    """The answer to a `FitRequest`: log-likelihood, slope, and second moments if wanted, packed."""

    value: float
    slope: FloatArray
    second: FloatArray


@dataclass(frozen=True)
class LeftOut(Stats, kind="experts/additive.LeftOut"):
    """Log-likelihoods without each row: sums [A], and sums of products of two [A, A].

    They are 0 of a fit that does not want them.
    """

    value: FloatArray
    products: FloatArray


def evaluate_fit(
    request: FitRequest, batch: CodedRows, label: FloatArray, fold: IntArray | None
) -> tuple[Evaluation, FloatArray | None]:
    """Answer on one partition, with each row's log-likelihood without it if wanted; [N].

    ``label`` [N] is t of `Logistic`, or the number.
    """
    weight = batch.rows.used
    if fold is not None and request.fold >= 0:
        weight = weight * (fold != request.fold)
    at = batch.project(request.coefficients, request.joint, request.terms)
    found = request.likelihood.slopes(at, label)
    slope = batch.collect(weight * found.first, request.joint, request.terms)
    curve = weight * found.curve
    second = batch.gram(curve, request.joint, request.terms) if request.second else np.zeros(0)
    evaluation = Evaluation(float(weight @ found.value), slope, second)
    if request.hessian is None:
        return evaluation, None
    spread = batch.copies * batch.spread(unpack(request.hessian), request.joint, request.terms)
    without = at - weight * found.first * spread / np.maximum(1.0 - curve * spread, _LEAST)
    return evaluation, request.likelihood.slopes(without, label).value


def left_out(rows: Sequence[FloatArray | None], batch: CodedRows) -> LeftOut:
    """Sum up what `evaluate_fit` returned for several fits."""
    value, products = np.zeros(len(rows)), np.zeros((len(rows), len(rows)))
    known = [one for one in rows if one is not None]
    if known:
        wanted = np.flatnonzero([one is not None for one in rows])
        root = np.sqrt(batch.rows.used)
        each = root * np.array(known)
        value[wanted] = np.einsum("an,n->a", each, root)
        products[np.ix_(wanted, wanted)] = each @ each.T
    return LeftOut(value, products)


@dataclass(frozen=True)
class FitSums(Stats, kind="experts/additive.FitSums"):
    """Answers to fits, and what leaving rows out gives."""

    evaluations: tuple[Evaluation, ...]
    left_out: LeftOut

    @property
    def mean(self) -> float:
        """Mean of the fits' log-likelihoods."""
        return float(np.mean([one.value for one in self.evaluations]))

    def parts(self) -> list[FitSums]:
        """Return the answer to each fit."""
        value, products = self.left_out.value, self.left_out.products
        return [
            FitSums((one,), LeftOut(value[[i]], products[[i]][:, [i]]))
            for i, one in enumerate(self.evaluations)
        ]


@dataclass(frozen=True)
class Fits(State, kind="experts/additive.Fits"):
    """Fits to evaluate."""

    requests: tuple[FitRequest, ...]

    def sums(self, batch: FittedRows) -> FitSums:
        """Answer on one partition."""
        held_out = any(one.fold >= 0 for one in self.requests)
        fold = batch.coded.rows.fold(FOLDS) if held_out else None
        found = [evaluate_fit(one, batch.coded, batch.target, fold) for one in self.requests]
        without = left_out([rows for _, rows in found], batch.coded)
        return FitSums(tuple(evaluation for evaluation, _ in found), without)


def fits_together(algorithms: Sequence[Algorithm]) -> Phase:
    """Return the phase of fits in step; each yields `Fits` alone."""

    def join(asked: dict[int, Fits]) -> Fits:
        return Fits(tuple(request for q in asked.values() for request in q.requests))

    return together(algorithms, join, FitSums.parts)
