"""One prior to try, a point of its posterior, and the searches from several points side by side.

Gates eta_k ~ N(0, 1/tau), experts beta_k ~ N(0, 1/tau); all intercepts are N(0, 10). A point is
the mode, or q = N(m, diag s^2) over gates and experts, of which s is fitted and m stays. Searches
are L-BFGS in coordinates that no column's scale bends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from scipy.special import logsumexp

from vbmodels.core.algorithm import Algorithm, Evaluate, Save, Show
from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.experts.likelihood import at_point, prior_precision, under_gaussian
from vbmodels.experts.rows import Observed, Rows

SPIKE = 1e-4
"""Standard deviation of q, in the bound's trace, while the mode is sought."""

COPIED = 50_000
"""Rows of a partition up to which those that a candidate is fitted to are kept as copies."""
WIDEST = 50.0
"""Largest log s that a trial may have: beyond it exp overflows, below it nothing is lost."""


@dataclass(frozen=True)
class Candidate(State, kind="experts.Candidate"):
    """A prior, and which rows it is fitted to.

    Attributes
    ----------
    n_experts
        K; 1 is the additive part alone.
    tau
        Precision of gates and experts.
    fold
        The part of the rows that is held out; -1 for none.
    """

    n_experts: int
    tau: float
    fold: int = -1


