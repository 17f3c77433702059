"""Ridge logistic regression on lines, and its leave-one-out log-likelihood.

With f = X w and t = 2 y - 1 a fit climbs sum_n v_n log sigma(t_n f_n) - tau/2 sum_j s_j^2 w_j^2,
s_j^2 the variance of column j (so tau is that of columns of unit variance) plus ten rows' worth,
which keeps rare levels small; the intercept is N(0, 10). Steps are Newton's, with second moments
that are renewed when they no longer lead up (Hessian H = sum v p(1 - p) xx' + diag(tau s^2)).

Leaving row n out moves its sum, to first order in the fit (Pregibon 1981; Rad and Maleki 2020), to
f_n - v_n (dl/df)_n h_n / (1 - v_n p_n (1 - p_n) h_n), h_n = x_n' H^-1 x_n: a sum over rows.
The other form is lines and a Gaussian process (`interactions`): its columns have precision tau,
which is 1 over the variance that it gives f, and lines that of `LINES_TAU`.
Where the whole table repeats m times, rows weigh v_n / m and all m copies of a row are
left out: v_n stays in this formula, and v_n / m in the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.core.linalg import cholesky, inverse, pack, solve, unpack
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.additive.curves import Curves, Terms
from vbmodels.experts.additive.likelihoods import Likelihood, Logistic
from vbmodels.experts.additive.step_rows import CodedRows
from vbmodels.experts.likelihood import INTERCEPT_PRECISION

RARE = 10.0
"""Rows' worth that is added to a column's variance."""
LINES_TAU = 100.0
"""Precision of the lines of a Gaussian process, which takes over what they leave."""
TRIALS = 8
"""Steps taken with the same second moments."""
_SHORTEST = 1e-9
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
    curves
        The levels of the columns' curves; None where no column has one.
    """

    rows: float
    positive: float
    weight: FloatArray
    sums: FloatArray
    squares: FloatArray
    mixing: FloatArray
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
            np.zeros(0) if batch.basis.interaction is None else used @ batch.interaction,
            batch.basis.curves,
        )

    @property
    def variance(self) -> FloatArray:
        """That of every line, with ten rows' worth; [D]."""
        total = self.sums[-1]
        mean, square = self.sums[:-1] / total, self.squares[:-1] / total
        return np.asarray(np.maximum(square - mean**2, 0.0) + RARE / total)

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
        left = np.log((self.weight - 0.5 * own) / (self.weight.sum() - own))
        return float(self.weight @ left)


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
    """Leave-one-out log-likelihoods: their sums [A], and sums of products of two [A, A]."""

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


def left_out(rows: Sequence[FloatArray], batch: CodedRows) -> LeftOut:
    """Sum up what `evaluate_fit` returned for several fits."""
    if not rows:
        return LeftOut(np.zeros(0), np.zeros((0, 0)))
    root = np.sqrt(batch.rows.used)
    each = root * np.array(rows)
    return LeftOut(np.einsum("an,n->a", each, root), each @ each.T)


@dataclass(frozen=True)
class _Kept:
    """A factor of H with what it was made of; no part of a fit's state."""

    second: FloatArray | None
    tau: float
    factor: FloatArray


