"""MIL-GP-Logistic (Haussmann, Hamprecht and Kandemir 2017), the rival of the probit.

f = c0 + phi'w + r with the letters of `features`, P(h_i = 1 | f_i) = sigma(f_i), Y_b = max h_i.
With q = q(w) p(r) prod_b q(h_b) the logistic likelihood has no closed expectation; Jaakkola and
Jordan's bound (2000), log sigma(x) >= log sigma(xi) + (x - xi)/2 - lambda(xi)(x^2 - xi^2), makes
one. At the best q(h_b) and xi_i, both functions of q(w),

    xi_i^2 = E f_i^2,   log Z_b = 0 (negative), log(prod (1 + e^{a_i}) - 1) (positive), a_i = E f_i
    bound = sum_b log Z_b + sum_i [ log sigma(xi_i) - (a_i + xi_i)/2 ] - KL(q(w) || N(0, I))
    Sigma^-1 = I + 2 sum lambda_i phi phi',   mu = Sigma sum phi (E h - 1/2 - 2 lambda_i c0)

Here q(h_b) is joint and the label deterministic, as in Wang and Pinar's account (section 3.3);
the original factorises it and softens the label, which can only lower the bound. A partition
keeps no state. The bound lies below the ELBO, and predictions of a bag take its instances as
independent: the logistic link has no more to give.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, roots_hermitenorm

from reproduce.milgp_as_printed import PRINTED
from vbmodels.bags.mil_gp.features import FeatureMap, KernelOptions, feature_map
from vbmodels.bags.mil_gp.gaussian import objective
from vbmodels.bags.mil_gp.likelihood import CACHE, Block
from vbmodels.bags.mil_gp.model import warn_of_one_side
from vbmodels.bags.mil_gp.predict import blocks
from vbmodels.bags.multilabel import Batch, Observed
from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import cavi
from vbmodels.core.linalg import cholesky, pack, solve, solve_lower, unpack
from vbmodels.core.special import jaakkola_lambda
from vbmodels.core.state import FloatArray, State, Stats


@dataclass(frozen=True)
class LogisticPosterior(State, kind="bags/mil_gp.LogisticPosterior"):
    """q(w) of every class.

    Attributes
    ----------
    features
        The feature map, of one kernel value.
    mean
        [C, P].
    factor
        Lower Cholesky factor of the precision, [C, P, P].
    """

    features: FeatureMap
    mean: FloatArray
    factor: FloatArray


@dataclass(frozen=True)
class LogisticSums(Stats, kind="bags/mil_gp.LogisticSums"):
    """What a partition returns.

    Attributes
    ----------
    value
        The bound's sums over bags and instances, [C].
    pull
        sum phi (E h - 1/2 - 2 lambda c0), [C, P].
    matrix
        2 sum lambda phi phi', [C, P (P + 1)/2].
    """

    value: FloatArray
    pull: FloatArray
    matrix: FloatArray


@dataclass(frozen=True)
class LogisticGP:
    """Coordinate ascent on the bound above, of section 3.3: eq 4 is in the place of eq 7.

    Parameters
    ----------
    options
        Kernel, scaling, inducing points; one length scale and one amplitude.
    sweeps
        Sweeps after which the fit counts as done, converged or not (25 in the text); None:
        until the bound has converged.
    """

    options: KernelOptions = PRINTED
    sweeps: int | None = 25

    def __post_init__(self) -> None:
        if len(self.options.length_scales) > 1 or len(self.options.amplitudes) > 1:
            raise ValueError("expected one length scale and one amplitude for the logistic model")
        if self.options.leak:
            raise ValueError("expected no leak for the logistic model")

    def observe(self, batch: Batch) -> Observed:
        """Return scaling, label counts and a sample for the inducing points."""
        options = self.options
        return Observed.of(batch, options.sample, options.sample_seed, options.wants_products)

    def init(self, observed: Observed, rng: np.random.Generator) -> LogisticPosterior:
        """Start at the prior."""
        warn_of_one_side(observed)
        features = feature_map(self.options, observed, rng)
        shape = (observed.positive.size, features.n_columns)
        unit = np.broadcast_to(np.eye(shape[1]), (*shape, shape[1])).copy()
        return LogisticPosterior(features, np.zeros(shape), unit)

    def local_step(self, q: LogisticPosterior, batch: Batch, local: None) -> None:
        """Do nothing: q(h) and xi follow from q(w) in closed form."""

    def suff_stats(self, q: LogisticPosterior, batch: Batch, local: None) -> LogisticSums:
        """Sum what the bound and the global step need."""
        n_classes, size = q.mean.shape
        value, pull = np.zeros(n_classes), np.zeros_like(q.mean)
        matrix = np.zeros((n_classes, size, size))
        for block in CACHE.blocks(batch, q.features):
            for c in range(n_classes):
                one = _block_sums(q, block, c)
                value[c] += one[0]
                pull[c] += one[1]
                matrix[c] += one[2]
        return LogisticSums(value, pull, pack(matrix))

    def global_step(self, q: LogisticPosterior, stats: LogisticSums) -> LogisticPosterior:
        """Return the q(w) that maximises the bound at the present q(h) and xi."""
        matrix = unpack(stats.matrix)
        factor = cholesky(matrix + np.eye(matrix.shape[-1]), "the precision of q(w)")
        return replace(q, mean=solve(factor, stats.pull), factor=factor)

    def elbo(self, q: LogisticPosterior, stats: LogisticSums) -> float:
        """Return the bound, summed over classes."""
        return float(objective(q.mean, q.factor, stats.value).sum())

    def algorithm(self, q: LogisticPosterior) -> Algorithm:
        """Sweep until the bound has converged, or as often as the text has it."""
        return cavi(self, q, self.sweeps)


def latent(q: LogisticPosterior, block: Block, c: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return phi [n, P] and mean and variance of f, [n]."""
    phi = block.columns[0] * q.features.weights[0]
    half = solve_lower(q.factor[c], phi.T)
    variance = np.einsum("pn,pn->n", half, half) + block.deviation(q.features, 0) ** 2 - 1.0
    return phi, q.features.offset + phi @ q.mean[c], variance


