"""One prior to try, a point of its posterior, and where searches from several points begin.

Gates eta_k ~ N(0, 1/tau), experts beta_k ~ N(0, 1/tau); all intercepts are N(0, 10). A point is
the mode, or q = N(m, diag s^2) over gates and experts, of which s is fitted and m stays. Searches
are L-BFGS in coordinates that no column's scale bends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import numpy as np

from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.experts.likelihood import CHUNK, at_points, prior_precision, under_gaussian
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
    """A mean [2, K, p] (gates, experts) of one candidate, and log s.

    ``log_sd`` is None at a mode; it has the shape of ``mean``, which stays then. The coordinates
    are those that move.
    """

    candidate: Candidate
    mean: FloatArray
    log_sd: FloatArray | None = None

    @property
    def vector(self) -> FloatArray:
        """All coordinates in a row, as `at` takes them."""
        return np.ravel(self.mean if self.log_sd is None else self.log_sd)

    def at(self, vector: FloatArray) -> Point:
        """Return the point with other coordinates, the first ones of ``vector``."""
        moved = vector[: self.mean.size].reshape(self.mean.shape)
        if self.log_sd is None:
            return Point(self.candidate, moved)
        return Point(self.candidate, self.mean, np.minimum(moved, WIDEST))

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
        if self.log_sd is not None:
            return np.ones(self.mean.size)
        rows = observed.squares[-1]  # of the intercept, which is 1 in every row
        usual = self.candidate.tau + self._share * rows
        return np.ravel(np.sqrt(np.maximum(self._curvature(observed) / usual, 1.0)))

    @property
    def _share(self) -> float:
        """Curvature of the likelihood in one weight, guessed, for each x^2."""
        return 0.1 / self.candidate.n_experts

    def _curvature(self, observed: Observed) -> FloatArray:
        """Guess the posterior precision of gates and experts; [2, K, p]."""
        guess = np.full(self.mean.shape, self._share) * observed.squares
        return prior_precision(self.candidate.tau, observed.squares.size) + guess

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
        value += -0.5 * float(np.vdot(pull, self.mean) - log_det)
        value -= 0.5 * size * log(2.0 * pi)
        if self.log_sd is None:
            return value + size * (log(SPIKE) + 0.5 * log(2.0 * pi) + 0.5), slopes - pull.ravel()
        variance = np.exp(2.0 * self.log_sd)
        value += float(np.sum(self.log_sd) + 0.5 * size * (log(2.0 * pi) + 1.0))
        value -= 0.5 * float(np.sum(precision * variance))
        return value, slopes + (1.0 - precision * variance).ravel()


@dataclass(frozen=True)
class Sums(Stats, kind="experts.Sums"):
    """What a partition returns: for each point its log-likelihood, and on held-out rows.

    Attributes
    ----------
    value
        Over the rows fitted, for each point; [R].
    gradient
        Of it, in the point's coordinates.
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
        points: Sequence[Point],
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
        offsets, copied = offsets or {}, not held and batch.size <= COPIED
        alike: dict[Any, list[int]] = {}
        for i, point in enumerate(points):
            kind = point.candidate.fold, point.mean.shape, point.log_sd is None
            alike.setdefault(kind, []).append(i)
        value = np.empty(len(points))
        log_p, gradient = [np.zeros(0)] * len(points), [np.zeros(0)] * len(points)
        for (fold, *_), same in alike.items():
            rows, weight, offset = batch, batch.used, offsets.get(fold)
            if fold >= 0 and copied:
                at, rows = batch.without(folds, fold)
                weight, offset = rows.used, None if offset is None else offset[at]
            elif fold >= 0:
                weight = weight * (batch.fold(folds) != fold)
            few = max(1, CHUNK // max(1, rows.size))
            for first in range(0, len(same), few):
                some = same[first : first + few]
                found, slopes = likelihood([points[i] for i in some], rows, weight, draws, offset)
                for i, of_rows, slope in zip(some, found, slopes, strict=True):
                    value[i], log_p[i], gradient[i] = weight @ of_rows, of_rows, slope
        candidates = dict.fromkeys(point.candidate for point in points)
        if not held:
            nothing = np.zeros(len(candidates))
            return cls(value, tuple(gradient), nothing, np.diag(nothing), nothing)
        fold_of, roots, products = batch.fold(folds), [], []
        for candidate in candidates:
            own = [log_p[i] for i, point in enumerate(points) if point.candidate == candidate]
            root = np.sqrt(batch.used * (fold_of == candidate.fold))
            roots.append(root)
            products.append(root * (np.logaddexp.reduce(own) - log(len(own))))
        root, product = np.array(roots), np.array(products)
        total = np.einsum("rn,rn->r", product, root)
        return cls(value, tuple(gradient), total, product @ product.T, (root**2).sum(1))


def likelihood(
    points: Sequence[Point],
    batch: Rows,
    weight: FloatArray,
    draws: int,
    offset: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return E log p(y | x) of every row at points of one shape [R, N], and its sums' gradients.

    These, [R, P], are of the sums over rows by ``weight`` [N], in the points' coordinates.
    ``offset`` [N] is added to every expert's sums.
    """
    if points[0].log_sd is None:
        mean = np.array([point.mean for point in points])
        value, gradient = at_points(batch, mean, weight, offset)
        return value, gradient.reshape(len(points), -1)
    values, gradients = [], []
    for point in points:
        variance = np.exp(2.0 * np.asarray(point.log_sd))
        value, in_variance = under_gaussian(batch, point.mean, variance, draws, weight, offset)
        values.append(value)
        gradients.append(np.ravel(2.0 * variance * in_variance))
    return np.array(values), np.array(gradients)


def objectives(
    points: Sequence[Point], sums: Sums, places: Iterable[int] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the objective of every point [S], and its gradients, 0 behind the shorter ones [S, P].

    ``places``: of the points that the sums are of; 0 of all others.
    """
    value = np.zeros(len(points))
    gradient = np.zeros((len(points), max(point.mean.size for point in points)))
    for i, *answer in zip(
        places or range(len(points)), sums.value.tolist(), sums.gradient, strict=True
    ):
        value[i], slope = points[i].objective(*answer)
        gradient[i, : slope.size] = slope
    return value, gradient


def padded(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return vectors as rows, with 0 behind the shorter ones."""
    found = np.zeros((len(vectors), max(vector.size for vector in vectors)))
    for row, vector in zip(found, vectors, strict=True):
        row[: vector.size] = vector
    return found


MEMORY = 20


def first_ascent(
    points: Sequence[Point], sums: Sums, stretch: FloatArray, memory: int = MEMORY
) -> BatchedLBFGS:
    """Begin at points, no further than 1 along their gradients, in stretched coordinates."""
    value, gradient = objectives(points, sums)
    at = padded([point.vector for point in points]) * stretch
    return BatchedLBFGS.start(at, value, gradient / stretch, 0.0, 1.0, min(memory, MEMORY))


def stretches(points: Sequence[Point], observed: Observed) -> FloatArray:
    """Return the points' factors as rows; after the shorter ones 1."""
    return np.maximum(padded([point.stretch(observed) for point in points]), 1.0)
