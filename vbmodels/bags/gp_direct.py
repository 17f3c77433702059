"""The direct fit of MIL-GP-Probit: the mode, the kernel value by evidence, then q(w).

`DirectGP` climbs the collapsed bound of `gp_probit` by L-BFGS in the coordinates L'mu,
L L' = I + G, takes Gauss-Newton's curvature at the end, and with it the evidence

    log p(Y) ~ log p(Y | mu) - |mu|^2/2 - log det(Sigma^-1)/2,

by which the kernel value is chosen from the grid, for each class: the bound's I + G counts
every instance as if it were observed. Then q(w) is that of Gauss-Newton, or the nearest Gaussian
(`gp_gaussian`).

With the baseline's score as a feature the kernel value is chosen without it, and the search goes
on with it at that value. The score repeats what the other features say, smoothly; with it in the
choice, the evidence takes kernel values at which they have little left to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from vbmodels.bags.gp_baseline import FoldSums, fold_sums, regressions
from vbmodels.bags.gp_data import FOLDS, Batch, Observed
from vbmodels.bags.gp_gaussian import Gaussian, GaussianSums, averages, objective
from vbmodels.bags.gp_lbfgs import Ascent
from vbmodels.bags.gp_probit import CollapsedGP, Search, lower, of_classes
from vbmodels.core.cavi import Cursor, Reduce, Step
from vbmodels.core.linalg import cholesky, log_det, unpack
from vbmodels.core.state import FloatArray, aligned


@dataclass(frozen=True)
class DirectCursor(Cursor):
    """Position of the direct fit: the searches, in the coordinates L'mu."""

    ascent: Ascent


@dataclass(frozen=True)
class GaussianCursor(Cursor):
    """Position of the search for the nearest Gaussian."""

    gaussian: Gaussian


