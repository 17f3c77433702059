"""MIL-GP-Probit (Wang and Pinar 2021), f integrated out: the collapsed bound and its fits.

The model, with the letters of `features` and `likelihood`, for every class

    w ~ N(0, I),  m_i | w ~ N(c0 + phi_i'w, s_i^2),  Y_b = 1[some m_i > 0]

With q(w) q(m), q(w) = N(mu, Sigma), Sigma = (I + G)^-1, G = sum phi phi'/s^2, and q(m) at its
optimum, the bound is a function of mu alone (derived from eqs 13-23; the paper keeps f and has
s = 1, which costs sum r_i / 2 more: `reproduce.milgp_as_printed`):

    J = log p(Y | w = mu) - |mu|^2/2 - log det(I + G)/2

Its maximum is the mode of the exact posterior of w. Coordinate ascent is the step
mu + (I + G)^-1 grad J; `fit` climbs faster.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from vbmodels.bags.mil_gp.features import FeatureMap, feature_map
from vbmodels.bags.mil_gp.gaussian import Averages, GaussianSums
from vbmodels.bags.mil_gp.kernel import KernelOptions
from vbmodels.bags.mil_gp.likelihood import Points, PointsWithGram, Sums
from vbmodels.bags.multilabel import FOLDS, Batch, Observed
from vbmodels.core.algorithm import WithoutLocals
from vbmodels.core.linalg import cholesky, log_det, solve_lower, unpack
from vbmodels.core.state import FloatArray, IntArray, State


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

    def observe(self, batch: Batch) -> Observed:
        """Return scaling, label counts and a sample for the inducing points."""
        options = self.options
        return Observed.of(batch, options.sample, options.sample_seed, options.wants_products)

    def init(self, observed: Observed, rng: np.random.Generator) -> Search:
        """Choose the features and start at mu = 0."""
        warn_of_one_side(observed)
        features = feature_map(self.options, observed, rng)
        return Search.start(features, observed.positive.size)

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Return mu + (I + G)^-1 grad J: coordinate ascent (eqs 17, 18)."""
        factor = self.factor(q, stats)
        moved = q.points + lower(factor, lower(factor, self.slope(q, stats)), transposed=True)
        return replace(q, points=moved, factor=factor)

    def elbo(self, q: Search, stats: Sums) -> float:
        """Return J summed over classes, each at its kernel value (the best, until chosen)."""
        bounds = self.bounds(q, stats)
        if q.kernel.size:
            return float(bounds[q.kernel, np.arange(q.kernel.size)].sum())
        return float(bounds.max(axis=0).sum())

    def bounds(self, q: Search, stats: Sums) -> FloatArray:
        """Return J, the bound of eqs 13, 14, for every kernel value and class, [K, C]."""
        square = 0.5 * (q.points**2).sum(axis=-1)
        return np.asarray(stats.value - square - 0.5 * log_det(self.factor(q, stats))[:, None])

    def slope(self, q: Search, stats: Sums) -> FloatArray:
        """Return the gradient of J, [K, C, P]."""
        return stats.gradient - q.points

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


def lower(factor: FloatArray, vectors: FloatArray, transposed: bool = False) -> FloatArray:
    """Return L^-1 v or L'^-1 v for every kernel value and class; [K, P, P], [K, C, P]."""
    right = np.swapaxes(vectors, -1, -2)
    if len(factor) == 1:
        solved = solve_lower(factor[0], right[0], transposed)[None]
    else:
        solved = solve_lower(factor, right, transposed)
    return np.ascontiguousarray(np.swapaxes(solved, -1, -2))


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