@dataclass(frozen=True)
class NewtonRidge(State, kind="experts/additive.NewtonRidge"):
    """The state of one fit.

    Attributes
    ----------
    tau, fold, joint
        What is fitted: see `FitRequest`.
    coefficients
        The best so far; [P + 1].
    value, slope
        Log-likelihood and its slope there.
    second
        Second moments, packed; None where they are wanted next.
    fresh
        Whether they were made at ``coefficients``.
    trial
        What is evaluated next.
    step, taken
        How far along Newton's direction it is; steps since the second moments were made.
    tolerance
        The fit ends when the rise to come is less, in nats.
    done
        Whether it has ended.
    """

    tau: float
    fold: int
    coefficients: FloatArray
    value: float
    slope: FloatArray
    second: FloatArray | None
    fresh: bool
    trial: FloatArray
    step: float
    taken: int
    tolerance: float
    done: bool = False
    joint: bool = False

    @classmethod
    def at(
        cls, tau: float, start: FloatArray, tolerance: float, joint: bool = False
    ) -> NewtonRidge:
        """Begin at coefficients."""
        nothing = np.zeros_like(start)
        return cls(
            tau,
            -1,
            start,
            -np.inf,
            nothing,
            None,
            False,
            start,
            1.0,
            0,
            tolerance,
            joint=joint,
        )

    @property
    def request(self) -> FitRequest:
        """What it needs next."""
        second = self.second is None
        return FitRequest(self.trial, self.fold, second, joint=self.joint)

    def left_out(self, observed: DesignSummary) -> FitRequest:
        """Request what leaving each row out gives at the fit's end."""
        packed = self._packed(observed)
        return FitRequest(self.coefficients, self.fold, False, packed, self.joint)

    def _packed(self, observed: DesignSummary) -> FloatArray:
        """Return H, packed, from the second moments at hand."""
        h = np.array(self.second)
        size = self.coefficients.size
        at = np.arange(1, size + 1)
        h[at * (at + 1) // 2 - 1] += observed.precision(self.tau, self.joint)
        return h

    def factor(self, observed: DesignSummary) -> FloatArray:
        """Return the lower Cholesky factor of H; it is made once for second moments and a tau."""
        kept: _Kept | None = vars(self).get("_kept")
        if kept is None or kept.second is not self.second or kept.tau != self.tau:
            factor = cholesky(unpack(self._packed(observed)), "the second moments")
            kept = _Kept(self.second, self.tau, factor)
            vars(self)["_kept"] = kept
        return kept.factor

    def _handing(self, after: NewtonRidge) -> NewtonRidge:
        """Return a fit that begins at this one, with the factor of H at hand."""
        if "_kept" in vars(self):
            vars(after)["_kept"] = vars(self)["_kept"]
        return after

    def covariance(self, observed: DesignSummary) -> FloatArray:
        """Return H^-1, packed."""
        return pack(inverse(self.factor(observed)))

    def take(self, evaluation: Evaluation, observed: DesignSummary) -> NewtonRidge:
        """Take the trial, or shorten the step."""
        precision = observed.precision(self.tau, self.joint)
        before = self.value - 0.5 * precision @ self.coefficients**2
        after = evaluation.value - 0.5 * precision @ self.trial**2
        renewed = self.second is None
        if renewed or after >= before - 1e-12 * abs(before):
            moved = replace(
                self,
                coefficients=self.trial,
                value=evaluation.value,
                slope=evaluation.slope,
                second=evaluation.second if renewed else self.second,
                fresh=renewed,
                taken=0 if renewed else self.taken + 1,
            )
            return self._handing(moved).aimed(observed)
        if not self.fresh:
            return replace(self, second=None, trial=self.coefficients)
        step = 0.5 * self.step
        if step < _SHORTEST:
            return self._handing(replace(self, done=True))
        ahead = self.coefficients + 0.5 * (self.trial - self.coefficients)
        return self._handing(replace(self, trial=ahead, step=step))

    def aimed(self, observed: DesignSummary) -> NewtonRidge:
        """Return the fit with its next trial, or done."""
        precision = observed.precision(self.tau, self.joint)
        uphill = self.slope - precision * self.coefficients
        move = solve(self.factor(observed), uphill)
        if 0.5 * uphill @ move <= self.tolerance:
            if self.fresh or self.fold >= 0:
                return self._handing(replace(self, done=True))
            return replace(self, second=None, trial=self.coefficients)
        if self.taken >= TRIALS:
            return replace(self, second=None, trial=self.coefficients)
        return self._handing(replace(self, trial=self.coefficients + move, step=1.0))

    def without(self, fold: int, share: float) -> NewtonRidge:
        """Return a fit that begins here and leaves a part of the rows out."""
        second = share * np.asarray(self.second)
        return replace(
            self,
            fold=fold,
            value=-np.inf,
            second=second,
            fresh=False,
            taken=0,
            trial=self.coefficients,
            done=False,
        )

    def finer(self, tolerance: float, observed: DesignSummary) -> NewtonRidge:
        """Return the fit with a smaller tolerance."""
        return self._handing(replace(self, tolerance=tolerance, done=False)).aimed(observed)


PROCESS_TAUS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.06, 0.03)
TAUS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
PAST, PROCESS_PAST = 2, 1
"""Values of tau that are tried after the best one so far; a process's are near one another."""


@dataclass(frozen=True)
class RegularisationPath(State, kind="experts/additive.RegularisationPath"):
    """Fits with ever smaller tau, each begun at the last, and what leaving rows out says of them.

    Attributes
    ----------
    climb
        The fit at work.
    taus
        Values to try, from the largest.
    left_out
        The leave-one-out log-likelihood of those tried.
    best
        The best fit so far.
    converged
        Whether the fit at work is at its end, and leaving rows out is wanted.
    done
        Whether the path has ended.
    """

    climb: NewtonRidge
    taus: tuple[float, ...]
    left_out: tuple[float, ...] = ()
    best: NewtonRidge | None = None
    converged: bool = False
    done: bool = False

    @classmethod
    def first(
        cls, taus: tuple[float, ...], observed: DesignSummary, tolerance: float, joint: bool = False
    ) -> RegularisationPath:
        """Begin with the largest tau, at the intercept alone."""
        start = observed.start(observed.precision(1.0, joint).size)
        return cls(NewtonRidge.at(taus[0], start, tolerance, joint), taus)

    def tried(self, rows: float) -> tuple[FloatArray, FloatArray]:
        """Return the values of tau that were tried, and what each leaves out gives a row."""
        return np.array(self.taus[: len(self.left_out)]), np.array(self.left_out) / rows

    def request(self, observed: DesignSummary) -> FitRequest:
        """What it needs next."""
        return self.climb.left_out(observed) if self.converged else self.climb.request

    def take(
        self, evaluation: Evaluation, left_out: float | None, observed: DesignSummary
    ) -> RegularisationPath:
        """Go on from the answer."""
        if not self.converged:
            climb = self.climb.take(evaluation, observed)
            return replace(self, climb=climb, converged=climb.done)
        assert left_out is not None
        found = (*self.left_out, left_out)
        best = self.climb if left_out >= max(found) else self.best
        past = len(found) - 1 - int(np.argmax(found))
        enough = PROCESS_PAST if self.climb.joint else PAST
        if len(found) == len(self.taus) or past >= enough:
            return replace(self, left_out=found, best=best, converged=False, done=True)
        climb = replace(self.climb, tau=self.taus[len(found)], taken=0, done=False).aimed(observed)
        return RegularisationPath(climb, self.taus, found, best, climb.done)
