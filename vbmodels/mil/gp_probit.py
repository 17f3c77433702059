"""MIL-GP-Probit (Wang and Pinar 2021), f integrated out: the collapsed bound and its fits.

The model, with the letters of `gp_features` and `gp_likelihood`, for every class

    w ~ N(0, I),  m_i | w ~ N(c0 + phi_i'w, s_i^2),  Y_b = 1[some m_i > 0]

With q(w) q(m), q(w) = N(mu, Sigma), Sigma = (I + G)^-1, G = sum phi phi'/s^2, and q(m) at its
optimum, the bound is a function of mu alone (derived from eqs 13-23; the text keeps f and has
s = 1, which costs sum r_i / 2 more: ``collapsed=False``):

    J = log p(Y | w = mu) - |mu|^2/2 - log det(I + G)/2  [- sum r_i/2]

Its maximum is the mode of the exact posterior of w. Coordinate ascent is the step
mu + (I + G)^-1 grad J; `DirectGP` climbs by L-BFGS in the coordinates L'mu, L L' = I + G, takes
Gauss-Newton's curvature at the end, and with it the covariance and the evidence

    log p(Y) ~ log p(Y | mu) - |mu|^2/2 - log det(Sigma^-1)/2,

by which the kernel value is chosen from the grid, for each class: the bound's I + G counts
every instance as if it were observed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from vbmodels.cavi import Cursor, Reduce, Step, cavi
from vbmodels.linalg import cholesky, log_det, solve_lower, unpack
from vbmodels.mil.gp_data import Batch, Observed
from vbmodels.mil.gp_features import FeatureMap, KernelOptions, feature_map
from vbmodels.mil.gp_lbfgs import Ascent
from vbmodels.mil.gp_likelihood import Sums, evaluate
from vbmodels.state import BoolArray, FloatArray, IntArray, State, aligned

PRINTED = KernelOptions(
    kernel="rbf",
    length_scales=(1.0,),
    amplitudes=(1.0,),
    constant_variance=0.0,
    offset=0.0,
    standardise=True,
)
"""The text's kernel (section 4): amplitude 1, length scale sqrt(D), mean 0."""


class OneSided(UserWarning):
    """A class has bags with one label only: its probabilities rest on the prior."""


@dataclass(frozen=True)
class Posterior(State):
    """q(w) of every class at its kernel value.

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
    collapsed
        Whether r_i is part of the noise; False in the text's form (predictions are the same).
    """

    features: FeatureMap
    kernel: IntArray
    mean: FloatArray
    factor: FloatArray
    collapsed: bool = True


@dataclass(frozen=True)
class Search(State):
    """Points to evaluate for every kernel value and class, and what is known of them.

    Attributes
    ----------
    features
        The feature map.
    points
        mu, [K, C, P].
    wanted
        What partitions return at the points beside value and gradient; see `evaluate`.
    factor
        L of I + G, [K, P, P]; [0] before the first evaluation.
    active
        Kernel values that still move, [K].
    kernel
        Kernel value chosen for each class, [C]; [0] until it is.
    precision
        Factor of the precision of q(w), [C, P, P]; [0] until it is known.
    evidence
        Gauss-Newton's approximation to log p(Y), [K, C]; [0] until it is known.
    """

    features: FeatureMap
    points: FloatArray
    wanted: str
    factor: FloatArray
    active: BoolArray
    kernel: IntArray
    precision: FloatArray
    evidence: FloatArray


@dataclass(frozen=True)
class DirectCursor(Cursor):
    """Position of the direct fit: the searches, in the coordinates L'mu."""

    ascent: Ascent


