"""MIL-GP-Probit (Wang and Pinar 2021), f integrated out: the collapsed bound and its fits.

The model, with the letters of `features` and `likelihood`, for every class

    w ~ N(0, I),  m_i | w ~ N(c0 + phi_i'w, s_i^2),  Y_b = 1[some m_i > 0]

With q(w) q(m), q(w) = N(mu, Sigma), Sigma = (I + G)^-1, G = sum phi phi'/s^2, and q(m) at its
optimum, the bound is a function of mu alone (derived from eqs 13-23; the paper keeps f and has
s = 1, which costs sum r_i / 2 more: `reproduce.milgp_as_printed`):

    J = log p(Y | w = mu) - |mu|^2/2 - log det(I + G)/2

Its maximum is the mode of the exact posterior of w. Coordinate ascent is the step
mu + (I + G)^-1 grad J. `DirectGP` climbs faster, by L-BFGS in the coordinates L'mu, L L' = I + G,
takes Gauss-Newton's curvature at the end, and with it the evidence

    log p(Y) ~ log p(Y | mu) - |mu|^2/2 - log det(Sigma^-1)/2,

by which the kernel value is chosen from the grid, for each class: the bound's I + G counts
every instance as if it were observed. Then, from Gauss-Newton's, q(w) becomes the nearest Gaussian
(`gaussian`), whose fixed point does not depend on where L-BFGS ended: the mode lies .1 to .9
standard deviations off the mean, and Gauss-Newton's are too narrow.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from vbmodels.bags.mil_gp.features import FeatureMap, KernelOptions, feature_map
from vbmodels.bags.mil_gp.gaussian import Averages, Gaussian, GaussianSums, objective
from vbmodels.bags.mil_gp.likelihood import (
    Points,
    PointsWithCurvature,
    PointsWithGram,
    Sums,
    with_known_instances,
)
from vbmodels.bags.multilabel import FOLDS, Batch, Observed
from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show, Summing, WithoutLocals
from vbmodels.core.linalg import cholesky, log_det, solve_lower, unpack
from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, aligned


class OneSided(UserWarning):
    """A class has bags with one label only: its probabilities rest on the prior."""


@dataclass(frozen=True)
class Posterior(State, kind="bags/mil_gp.Posterior"):
    """q(w) of every class at its kernel value (eq 15).

    Attributes
    ----------
    features
        The feature map.
    kernel
        Which kernel value, [C].
    mean
        [C, P].
    factor
        Lower Cholesky factor of the precision, [C, P, P].
    """

    features: FeatureMap
    kernel: IntArray
    mean: FloatArray
    factor: FloatArray


@dataclass(frozen=True)
class Search(State, kind="bags/mil_gp.Search"):
    """Points to evaluate for every kernel value and class, and what is known of them.

    Attributes
    ----------
    features
        The feature map.
    points
        mu, [K, C, P].
    factor
        L of I + G, [K, P, P]; [0] before the first evaluation.
    kernel
        Kernel value chosen for each class, [C]; [0] until it is.
    precision
        Factor of the precision of q(w), [C, P, P]; [0] until it is known.
    evidence
        Gauss-Newton's approximation to log p(Y), [K, C]; [0] until it is known.
    nearest
        Whether q(w) is the nearest Gaussian, or on its way there.
    """

    features: FeatureMap
    points: FloatArray
    factor: FloatArray
    kernel: IntArray
    precision: FloatArray
    evidence: FloatArray
    nearest: bool = False

    @classmethod
    def start(cls, features: FeatureMap, n_classes: int) -> Search:
        """Return the start at mu = 0 for all kernel values of a map."""
        return cls(
            features=features,
            points=np.zeros((features.n_kernels, n_classes, features.n_columns)),
            factor=np.empty(0),
            kernel=np.empty(0, dtype=np.int64),
            precision=np.empty(0),
            evidence=np.empty(0),
        )

    @property
    def mean(self) -> FloatArray:
        """mu of every class at its kernel value, [C, P]."""
        return self.points[self.kernel, np.arange(self.kernel.size)]

    def request(self) -> Points | Averages:
        """Return what the bound and its slope are made of; at first with G."""
        if self.nearest:
            every = np.full(self.kernel.size, True)
            return Averages(self.features, self.kernel, self.mean, self.precision, every)
        of = Points if self.factor.size else PointsWithGram
        return of(self.features, self.points, np.ones(self.points.shape[:2], dtype=bool))

    def sums(self, batch: Batch) -> Sums | GaussianSums:
        """Evaluate a partition."""
        return self.request().sums(batch)


@dataclass(frozen=True)
class CollapsedGP(WithoutLocals):
    """The bound J and its step of coordinate ascent, from which `fit` is made.

    Parameters
    ----------
    options
        Kernel, scaling, inducing points.
    """

    options: KernelOptions = field(default_factory=KernelOptions)

    def suff_stats(self, q: Summing, batch: Batch, local: None) -> Any:
        """Return the additive statistics that are asked for."""
        return q.sums(with_known_instances(batch))

    def observe(self, batch: Batch) -> Observed:
        """Return scaling, label counts and a sample for the inducing points."""
        options = self.options
        return Observed.of(batch, options.sample, options.sample_seed, options.wants_products)

    def init(self, observed: Observed, rng: np.random.Generator) -> Search:
        """Choose the features and start at mu = 0."""
        warn_of_one_side(observed)
        return Search.start(feature_map(self.options, observed, rng), observed.positive.size)

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Return mu + (I + G)^-1 grad J: coordinate ascent (eqs 17, 18)."""
        factor = self.factor(q, stats)
        every = np.full(q.points.shape[:2], True)
        half = lower(factor, stats.gradient - q.points, every)
        moved = q.points + lower(factor, half, every, transposed=True)
        return replace(q, points=moved, factor=factor)

    def elbo(self, q: Search, stats: Any) -> float:
        """Return J summed over classes, each at its kernel value (the best, until chosen).

        Of the nearest Gaussian it is its objective.
        """
        if q.nearest:
            return float(objective(q.mean, q.precision, stats.value).sum())
        bounds = self.bounds(q, stats)
        if q.kernel.size:
            return float(bounds[q.kernel, np.arange(q.kernel.size)].sum())
        return float(bounds.max(axis=0).sum())

    def bounds(self, q: Search, stats: Sums) -> FloatArray:
        """Return J, the bound of eqs 13, 14, for every kernel value and class, [K, C]."""
        square = 0.5 * (q.points**2).sum(axis=-1)
        return np.asarray(stats.value - square - 0.5 * log_det(self.factor(q, stats))[:, None])

    def factor(self, q: Search, stats: Sums) -> FloatArray:
        """Return L of I + G (eq 17), from the first evaluation or as it is known."""
        if q.factor.size:
            return q.factor
        gram = unpack(stats.matrix)
        return cholesky(gram + np.eye(gram.shape[-1]), "I + G")

    def posterior(self, q: Search) -> Posterior:
        """Return q(w) of each class; before there is one the prior at the first kernel value."""
        n_classes, size = q.points.shape[1:]
        classes = np.arange(n_classes)
        kernel = q.kernel if q.kernel.size else np.zeros(n_classes, dtype=np.int64)
        if q.precision.size:
            factor = q.precision
        else:
            unit = np.broadcast_to(np.eye(size), (q.features.n_kernels, size, size))
            factor = (q.factor if q.factor.size else unit)[kernel]
        return Posterior(q.features, kernel, q.points[kernel, classes], factor)


