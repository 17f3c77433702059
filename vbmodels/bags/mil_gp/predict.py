"""What a fitted probit GP says of instances and bags: scores and probabilities.

Given w the instances of a bag are independent, P(h_i = 1 | w) = Phi(t_i), t_i = (c0 + phi_i'w)/s_i,
s_i^2 = 1 + r_i. So one set of points of w serves bags of any size (Wang and Pinar 2021, eq 7 and
section 3.4, with the erratum that the sd, not the variance, divides):

    instance:  Phi((c0 + phi'mu) / sqrt(1 + r + phi'Sigma phi))
    bag:       1 - E_w prod_i Phi(-t_i), by scrambled Sobol points through Sigma's factor
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, ndtr

from vbmodels.bags.landmarks import rbf
from vbmodels.bags.mil_gp.features import FeatureMap, sobol_normals
from vbmodels.bags.mil_gp.likelihood import Block
from vbmodels.bags.mil_gp.model import Posterior
from vbmodels.bags.multilabel import Batch, instances_of, runs_of
from vbmodels.core.linalg import solve_lower
from vbmodels.core.state import FloatArray

POINTS = 1024
"""Error of a bag's probability: 4e-4 (root mean square), against Genz's algorithm."""
STEPS = 16
"""Points between the average instance and another, at which gradients are taken."""
HELD = 2**18
"""Numbers of one array over draws of w that are held at once: 2 MiB."""


@dataclass(frozen=True)
class Predictions:
    """What is said of one class's bags and their instances.

    Attributes
    ----------
    score
        Latent mean c0 + phi'mu of each instance, for ranking, [N].
    probability
        P(h_i = 1), [N].
    bag_probability
        P(Y_b = 1), dependence between instances kept, [B]; without instances the leak's.
    """

    score: FloatArray
    probability: FloatArray
    bag_probability: FloatArray

    @classmethod
    def concat(cls, parts: Sequence[Predictions]) -> Predictions:
        """Put the predictions of neighbouring blocks behind one another."""
        names = [f.name for f in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def predict(
    posterior: Posterior, batch: Batch, *, points: int = POINTS, seed: int = 0
) -> list[Predictions]:
    """Predict every class of the bags of a partition (eqs 24, 25).

    Parameters
    ----------
    posterior
        q(w).
    batch
        The bags; labels are not read.
    points
        Sobol points of w, a power of two.
    seed
        Of their scrambling.
    """
    normals = sobol_normals(points, posterior.mean.shape[1], seed)
    found: list[list[Predictions]] = [[] for _ in posterior.mean]
    for block in blocks(posterior.features, batch):
        for c, parts in enumerate(found):
            parts.append(_predict_block(posterior, block, c, normals))
    return [Predictions.concat(parts) for parts in found]


def feature_effects(posterior: Posterior, rows: FloatArray) -> FloatArray:
    """Return what each feature adds to the latent mean of the first class, for instances [n, D].

    Integrated gradients (Sundararajan, Taly and Yan 2017) from the average instance, whose scaled
    features are 0, to each: (x_d - 0) int_0^1 dm/dx_d(t x) dt. They sum to m(x) - m(0), to the
    error of the midpoint rule with `STEPS` points.
    """
    features, k = posterior.features, int(posterior.kernel[0])
    x = features.scaled(rows)
    weights, first = features.weights[k] * posterior.mean[0], features.n_linear
    slope = np.zeros(x.shape)
    if features.linear:
        linear = weights[:first]
        slope += features.turn @ linear if features.turn.size else linear
    if features.rbf:
        length, points = features.lengths[features.which[k]], features.points
        own = weights[first : first + len(points), None]
        pull = solve_lower(features.factors[features.which[k]], own, transposed=True)[:, 0]
        for step in (np.arange(STEPS) + 0.5) / STEPS:
            kernel = rbf(cdist(step * x, points), length) * pull
            toward = kernel @ points - kernel.sum(axis=1)[:, None] * (step * x)
            slope += toward / (length**2 * STEPS)
    return slope * x


def blocks(features: FeatureMap, batch: Batch) -> Iterator[Block]:
    """Return the bags of a partition with their columns, a block at a time."""
    return (Block.of(batch, bags, features) for bags in runs_of(instances_of(batch)))


def _predict_block(posterior: Posterior, block: Block, c: int, normals: FloatArray) -> Predictions:
    features, k = posterior.features, int(posterior.kernel[c])
    columns, weights = block.columns[features.which[k]], features.weights[k]
    mean = block.own(block.mean + columns @ (weights * posterior.mean[c]))
    half = solve_lower(posterior.factor[c], (columns * weights).T)
    variance = block.own(np.einsum("pn,pn->n", half, half))
    s = block.own(block.deviation(features, k))
    away = solve_lower(posterior.factor[c], normals.T, transposed=True).T
    bag = bag_probabilities(features, k, block, posterior.mean[c] + away)
    return Predictions(mean, ndtr(mean / np.sqrt(s**2 + variance)), bag)


def bag_probabilities(features: FeatureMap, k: int, block: Block, draws: FloatArray) -> FloatArray:
    """Return P(Y_b = 1) (section 3.4) of each bag by draws of a class's w [S, P], [B].

    Bags are taken a few at a time, and rows within a bag, so that memory stays at some 16 MiB
    in addition to the draws, whatever the number of bags.
    """
    n_bags = block.offsets.size - 1
    probability = np.empty(n_bags)
    turned = (draws * features.weights[k]).T
    step = max(1, HELD // len(draws))
    for start in range(0, n_bags, step):
        bags = slice(start, min(start + step, n_bags))
        some = block.part(bags)
        columns, s = some.columns[features.which[k]], some.deviation(features, k)
        bag = np.repeat(np.arange(some.offsets.size - 1), np.diff(some.offsets))
        negative = np.zeros((some.offsets.size - 1, len(draws)))  # log P(Y_b = 0 | w)
        for first in range(0, len(bag), step):
            rows = slice(first, first + step)
            t = (some.mean[rows, None] + columns[rows] @ turned) / s[rows, None]
            names, starts = np.unique(bag[rows], return_index=True)
            negative[names] += np.add.reduceat(log_ndtr(-t), starts, axis=0)
        probability[bags] = -np.expm1(negative).mean(axis=1)
    return probability