@dataclass(frozen=True)
class CollapsedGP:
    """The bound J by coordinate ascent, accelerated; the base of the other forms.

    Parameters
    ----------
    options
        Kernel, scaling, inducing points.
    collapsed
        Whether f is integrated out; False is the text's form.
    keep_columns
        Whether phi is kept in memory between evaluations (8 N P bytes a length scale), or
        computed again each time.
    """

    options: KernelOptions = field(default_factory=KernelOptions)
    collapsed: bool = True
    keep_columns: bool = True

    def observe(self, batch: Batch) -> Observed:
        """Return scaling, label counts and a sample for the inducing points."""
        return Observed.of(batch, self.options.sample, self.options.sample_seed)

    def init(self, observed: Observed, rng: np.random.Generator) -> Search:
        """Choose the features and start at mu = 0."""
        warn_of_one_side(observed)
        features = feature_map(self.options, observed, rng)
        n_classes = observed.positive.size
        return Search(
            features=features,
            points=np.zeros((features.n_kernels, n_classes, features.n_columns)),
            wanted="gram",
            factor=np.empty(0),
            active=np.ones(features.n_kernels, dtype=bool),
            kernel=np.empty(0, dtype=np.int64),
            precision=np.empty(0),
            evidence=np.empty(0),
        )

    def local_step(self, q: Search, batch: Batch, local: None) -> None:
        """Do nothing: q(m) follows from q(w) in closed form."""

    def suff_stats(self, q: Search, batch: Batch, local: None) -> Sums:
        """Evaluate a partition at the points of ``q``."""
        return evaluate(
            q.features,
            q.points,
            batch,
            wanted=q.wanted,
            collapsed=self.collapsed,
            keep=self.keep_columns,
            active=q.active,
        )

    def global_step(self, q: Search, stats: Sums) -> Search:
        """Return mu + (I + G)^-1 grad J: coordinate ascent (eqs 17, 18)."""
        factor = self.factor(q, stats)
        moved = q.points + _lower(factor, _lower(factor, self.slope(q, stats)), transposed=True)
        return replace(q, points=moved, factor=factor, wanted="gradient")

    def elbo(self, q: Search, stats: Sums) -> float:
        """Return J summed over classes, each at its kernel value (the best, until chosen)."""
        bounds = self.bounds(q, stats)
        if q.kernel.size:
            return float(bounds[q.kernel, np.arange(q.kernel.size)].sum())
        return float(bounds.max(axis=0).sum())

    def bounds(self, q: Search, stats: Sums) -> FloatArray:
        """Return J for every kernel value and class, [K, C]."""
        text = 0.0 if self.collapsed else 0.5 * stats.residual[:, None]
        square = 0.5 * (q.points**2).sum(axis=-1)
        result: FloatArray = (
            stats.value - square - 0.5 * log_det(self.factor(q, stats))[:, None] - text
        )
        return result

    def slope(self, q: Search, stats: Sums) -> FloatArray:
        """Return the gradient of J, [K, C, P]."""
        result: FloatArray = stats.gradient - q.points
        return result

    def factor(self, q: Search, stats: Sums) -> FloatArray:
        """Return L of I + G, from the first evaluation or as it is known."""
        if q.wanted != "gram":
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
            known = q.factor if q.factor.size else np.broadcast_to(np.eye(size), (1, size, size))
            factor = known[kernel]
        return Posterior(q.features, kernel, q.points[kernel, classes], factor, self.collapsed)

    def to_vector(self, q: Search) -> FloatArray:
        """Return mu as a vector."""
        return q.points.ravel()

    def from_vector(self, q: Search, vector: FloatArray) -> Search:
        """Return ``q`` with another mu."""
        return replace(q, points=vector.reshape(q.points.shape))