@dataclass(frozen=True)
class DirectGP(CollapsedGP):
    """The collapsed bound by L-BFGS for all kernel values and classes at once, then q(w).

    Parameters
    ----------
    tolerance
        Rise of the bound still promised, in nats, at which a search ends.
    posterior_form
        What q(w) is at the chosen kernel value: "gaussian" the nearest Gaussian, "laplace" the
        mode with Gauss-Newton's curvature.
    rise
        Rise of the nearest Gaussian's objective, in nats, at which it ends.
    """

    tolerance: float = 1e-6
    posterior_form: Literal["laplace", "gaussian"] = "gaussian"
    rise: float = 1e-3

    def algorithm(self, q: Search) -> Algorithm:
        """Find the modes and the kernel value, then the nearest Gaussian, or that alone."""
        if not q.nearest:
            q = yield Phase(self._chosen(q))
        if self.posterior_form == "gaussian":
            q = yield Phase(self._nearest(q))
        return q

    def _chosen(self, q: Search) -> Algorithm:
        """Climb to the modes, and choose the kernel value of each class by its evidence."""
        sums = yield Evaluate(q.request())
        yield Show(q, self.elbo(q, sums), by_trace=False)
        bounds, factor = self.bounds(q, sums), self.factor(q, sums)
        q, shape = replace(q, factor=factor), q.points.shape
        at = np.einsum(
            "kcqp,kcq->kcp",
            np.broadcast_to(factor[:, None], (*shape[:2], *factor.shape[1:])),
            q.points,
        )
        gradient = lower(factor, sums.gradient - q.points, np.full(shape[:2], True))
        search = BatchedLBFGS.start(
            at.reshape(-1, shape[-1]),
            bounds.ravel(),
            gradient.reshape(-1, shape[-1]),
            self.tolerance,
        )
        best = replace(sums, matrix=np.empty(0))
        while not search.done.all():
            active = ~search.done.reshape(shape[:2])
            moved = lower(factor, search.trial.reshape(shape), active, transposed=True)
            trial = replace(q, points=np.where(active[..., None], moved, q.points))
            sums = yield Evaluate(Points(q.features, trial.points, active))
            value = self.bounds(trial, sums).ravel()
            gradient = lower(factor, sums.gradient - trial.points, active)
            after = search.updated(value, gradient.reshape(-1, shape[-1]), self.tolerance)
            search, taken = aligned(after), after.taken.reshape(shape[:2])
            q = replace(q, points=np.where(taken[..., None], trial.points, q.points))
            best = replace(best, value=np.where(taken, sums.value, best.value))
            yield Show(q, self.elbo(q, best), by_trace=False)
        sums = yield Evaluate(PointsWithCurvature(q.features, q.points, np.full(shape[:2], True)))
        matrix = unpack(sums.matrix)
        factor = cholesky(matrix + np.eye(matrix.shape[-1]), "Gauss-Newton's precision")
        evidence = sums.value - 0.5 * (q.points**2).sum(axis=-1) - 0.5 * log_det(factor)
        kernel = evidence.argmax(axis=0)
        precision = factor[kernel, np.arange(kernel.size)]
        q = replace(q, kernel=kernel, precision=precision, evidence=evidence)
        yield Show(q, self.elbo(q, sums), by_trace=False)
        return q

    def _nearest(self, q: Search) -> Algorithm:
        """Go on to the Gaussian that is nearest to the posterior at the kernel values."""
        q, gaussian = replace(q, nearest=True), None
        while True:
            q, gaussian = yield Save((q, gaussian))
            if gaussian is None:
                sums = yield Evaluate(q.request())
                gaussian = Gaussian.start(q.mean, q.precision, sums)
            else:
                ahead, mean, factor = gaussian.trial()
                trial = Averages(q.features, q.kernel, mean, factor, ~ahead.done)
                sums = yield Evaluate(trial)
                after = ahead.updated(mean, factor, sums, self.rise)
                taken = (after.mean != gaussian.mean).any(axis=1)[:, None, None]
                points = q.points.copy()
                points[q.kernel, np.arange(q.kernel.size)] = after.mean
                q = replace(q, points=points, precision=np.where(taken, factor, q.precision))
                gaussian = after
            yield Show(q, float(gaussian.value.sum()), by_trace=False)
            if gaussian.done.all():
                return q


