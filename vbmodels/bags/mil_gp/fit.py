"""The direct fit of MIL-GP-Probit: modes, the kernel value by evidence, then q(w).

`DirectGP` climbs the collapsed bound of `model` by L-BFGS in the coordinates L'mu,
L L' = I + G, takes Gauss-Newton's curvature at the end, and with it the evidence

    log p(Y) ~ log p(Y | mu) - |mu|^2/2 - log det(Sigma^-1)/2,

by which the kernel value is chosen from the grid, for each class: the bound's I + G counts
every instance as if it were observed. Then, from Gauss-Newton's, q(w) becomes the nearest Gaussian
(`gaussian`), whose fixed point does not depend on where L-BFGS ended: the mode lies .1 to .9
standard deviations off the mean, and Gauss-Newton's are too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vbmodels.bags.mil_gp.gaussian import Gaussian, GaussianSums, averages, objective
from vbmodels.bags.mil_gp.model import CollapsedGP, Search, lower
from vbmodels.bags.multilabel import Batch
from vbmodels.core.ascent import search
from vbmodels.core.lbfgs import Ascent
from vbmodels.core.linalg import cholesky, log_det, unpack
from vbmodels.core.protocol import Cursor, Step
from vbmodels.core.state import BoolArray, FloatArray


@dataclass(frozen=True)
class DirectCursor(Cursor, kind="bags/mil_gp.DirectCursor"):
    """Position of the direct fit: the searches, in the coordinates L'mu."""

    ascent: Ascent


