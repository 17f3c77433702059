"""The Gaussian nearest to the posterior of w, by averages over draws.

The posterior leans to one side, the more the fewer the positive bags: its mode puts each bag on
one instance. q(w) = N(mu, A^-1) instead maximises, m integrated out,

    E_q log p(Y | w) - KL(q || N(0, I)),

whose stationary points are (Opper and Archambeau 2009; Bonnet's and Price's theorems)

    mu = E_q grad log p(Y | w),    A = I - E_q hess log p(Y | w),

-hess = sum_b [ a_b sum_i h (h - t) phi phi'/s^2 - a_b (1 - a_b) q_b q_b' ]

with the letters of `likelihood`. The step is that of natural gradients (Khan and Rue 2023),
A <- (1 - rho) A + rho (I - E hess), mu <- mu + rho A^-1 (E grad - mu).

Expectations are over the same few antithetic Sobol points at every evaluation, so the
objective is a fixed quadrature and no strict bound; a step is kept where it rises, and else rho is
halved. It starts at the mode with Gauss-Newton's curvature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vbmodels.bags.mil_gp.features import FeatureMap, sobol_normals
from vbmodels.bags.mil_gp.likelihood import CACHE, BagTerms, Block
from vbmodels.bags.multilabel import Batch
from vbmodels.core.linalg import log_det, pack, solve, solve_lower, unpack
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats

FEW, MANY, WIDE = 32, 64, 64
"""Points: few up to so many columns, many beyond; text has 200."""
LEAST_STRIDE = 1e-3
AT_ONCE = 64
"""Bags whose outer products are added in one multiplication."""


@dataclass(frozen=True)
class GaussianSums(Stats, kind="bags/mil_gp.GaussianSums"):
    """Averages over draws: log p(Y | w) [C], its gradient [C, P], minus its Hessian [C, packed]."""

    value: FloatArray
    gradient: FloatArray
    curvature: FloatArray


@dataclass(frozen=True)
class Averages(State, kind="bags/mil_gp.Averages"):
    """q(w) of every class to average at: mean [C, P], factor of A [C, P, P].

    Of classes that are not ``active``, [C], the averages stay 0.
    """

    features: FeatureMap
    kernel: IntArray
    mean: FloatArray
    factor: FloatArray
    active: BoolArray

    def sums(self, batch: Batch) -> GaussianSums:
        """Average over a partition."""
        features, (n_classes, size) = self.features, self.mean.shape
        half = sobol_normals((FEW if size <= WIDE else MANY) // 2, size, 0)
        normals = np.concatenate([half, -half]).T
        value, gradient = np.zeros(n_classes), np.zeros((n_classes, size))
        curvature = np.zeros((n_classes, size, size))
        for c in np.flatnonzero(self.active).tolist():
            k = int(self.kernel[c])
            weights = features.weights[k]
            spread = solve_lower(self.factor[c], normals, transposed=True).T
            drawn = (self.mean[c] + spread) * weights
            for block in CACHE.blocks(batch, features):
                columns, s = block.columns[features.which[k]], block.deviation(features, k)
                t = (block.mean[:, None] + columns @ drawn.T) / s[:, None]
                labels = np.repeat(block.labels[:, [c]], len(drawn), axis=1)
                terms = BagTerms.at(t, block.offsets, labels)
                slope = terms.slope / s[:, None]
                bend = (terms.slope * (terms.hazard - t)).mean(axis=1) / s**2
                matrix = _outer(block, c, terms, slope, columns)
                matrix -= (columns * bend[:, None]).T @ columns
                value[c] += float(terms.value.sum(axis=0).mean())
                gradient[c] += slope.mean(axis=1) @ columns * weights
                curvature[c] += matrix * np.outer(weights, weights)
        return GaussianSums(value, gradient, pack(curvature))


def _outer(
    block: Block, c: int, terms: BagTerms, slope: FloatArray, columns: FloatArray
) -> FloatArray:
    """Return the average of sum w (1 + w) q q' over positive bags, [P, P]."""
    total = np.zeros((columns.shape[1],) * 2)
    root = terms.root_odds / np.sqrt(slope.shape[1])
    chosen = np.flatnonzero((block.labels[:, c] == 1) & (np.diff(block.offsets) > 0))
    for first in range(0, chosen.size, AT_ONCE):
        pulls = []
        for b in chosen[first : first + AT_ONCE]:
            rows = slice(block.offsets[b], block.offsets[b + 1])
            pulls.append((slope[rows] * root[b]).T @ columns[rows])
        pull = np.concatenate(pulls)
        total += pull.T @ pull
    return total