def _block_sums(q: LogisticPosterior, block: Block, c: int) -> tuple[float, FloatArray, FloatArray]:
    """Return the bound's sum, the pull and the curvature of one block for one class."""
    phi, a, variance = latent(q, block, c)
    sizes = np.diff(block.offsets)
    full = np.flatnonzero(sizes > 0)
    label = np.repeat(block.labels[:, c], sizes)
    soft = -log_expit(-a)
    log_any = np.zeros(len(sizes))
    log_any[full] = np.add.reduceat(soft, block.offsets[full])
    known = label >= 0
    positive = np.repeat(log_any, sizes)
    # log(prod (1 + e^a) - 1) and E h = sigma(a) / (1 - prod sigma(-a)).
    has = (block.labels[:, c] == 1) & (sizes > 0)
    safe = np.maximum(log_any[has], 1e-300)
    log_z = float((safe + np.log(-np.expm1(-safe))).sum())
    certain = -np.expm1(-np.maximum(positive, 1e-300))
    expected = np.where(label == 1, np.minimum(expit(a) / certain, 1.0), 0.0)
    xi = np.sqrt(a**2 + variance)
    curvature = np.where(known, jaakkola_lambda(xi), 0.0)
    value = log_z + float((log_expit(xi) - 0.5 * (a + xi))[known].sum())
    away = np.where(known, expected - 0.5 - 2.0 * curvature * q.features.offset, 0.0)
    return value, away @ phi, 2.0 * (phi * curvature[:, None]).T @ phi


def predict_logistic(
    q: LogisticPosterior, batch: Batch, nodes: int = 32
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Return score [N], instance probability [N] and bag probability [B] of every class.

    E sigma(f) by Gauss-Hermite quadrature; instances of a bag are taken as independent.
    """
    at, weight = roots_hermitenorm(nodes)
    weight = weight / weight.sum()
    found: list[list[tuple[FloatArray, ...]]] = [[] for _ in q.mean]
    for block in blocks(q.features, batch):
        for c, parts in enumerate(found):
            _, mean, variance = latent(q, block, c)
            spread = mean[:, None] + np.sqrt(variance)[:, None] * at
            probability = expit(spread) @ weight
            log_none = np.log(np.maximum(expit(-spread) @ weight, 1e-300))
            bag = np.zeros(block.offsets.size - 1)
            full = np.flatnonzero(np.diff(block.offsets) > 0)
            bag[full] = -np.expm1(np.add.reduceat(log_none, block.offsets[full]))
            parts.append((mean, probability, bag))
    return [
        tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[misc]
        for parts in found
    ]