@dataclass(frozen=True)
class GaussianCursor(Cursor, kind="bags/mil_gp.GaussianCursor"):
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
        What q(w) is at the chosen kernel value: "gaussian" the nearest Gaussian, "laplace" the
        mode with Gauss-Newton's curvature.
    rise
        Rise of the nearest Gaussian's objective, in nats, at which it ends.
    """

    tolerance: float = 1e-6
    posterior_form: Literal["laplace", "gaussian"] = "gaussian"
    rise: float = 1e-3

    def suff_stats(self, q: Search, batch: Batch, local: None) -> Any:
        """Evaluate a partition at the points of ``q``, or return what its stage wants."""
        if q.wanted == "averages":
            return averages(q.features, q.kernel, _mean(q), q.precision, batch, active=q.active)
        return super().suff_stats(q, batch, local)

    def elbo(self, q: Search, stats: Any) -> float:
        """Return the bound, or the objective of the nearest Gaussian, summed over classes."""
        if isinstance(stats, GaussianSums):
            return float(objective(_mean(q), q.precision, stats).sum())
        return super().elbo(q, stats)

    steps = search

    def begin(self, cursor: Cursor) -> Cursor:
        """Begin the searches."""
        if isinstance(cursor, DirectCursor | GaussianCursor):
            return cursor
        if isinstance(cursor.stats, GaussianSums):
            return _nearest(cursor.q, cursor.stats, cursor.number)
        return self._searching(cursor.q, cursor.stats, cursor.number)

    def shown(self, at: Any) -> Step | None:
        """Show the best points so far at every evaluation."""
        return Step.at(at, self._ended(at))

    def ask(self, at: Any) -> Search:
        """Ask for what the present stage wants."""
        q: Search = at.q
        if isinstance(at, GaussianCursor):
            ahead, mean, factor = at.gaussian.trial()
            return replace(_placed(q, mean, factor), active=~ahead.done)
        if q.precision.size:
            return replace(q, wanted="averages", active=np.full(q.kernel.size, True))
        if at.ascent.done.all():
            return replace(q, wanted="curvature", active=np.full(q.active.shape, True))
        active = ~at.ascent.done.reshape(q.points.shape[:2])
        moved = _lower(q.factor, at.ascent.trial.reshape(q.points.shape), active, transposed=True)
        points = np.where(active[..., None], moved, q.points)
        return replace(q, points=points, active=active)

    def take(self, at: Any, asked: Search, stats: Any) -> Cursor:
        """Take in what was found, by what was wanted."""
        if asked.wanted == "curvature":
            return self._chosen(at, asked, stats)
        if asked.wanted == "gradient":
            return self._advanced(at, asked, stats)
        if isinstance(at, GaussianCursor):
            return self._nearer(at, stats)
        return _nearest(asked, stats, at.number + 1)

    def _ended(self, at: DirectCursor | GaussianCursor) -> bool:
        if isinstance(at, GaussianCursor):
            return bool(at.gaussian.done.all())
        return at.q.precision.size > 0 and self.posterior_form == "laplace"

    def _searching(self, q: Search, stats: Any, number: int) -> DirectCursor:
        """Begin the searches where they were evaluated, with I + G."""
        elbo = self.elbo(q, stats)
        factor = self.factor(q, stats)
        bounds = self.bounds(q, stats)
        q = replace(q, factor=factor, wanted="gradient")
        stats = replace(stats, matrix=np.empty(0))
        gradient = lower(factor, self.slope(q, stats))
        at = np.einsum(
            "kcqp,kcq->kcp",
            np.broadcast_to(factor[:, None], (*bounds.shape, *factor.shape[1:])),
            q.points,
        )
        size = q.points.shape[-1]
        ascent = Ascent.start(
            at.reshape(-1, size), bounds.ravel(), gradient.reshape(-1, size), self.tolerance
        )
        return DirectCursor(q, stats, number, elbo, ascent)

    def _advanced(self, at: DirectCursor, asked: Search, found: Any) -> DirectCursor:
        """Let every unfinished search judge its trial."""
        q, shape, size = at.q, asked.points.shape, asked.points.shape[-1]
        value = self.bounds(asked, found).ravel()
        gradient = _lower(q.factor, self.slope(asked, found), asked.active)
        ascent = at.ascent.updated(value, gradient.reshape(-1, size), self.tolerance)
        taken = (ascent.at != at.ascent.at).any(axis=1).reshape(shape[:2])
        q = replace(q, points=np.where(taken[..., None], asked.points, q.points))
        stats = replace(
            at.stats,
            value=np.where(taken, found.value, at.stats.value),
            gradient=np.where(taken[..., None], found.gradient, at.stats.gradient),
        )
        return DirectCursor(q, stats, at.number + 1, self.elbo(q, stats), ascent)

    def _chosen(self, at: DirectCursor, q: Search, stats: Any) -> DirectCursor:
        """Take the curvature at the end, and choose kernel values by evidence."""
        matrix = unpack(stats.matrix)
        factor = cholesky(matrix + np.eye(matrix.shape[-1]), "Gauss-Newton's precision")
        square = 0.5 * (q.points**2).sum(axis=-1)
        evidence = stats.value - square - 0.5 * log_det(factor)
        kernel = evidence.argmax(axis=0)
        chosen = factor[kernel, np.arange(kernel.size)]
        q = replace(q, kernel=kernel, precision=chosen, evidence=evidence)
        stats = replace(stats, matrix=np.empty(0))
        return DirectCursor(q, stats, at.number + 1, self.elbo(q, stats), at.ascent)

    def _nearer(self, at: GaussianCursor, stats: GaussianSums) -> GaussianCursor:
        """Judge one step towards the nearest Gaussian."""
        gaussian, mean, factor = at.gaussian.trial()
        gaussian = gaussian.updated(mean, factor, stats, self.rise)
        taken = (gaussian.mean != at.gaussian.mean).any(axis=1)[:, None, None]
        q = _placed(at.q, gaussian.mean, np.where(taken, factor, at.q.precision))
        elbo = float(gaussian.value.sum())
        return GaussianCursor(q, stats, at.number + 1, elbo, gaussian)


def _lower(
    factor: FloatArray, vectors: FloatArray, active: BoolArray, transposed: bool = False
) -> FloatArray:
    """Return `lower` of the kernel values at which some class is active, [K, C, P]; else 0."""
    result, some = np.zeros_like(vectors), active.any(axis=1)
    result[some] = lower(factor[some], vectors[some], transposed)
    return result


def _nearest(q: Search, stats: GaussianSums, number: int) -> GaussianCursor:
    """Begin the search for the nearest Gaussian where q(w) was evaluated."""
    gaussian = Gaussian.start(_mean(q), q.precision, stats)
    return GaussianCursor(q, stats, number, float(gaussian.value.sum()), gaussian)


def _mean(q: Search) -> FloatArray:
    """Return mu of every class at its kernel value, [C, P]."""
    result: FloatArray = q.points[q.kernel, np.arange(q.kernel.size)]
    return result


def _placed(q: Search, mean: FloatArray, factor: FloatArray) -> Search:
    """Put mu of every class, [C, P], at its kernel value, with the factor of its precision."""
    points = q.points.copy()
    points[q.kernel, np.arange(q.kernel.size)] = mean
    return replace(q, points=points, precision=factor)