@dataclass(frozen=True)
class PrintedGP(CollapsedGP):
    """The text's coordinate ascent: f kept in the bound, s = 1, stopped after 25 sweeps.

    Parameters
    ----------
    sweeps
        Sweeps after which the fit counts as done, converged or not (section 4); None: until
        the bound has converged.
    """

    options: KernelOptions = PRINTED
    collapsed: bool = False
    sweeps: int | None = 25

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Yield plain sweeps; the last one is called converged, as the text has it."""
        for step in cavi(self, reduce, cursor):
            ended = None if self.sweeps is None else step.iteration >= self.sweeps
            yield replace(step, converged=ended)


@dataclass(frozen=True)
class DirectGP(CollapsedGP):
    """The collapsed bound by L-BFGS for all kernel values and classes at once.

    Parameters
    ----------
    tolerance
        Rise of the bound still promised, in nats, at which a search ends.
    covariance
        "gauss_newton", or "bound" for (I + G)^-1; "auto" takes the latter where the kernel is
        linear on unscaled rows: with one column a word, many of them rare, Gauss-Newton's is
        too wide (log-likelihood of newsgroup instances -.100 against -.081), elsewhere the
        bound's is too narrow (birdsong -.27 against -.19).
    """

    tolerance: float = 1e-6
    covariance: Literal["auto", "gauss_newton", "bound"] = "auto"

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Yield one step an evaluation, at the best points so far; the last has the curvature."""
        at = cursor if isinstance(cursor, DirectCursor) else self._begin(cursor)
        ended = at.q.kernel.size > 0  # type: ignore[attr-defined]
        yield Step(at.number, at.q, at.elbo, at, ended)
        while not ended:
            ended = bool(at.ascent.done.all())
            at = self._curved(reduce, at) if ended else self._advanced(reduce, at)
            yield Step(at.number, at.q, at.elbo, at, ended)

    def _begin(self, cursor: Cursor) -> DirectCursor:
        q, stats = _typed(cursor)
        factor = self.factor(q, stats)
        bounds = self.bounds(q, stats)
        q = replace(q, factor=factor, wanted="gradient")
        stats = replace(stats, matrix=np.empty(0))
        gradient = _lower(factor, self.slope(q, stats))
        at = np.einsum("kqp,kcq->kcp", factor, q.points)
        size = q.points.shape[-1]
        ascent = Ascent.start(
            at.reshape(-1, size), bounds.ravel(), gradient.reshape(-1, size), self.tolerance
        )
        return DirectCursor(q, stats, cursor.number, cursor.elbo, aligned(ascent))

    def _advanced(self, reduce: Reduce, at: DirectCursor) -> DirectCursor:
        """Evaluate every unfinished search at its trial."""
        q, stats = _typed(at)
        shape, size = q.points.shape, q.points.shape[-1]
        points = _lower(q.factor, at.ascent.trial.reshape(shape), transposed=True)
        active = np.asarray(~at.ascent.done.reshape(shape[:2]).all(axis=1), dtype=np.bool_)
        trial = aligned(replace(q, points=points, active=active))
        found = aligned(reduce(trial, number=at.number + 1, warm=at.number))
        value = self.bounds(trial, found).ravel()
        gradient = _lower(q.factor, self.slope(trial, found))
        ascent = aligned(at.ascent.told(value, gradient.reshape(-1, size), self.tolerance))
        taken = (ascent.at != at.ascent.at).any(axis=1).reshape(shape[:2])
        q = aligned(replace(q, points=np.where(taken[..., None], points, q.points)))
        stats = replace(
            stats,
            value=np.where(taken, found.value, stats.value),
            gradient=np.where(taken[..., None], found.gradient, stats.gradient),
        )
        return DirectCursor(q, stats, at.number + 1, self.elbo(q, stats), ascent)

    def _curved(self, reduce: Reduce, at: DirectCursor) -> DirectCursor:
        """Ask for the curvature at the end, and choose each class's kernel value by evidence."""
        q = _typed(at)[0]
        q = aligned(replace(q, wanted="curvature", active=np.full(q.active.shape, True)))
        stats = aligned(reduce(q, number=at.number + 1, warm=at.number))
        matrix = unpack(stats.matrix)
        factor = cholesky(matrix + np.eye(matrix.shape[-1]), "Gauss-Newton's precision")
        square = 0.5 * (q.points**2).sum(axis=-1)
        evidence = stats.value - square - 0.5 * log_det(factor)
        kernel = evidence.argmax(axis=0)
        text = not q.features.kinds and not np.isfinite(q.features.clip)
        if self.covariance == "bound" or (self.covariance == "auto" and text):
            chosen = q.factor[kernel]
        else:
            chosen = factor[kernel, np.arange(kernel.size)]
        q = replace(q, kernel=kernel, precision=chosen, evidence=evidence)
        stats = replace(stats, matrix=np.empty(0))
        return DirectCursor(aligned(q), stats, at.number + 1, self.elbo(q, stats), at.ascent)


def _lower(factor: FloatArray, vectors: FloatArray, transposed: bool = False) -> FloatArray:
    """Return L^-1 v or L'^-1 v for every kernel value and class; [K, P, P], [K, C, P]."""
    right = np.swapaxes(vectors, -1, -2)
    if len(factor) == 1:
        solved = solve_lower(factor[0], right[0], transposed)[None]
    else:
        solved = solve_lower(factor, right, transposed)
    result: FloatArray = np.ascontiguousarray(np.swapaxes(solved, -1, -2))
    return result


def _typed(cursor: Cursor) -> tuple[Search, Sums]:
    q: Any = cursor.q
    stats: Any = cursor.stats
    return q, stats


def warn_of_one_side(observed: Observed) -> None:
    """Warn of every class whose bags have one label only; its fit is proper all the same."""
    for c in np.flatnonzero((observed.positive == 0) | (observed.negative == 0)):
        warnings.warn(
            f"class {c} has {observed.positive[c]} positive and {observed.negative[c]} negative "
            "bags: its probabilities rest on the prior",
            OneSided,
            stacklevel=3,
        )