def lower(
    factor: FloatArray, vectors: FloatArray, active: BoolArray, transposed: bool = False
) -> FloatArray:
    """Return L^-1 v or L'^-1 v for every kernel value and class; [K, P, P], [K, C, P].

    It is 0 for the kernel values at which no class is active, [K, C].
    """
    result, some = np.zeros_like(vectors), active.any(axis=1)
    right = np.swapaxes(vectors[some], -1, -2)
    if len(right) == 1:
        solved = solve_lower(factor[some][0], right[0], transposed)[None]
    else:
        solved = solve_lower(factor[some], right, transposed)
    result[some] = np.swapaxes(solved, -1, -2)
    return result


def warn_of_one_side(observed: Observed) -> None:
    """Warn of every class whose bags have one label only; its fit is proper all the same."""
    for c in np.flatnonzero((observed.positive == 0) | (observed.negative == 0)):
        warnings.warn(
            f"class {c} has {observed.positive[c]} positive and {observed.negative[c]} negative "
            "bags: its probabilities rest on the prior",
            OneSided,
            stacklevel=3,
        )


NEAR = 4.0
"""Nats below the best evidence from which a kernel value may be the best without some bags.

In 50 folds of ten sets the largest distance of a fold's choice was 3.8.
"""


def near(q: Search) -> IntArray:
    """Return the kernel values whose evidence is near the best, for the first class."""
    evidence = q.evidence[:, 0]
    return np.flatnonzero(evidence >= evidence.max() - NEAR)


def at_values(q: Search, kernels: IntArray, classes: int) -> Search:
    """Return the start of a search over some kernel values, of so many classes."""
    return Search.start(q.features.at_values(kernels), classes)


def at_mean(features: FeatureMap, mean: FloatArray, factor: FloatArray) -> Search:
    """Return the folds' fits at one q(w), to go on to the Gaussian that is nearest to each."""
    return Search(
        features=features,
        points=np.repeat(mean[None, None], FOLDS, axis=1),
        factor=np.empty(0),
        kernel=np.zeros(FOLDS, dtype=np.int64),
        precision=np.repeat(factor[None], FOLDS, axis=0),
        evidence=np.empty(0),
        nearest=True,
    )