@dataclass(frozen=True)
class DirectGP(CollapsedGP):
    """The collapsed bound by L-BFGS for all kernel values and classes at once, then q(w).

    Parameters
    ----------
    tolerance
        Rise of the bound still promised, in nats, at which a search ends.
    posterior_form
        What q(w) is at the chosen kernel value: "laplace" is the mode with Gauss-Newton's
        curvature, "gaussian" the nearest Gaussian. "auto" is gaussian for a linear kernel on
        text, where one column a word leaves the posterior wide and lopsided, and laplace
        elsewhere.
    rise
        Rise of the nearest Gaussian's objective, in nats, at which it ends.
    """

    tolerance: float = 1e-6
    posterior_form: Literal["auto", "laplace", "gaussian"] = "auto"
    rise: float = 1e-3
    folds: ClassVar[int] = FOLDS

    def init(self, observed: Observed, rng: np.random.Generator) -> Search:
        """Choose the features and start at mu = 0; the baseline, where asked for, comes first."""
        q = super().init(observed, rng)
        return replace(q, wanted="baseline") if len(q.features.baseline) else q

    def suff_stats(self, q: Search, batch: Batch, local: None) -> Any:
        """Evaluate a partition at the points of ``q``, or return what its stage wants."""
        if q.wanted == "baseline":
            return fold_sums(q.features, batch)
        if q.wanted == "averages":
            mean = q.points[q.kernel, np.arange(q.kernel.size)]
            keep = self.keep_columns
            return averages(q.features, q.kernel, mean, q.precision, batch, keep=keep)
        return super().suff_stats(q, batch, local)

    def elbo(self, q: Search, stats: Any) -> float:
        """Return the bound, or the objective of the nearest Gaussian, summed over classes.

        Before the baseline is known there is none: 0, which no step shows.
        """
        if isinstance(stats, FoldSums):
            return 0.0
        if isinstance(stats, GaussianSums):
            mean = q.points[q.kernel, np.arange(q.kernel.size)]
            return float(objective(mean, q.precision, stats).sum())
        return super().elbo(q, stats)

    def steps(self, reduce: Reduce, cursor: Cursor) -> Iterator[Step]:
        """Yield one step an evaluation, at the best points so far."""
        known = isinstance(cursor, DirectCursor | GaussianCursor)
        at: Any = cursor if known else self._begin(reduce, cursor)
        while True:
            ended = self._ended(at)
            yield Step(at.number, at.q, at.elbo, at, ended)
            if ended:
                return
            at = self._next(reduce, at)

    def _ended(self, at: DirectCursor | GaussianCursor) -> bool:
        if isinstance(at, GaussianCursor):
            return bool(at.gaussian.done.all())
        q = _typed(at)[0]
        more = q.features.baseline_waits or self._wants_gaussian(q)
        return q.precision.size > 0 and not more

    def _wants_gaussian(self, q: Search) -> bool:
        text = not q.features.kinds and not np.isfinite(q.features.clip)
        return self.posterior_form == "gaussian" or (self.posterior_form == "auto" and text)

    def _next(self, reduce: Reduce, at: Any) -> DirectCursor | GaussianCursor:
        if isinstance(at, GaussianCursor):
            return self._nearer(reduce, at)
        if at.q.precision.size:
            waits = at.q.features.baseline_waits
            return self._joined(reduce, at) if waits else self._widened(reduce, at)
        return self._curved(reduce, at) if at.ascent.done.all() else self._advanced(reduce, at)

    def _begin(self, reduce: Reduce, cursor: Cursor) -> DirectCursor:
        q, stats, number = *_typed(cursor), cursor.number
        if isinstance(stats, FoldSums):
            features = replace(q.features, baseline=regressions(q.features, stats))
            q, number = aligned(replace(q, features=features, wanted="gram")), number + 1
            stats = aligned(reduce(q, number=number, warm=number - 1))
        return self._searching(q, stats, number)

    def _joined(self, reduce: Reduce, at: DirectCursor) -> DirectCursor:
        """Give the baseline weight, and search on from the chosen kernel values."""
        q = _typed(at)[0]
        values, kernel = np.unique(q.kernel, return_inverse=True)
        q = replace(
            q,
            features=q.features.with_baseline(values, self.options.baseline_variance),
            points=q.points[values],
            wanted="gram",
            factor=np.empty(0),
            active=np.ones(values.size, dtype=bool),
            kernel=kernel,
            precision=np.empty(0),
            evidence=np.empty(0),
        )
        q = aligned(q)
        stats = aligned(reduce(q, number=at.number + 1, warm=at.number))
        return self._searching(q, stats, at.number + 1)

    def _searching(self, q: Search, stats: Any, number: int) -> DirectCursor:
        """Begin the searches where they were evaluated, with I + G; all, or those chosen."""
        elbo = self.elbo(q, stats)
        factor = self.factor(q, stats)
        bounds = self.bounds(q, stats)
        q = replace(q, factor=factor, wanted="gradient")
        stats = replace(stats, matrix=np.empty(0))
        gradient = lower(factor, self.slope(q, stats))
        at = np.einsum(
            "kcqp,kcq->kcp", np.broadcast_to(factor, (*bounds.shape, *factor.shape[2:])), q.points
        )
        size = q.points.shape[-1]
        ascent = Ascent.start(
            at.reshape(-1, size), bounds.ravel(), gradient.reshape(-1, size), self.tolerance
        )
        if q.kernel.size:
            other = np.arange(len(bounds))[:, None] != q.kernel
            ascent = replace(ascent, done=ascent.done | other.ravel())
        return DirectCursor(aligned(q), stats, number, elbo, aligned(ascent))

    def _advanced(self, reduce: Reduce, at: DirectCursor) -> DirectCursor:
        """Evaluate every unfinished search at its trial."""
        q, stats = _typed(at)
        shape, size = q.points.shape, q.points.shape[-1]
        points = lower(q.factor, at.ascent.trial.reshape(shape), transposed=True)
        active = np.asarray(~at.ascent.done.reshape(shape[:2]).all(axis=1), dtype=np.bool_)
        trial = aligned(replace(q, points=points, active=active))
        found = aligned(reduce(trial, number=at.number + 1, warm=at.number))
        value = self.bounds(trial, found).ravel()
        gradient = lower(q.factor, self.slope(trial, found))
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
        """Ask for the curvature at the end; choose kernel values by evidence, if they are open."""
        q = _typed(at)[0]
        q = aligned(replace(q, wanted="curvature", active=np.full(q.active.shape, True)))
        stats = aligned(reduce(q, number=at.number + 1, warm=at.number))
        matrix = unpack(stats.matrix)
        factor = cholesky(matrix + np.eye(matrix.shape[-1]), "Gauss-Newton's precision")
        square = 0.5 * (q.points**2).sum(axis=-1)
        evidence = stats.value - square - 0.5 * log_det(factor)
        kernel = q.kernel if q.kernel.size else evidence.argmax(axis=0)
        chosen = factor[kernel, np.arange(kernel.size)]
        q = replace(q, kernel=kernel, precision=chosen, evidence=evidence)
        stats = replace(stats, matrix=np.empty(0))
        return DirectCursor(aligned(q), stats, at.number + 1, self.elbo(q, stats), at.ascent)

    def _widened(self, reduce: Reduce, at: DirectCursor) -> GaussianCursor:
        """Begin the nearest Gaussian at the bound's q(w)."""
        q = _typed(at)[0]
        q = aligned(replace(q, precision=of_classes(q.factor, q.kernel), wanted="averages"))
        stats = aligned(reduce(q, number=at.number + 1, warm=at.number))
        mean = q.points[q.kernel, np.arange(q.kernel.size)]
        gaussian = aligned(Gaussian.start(mean, q.precision, stats))
        return GaussianCursor(q, stats, at.number + 1, float(gaussian.value.sum()), gaussian)

    def _nearer(self, reduce: Reduce, at: GaussianCursor) -> GaussianCursor:
        """Try one step towards the nearest Gaussian."""
        gaussian, mean, factor = at.gaussian.trial()
        trial = aligned(_placed(_typed(at)[0], mean, factor))
        stats = aligned(reduce(trial, number=at.number + 1, warm=at.number))
        gaussian = aligned(gaussian.told(mean, factor, stats, self.rise))
        taken = (gaussian.mean != at.gaussian.mean).any(axis=1)[:, None, None]
        q: Any = _typed(at)[0]
        q = aligned(_placed(q, gaussian.mean, np.where(taken, factor, q.precision)))
        elbo = float(gaussian.value.sum())
        return GaussianCursor(q, stats, at.number + 1, elbo, gaussian)


def _placed(q: Search, mean: FloatArray, factor: FloatArray) -> Search:
    points = q.points.copy()
    points[q.kernel, np.arange(q.kernel.size)] = mean
    return replace(q, points=points, precision=factor)


def _typed(cursor: Cursor) -> tuple[Any, Any]:
    return cursor.q, cursor.stats
