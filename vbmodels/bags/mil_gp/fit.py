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

from vbmodels.bags.mil_gp.gaussian import Averages, Gaussian, objective
from vbmodels.bags.mil_gp.known import with_known_instances
from vbmodels.bags.mil_gp.likelihood import Points, PointsWithCurvature
from vbmodels.bags.mil_gp.model import CollapsedGP, Search, lower
from vbmodels.bags.multilabel import Batch
from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show, Summing
from vbmodels.core.linalg import cholesky, log_det, unpack
from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import BoolArray, FloatArray, aligned


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

    def suff_stats(self, q: Summing, batch: Batch, local: None) -> Any:
        """Evaluate a partition."""
        return q.sums(with_known_instances(batch))

    def elbo(self, q: Search, stats: Any) -> float:
        """Return the bound, or the objective of the nearest Gaussian, summed over classes."""
        if q.nearest:
            return float(objective(q.mean, q.precision, stats).sum())
        return super().elbo(q, stats)

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
        gradient = lower(factor, self.slope(q, sums))
        search = BatchedLBFGS.start(
            at.reshape(-1, shape[-1]),
            bounds.ravel(),
            gradient.reshape(-1, shape[-1]),
            self.tolerance,
        )
        best = replace(sums, matrix=np.empty(0))
        while not search.done.all():
            active = ~search.done.reshape(shape[:2])
            moved = _lower(factor, search.trial.reshape(shape), active, transposed=True)
            trial = replace(q, points=np.where(active[..., None], moved, q.points))
            sums = yield Evaluate(Points(q.features, trial.points, active))
            value = self.bounds(trial, sums).ravel()
            gradient = _lower(factor, self.slope(trial, sums), active)
            after = search.updated(value, gradient.reshape(-1, shape[-1]), self.tolerance)
            taken = (after.at != search.at).any(axis=1).reshape(shape[:2])
            search = aligned(after)
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
                q = _placed(q, after.mean, np.where(taken, factor, q.precision))
                gaussian = after
            yield Show(q, float(gaussian.value.sum()), by_trace=False)
            if gaussian.done.all():
                return q


def _lower(
    factor: FloatArray, vectors: FloatArray, active: BoolArray, transposed: bool = False
) -> FloatArray:
    """Return `lower` of the kernel values at which some class is active, [K, C, P]; else 0."""
    result, some = np.zeros_like(vectors), active.any(axis=1)
    result[some] = lower(factor[some], vectors[some], transposed)
    return result


def _placed(q: Search, mean: FloatArray, factor: FloatArray) -> Search:
    """Put mu of every class, [C, P], at its kernel value, with the factor of its precision."""
    points = q.points.copy()
    points[q.kernel, np.arange(q.kernel.size)] = mean
    return replace(q, points=points, precision=factor)