@dataclass(frozen=True)
class Point(State, kind="experts.Point"):
    """Coordinates of one candidate: mean [2, K, p] (gates, experts), and log s.

    ``log_sd`` is None at a mode; it has the shape of ``mean``, which stays then.
    """

    candidate: Candidate
    mean: FloatArray
    log_sd: FloatArray | None = None

    @property
    def vector(self) -> FloatArray:
        """All coordinates in a row, as `at` takes them."""
        parts = [self.mean.ravel()]
        if self.log_sd is not None:
            parts.append(self.log_sd.ravel())
        return np.concatenate(parts)

    def at(self, vector: FloatArray) -> Point:
        """Return the point with other coordinates."""
        size = self.mean.size
        mean = vector[:size].reshape(self.mean.shape)
        log_sd = None
        if self.log_sd is not None:
            log_sd = np.minimum(vector[size:].reshape(self.mean.shape), WIDEST)
        return replace(self, mean=mean, log_sd=log_sd)

    @classmethod
    def random(cls, candidate: Candidate, columns: int, rng: np.random.Generator) -> Point:
        """Start near nothing, the experts slightly apart."""
        return cls(candidate, 0.1 * rng.standard_normal((2, candidate.n_experts, columns)))

    def narrowed(self, observed: Observed) -> Point:
        """Shrink the weights of columns larger than standardised ones, as they saturate rows."""
        size = np.sqrt(observed.squares / observed.squares[-1])
        return replace(self, mean=self.mean / np.maximum(size, 1.0))

    def widened(self, observed: Observed) -> Point:
        """Begin a Gaussian here, with widths guessed from the columns' sums of squares."""
        log_sd = -0.5 * np.log(self._curvature(observed))
        return replace(self, log_sd=log_sd)

    def stretch(self, observed: Observed) -> FloatArray:
        """Return factors of `vector` that leave no coordinate far more curved than the others.

        That of a standardised column is 1, whatever the rows' weights, and so are those of
        log s, whose curvatures do not depend on the columns' units. Small columns keep 1: on
        a9a, where they are rare zeros and ones, smaller factors cost up to a third more sweeps.
        """
        curvature = self._curvature(observed)
        rows = observed.squares[-1]  # of the intercept, which is 1 in every row
        usual = self.candidate.tau + self._share * rows
        factors = np.ones(self.vector.size)
        factors[: self.mean.size] = np.sqrt(np.maximum(curvature / usual, 1.0)).ravel()
        return factors

    @property
    def _share(self) -> float:
        """Curvature of the likelihood in one weight, guessed, for each x^2."""
        return 0.1 / self.candidate.n_experts

    def _curvature(self, observed: Observed) -> FloatArray:
        """Guess the posterior precision of gates and experts; [2, K, p]."""
        guess = np.full(self.mean.shape, self._share) * observed.squares
        return prior_precision(self.candidate.tau, observed.squares.size) + guess

    def likelihood(
        self,
        batch: Rows,
        fold: IntArray | None,
        draws: int,
        offset: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return E log p(y | x) of every row, and the gradient of its sum over the rows fitted.

        The gradient is in the means, then in the log s.
        ``offset`` [N] is added to every expert's sums.
        """
        weight = batch.used
        if fold is not None and self.candidate.fold >= 0:
            weight = weight * (fold != self.candidate.fold)
        if self.log_sd is None:
            value, gradient = at_point(batch, self.mean[0], self.mean[1], weight, offset)
            return value, gradient.ravel()
        variance = np.exp(2.0 * self.log_sd)
        value, in_mean, in_variance = under_gaussian(
            batch, self.mean, variance, draws, weight, offset
        )
        return value, np.concatenate([in_mean.ravel(), (2.0 * variance * in_variance).ravel()])

    def objective(self, value: float, slopes: FloatArray) -> tuple[float, FloatArray]:
        """Add the prior (and the entropy of q) to the likelihood and its gradient.

        Returns
        -------
        value
            The log posterior at a mode, plus the entropy of a spike N(m, SPIKE^2); else the
            bound E log p(y, eta, beta) - E log q.
        gradient
            In the coordinates of `vector`.
        """
        c, size = self.candidate, self.mean.size
        columns = self.mean.shape[2]
        precision = prior_precision(c.tau, columns)
        pull = precision * self.mean
        log_det = 2 * c.n_experts * np.sum(np.log(precision))
        value += -0.5 * float(np.sum(pull * self.mean) - log_det)
        value -= 0.5 * size * log(2.0 * pi)
        in_mean = slopes[:size].reshape(self.mean.shape) - pull
        if self.log_sd is None:
            return value + size * (log(SPIKE) + 0.5 * log(2.0 * pi) + 0.5), in_mean.ravel()
        variance = np.exp(2.0 * self.log_sd)
        value += float(np.sum(self.log_sd) + 0.5 * size * (log(2.0 * pi) + 1.0))
        value -= 0.5 * float(np.sum(precision * variance))
        in_log_sd = slopes[size:] + (1.0 - precision * variance).ravel()
        return value, np.concatenate([np.zeros(size), in_log_sd])


@dataclass(frozen=True)
class Sums(Stats, kind="experts.Sums"):
    """What a partition returns: for each point its log-likelihood, and on held-out rows.

    Attributes
    ----------
    value
        Over the rows fitted, for each point; [R].
    gradient
        Of it, in the point's means and log s.
    held
        Over the rows held out, for each candidate (in order of appearance), the predictions
        of its points averaged; [C].
    held_products
        Sums of products of two of these over rows that both hold out; [C, C].
    held_rows
        Weight of the rows held out; [C].
    """

    value: FloatArray
    gradient: tuple[FloatArray, ...]
    held: FloatArray
    held_products: FloatArray
    held_rows: FloatArray

    @classmethod
    def at(
        cls,
        points: tuple[Point, ...],
        batch: Rows,
        folds: int,
        draws: int,
        offsets: Mapping[int, FloatArray] | None = None,
        held: bool = True,
    ) -> Sums:
        """Evaluate all points on one partition.

        ``offsets`` [N] are added to the experts' sums of the candidates of each fold; without
        ``held`` nothing is said of rows held out.
        """
        offsets = offsets or {}
        if not held and batch.size <= COPIED:
            return cls._fitted(points, batch, folds, draws, offsets)
        fold = batch.fold(folds) if any(p.candidate.fold >= 0 for p in points) else None
        found = [p.likelihood(batch, fold, draws, offsets.get(p.candidate.fold)) for p in points]
        candidates = list(dict.fromkeys(point.candidate for point in points))
        weight = np.zeros((len(candidates), batch.size))
        if fold is not None:
            for i, candidate in enumerate(candidates):
                weight[i] = batch.used * (fold == candidate.fold)
        groups: list[list[FloatArray]] = [[] for _ in candidates]
        value = np.empty(len(points))
        for i, (point, (rows, _)) in enumerate(zip(points, found, strict=True)):
            at = candidates.index(point.candidate)
            value[i] = (batch.used - weight[at]) @ rows
            groups[at].append(rows)
        gradient = tuple(gradient for _, gradient in found)
        if not held:
            return cls._unheld(value, gradient, candidates)
        root = np.sqrt(weight)
        mixed = [logsumexp(g, axis=0) - log(len(g)) if len(g) > 1 else g[0] for g in groups]
        products = root * np.array(mixed)
        return cls(
            value,
            gradient,
            np.einsum("rn,rn->r", products, root),
            products @ products.T,
            weight.sum(1),
        )

    def parts(self) -> list[tuple[float, FloatArray]]:
        """Return log-likelihood and gradient of each point."""
        return list(zip(self.value.tolist(), self.gradient, strict=True))

    @classmethod
    def _fitted(
        cls,
        points: tuple[Point, ...],
        batch: Rows,
        folds: int,
        draws: int,
        offsets: Mapping[int, FloatArray],
    ) -> Sums:
        """Evaluate all points on the rows that each is fitted to, and on no others."""
        value, gradient = np.empty(len(points)), []
        for i, point in enumerate(points):
            fold, rows, offset = point.candidate.fold, batch, offsets.get(point.candidate.fold)
            if fold >= 0:
                at, rows = batch.without(folds, fold)
                offset = None if offset is None else offset[at]
            found, slopes = point.likelihood(rows, None, draws, offset)
            value[i] = rows.used @ found
            gradient.append(slopes)
        return cls._unheld(value, tuple(gradient), list(dict.fromkeys(p.candidate for p in points)))

    @classmethod
    def _unheld(
        cls, value: FloatArray, gradient: tuple[FloatArray, ...], candidates: list[Candidate]
    ) -> Sums:
        nothing = np.zeros(len(candidates))
        return cls(value, gradient, nothing, np.diag(nothing), nothing)


MEMORY = 20
FEW, MANY = 2, 20
"""Rises within the tolerance, in a row, that end a search: where its slope promises no more, and
though it does, as at a kink."""


def climb(point: Point, observed: Observed, tolerance: float, most: int) -> Algorithm:
    """Search from a point; return the best one, and the objective there.

    Parameters
    ----------
    point
        Where it starts; it is evaluated, and then as many trials as follow.
    observed
        What is known of the columns.
    tolerance
        It ends when two rises in a row are at most this, in nats, and the slope promises no more:
        g'H g / 2, the rise to come of a quadratic.
    most
        Most trials.
    """
    stretch = point.stretch(observed)
    ascent: BatchedLBFGS | None = None
    small = tried = 0
    while True:
        point, ascent, small, tried = yield Save((point, ascent, small, tried))
        trial = point if ascent is None else point.at(ascent.trial[0] / stretch)
        likelihood, slopes = yield Evaluate(trial)
        objective, slope = trial.objective(likelihood, slopes)
        value, gradient, over = np.array([objective]), slope[None] / stretch, False
        if ascent is None:
            ascent = first_ascent(point, stretch, value, gradient)
        else:
            before, tried = ascent, tried + 1
            ascent = before.updated(value, gradient, 0.0)
            if not np.array_equal(ascent.at, before.at):
                point = trial
                small = small + 1 if ascent.value[0] - before.value[0] <= tolerance else 0
                promised = 0.5 * ascent.stride[0] * ascent.slope[0]
                over = small >= (FEW if promised <= tolerance else MANY)
        best = float(ascent.value[0])
        yield Show(point, best, by_trace=False)
        if over or ascent.done[0] or tried >= most:
            return point, best


def first_ascent(
    point: Point, stretch: FloatArray, value: FloatArray, gradient: FloatArray
) -> BatchedLBFGS:
    """Begin at a point, no further than 1 along the gradient, in stretched coordinates."""
    at = (point.vector * stretch)[None]
    return BatchedLBFGS.start(at, value, gradient, 0.0, reach=1.0, memory=MEMORY)