@dataclass(frozen=True)
class Gaussian(State, kind="bags/mil_gp.Gaussian"):
    """Where the classes' fits stand.

    Attributes
    ----------
    mean, precision
        Of q(w), [C, P], [C, P, P].
    value
        The objective there, [C].
    slope, target
        E grad - mu, [C, P], and I - E hess, [C, P, P].
    stride
        rho of the next trial, [C].
    done
        Which have ended, [C].
    """

    mean: FloatArray
    precision: FloatArray
    value: FloatArray
    slope: FloatArray
    target: FloatArray
    stride: FloatArray
    done: BoolArray

    @classmethod
    def start(cls, mean: FloatArray, factor: FloatArray, sums: GaussianSums) -> Gaussian:
        """Begin at an evaluated q(w); ``factor`` is that of its precision."""
        n_classes, size = mean.shape
        return cls(
            mean=mean,
            precision=factor @ np.swapaxes(factor, -1, -2),
            value=objective(mean, factor, sums.value),
            slope=sums.gradient - mean,
            target=unpack(sums.curvature) + np.eye(size),
            stride=np.ones(n_classes),
            done=np.zeros(n_classes, dtype=np.bool_),
        )

    def trial(self) -> tuple[Gaussian, FloatArray, FloatArray]:
        """Return this as it is, the next mean, and the factor of the next precision.

        The stride is halved until that precision is positive definite.
        """
        stride, done = self.stride.copy(), self.done.copy()
        mean, factor = self.mean.copy(), np.empty_like(self.precision)
        for c in range(len(mean)):
            while not done[c]:
                rho = stride[c]
                mixed = (1.0 - rho) * self.precision[c] + rho * self.target[c]
                try:
                    factor[c] = np.linalg.cholesky(mixed)
                except np.linalg.LinAlgError:
                    stride[c] = 0.5 * rho
                    done[c] = stride[c] < LEAST_STRIDE
                    continue
                mean[c] += rho * solve(factor[c], self.slope[c])
                break
            if done[c]:
                factor[c] = np.linalg.cholesky(self.precision[c])
        return replace(self, stride=stride, done=done), mean, factor

    def updated(
        self, mean: FloatArray, factor: FloatArray, sums: GaussianSums, tolerance: float
    ) -> Gaussian:
        """Take the trial where the objective rose; end where it moved by under ``tolerance``."""
        value = objective(mean, factor, sums.value)
        known = np.isfinite(sums.curvature).all(axis=1)  # else the next factor would be no number
        taken = ~self.done & known & (value >= self.value)
        matrix = taken[:, None, None]
        stride = np.where(taken, np.minimum(1.0, 1.5 * self.stride), 0.5 * self.stride)
        small = known & (np.abs(value - self.value) < tolerance)
        ended = self.done | small | (~taken & (stride < LEAST_STRIDE))
        own = factor @ np.swapaxes(factor, -1, -2)
        target = unpack(sums.curvature) + np.eye(mean.shape[1])
        return Gaussian(
            mean=np.where(taken[:, None], mean, self.mean),
            precision=np.where(matrix, own, self.precision),
            value=np.where(taken, value, self.value),
            slope=np.where(taken[:, None], sums.gradient - mean, self.slope),
            target=np.where(matrix, target, self.target),
            stride=stride,
            done=ended,
        )


def objective(mean: FloatArray, factor: FloatArray, value: FloatArray) -> FloatArray:
    """Return E log p(Y | w), ``value``, less KL(q || N(0, I)) of every class, [C]."""
    size = mean.shape[-1]
    half = solve_lower(factor, np.broadcast_to(np.eye(size), factor.shape))
    trace, square = (half**2).sum(axis=(-2, -1)), (mean**2).sum(axis=-1)
    return np.asarray(value - 0.5 * (trace + square - size + log_det(factor)))
