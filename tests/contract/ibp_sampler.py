"""Quantities of the IBP that no relabelling of features changes, by draws and under q.

For every unit (or category) the share of the rows that the fit expects there, and for every
pair of columns the mean product over rows: what the features are for. Rows' probabilities are
computed here from the generative model, for draws of (z, weights) from anywhere.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import expit

from tests.vbmodels.features.gibbs import GibbsIBP
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.table import FeatureBatch, feature_batch


def first_of_sticks(psi: FloatArray, levels: IntArray) -> FloatArray:
    """Stick-breaking: the first category is where the first unit stops."""
    first = np.concatenate([[0], np.cumsum(levels - 1)[:-1]])
    return expit(-psi[..., first])


def quantities(z: FloatArray, weights: FloatArray, levels: IntArray) -> FloatArray:
    """Return the mean over rows of P(first category) by column, then of products by pair.

    z is [..., N, K], weights [..., units, K + 1].
    """
    psi = weights[..., None, :, 0] + z @ np.swapaxes(weights[..., 1:], -1, -2)
    p = first_of_sticks(psi, levels)
    pairs = [p[..., i] * p[..., j] for i, j in combinations(range(p.shape[-1]), 2)]
    return np.concatenate([p.mean(-2), np.stack([x.mean(-1) for x in pairs], -1)], -1)


def gibbs_draws(sampler: GibbsIBP, batches: Sequence[FeatureBatch], seed: int) -> FloatArray:
    """Run the project's own sampler; [chain, draw, quantity]."""
    (batch,) = batches
    batch = feature_batch(batch.codes[batch.row_of], batch.levels, grouped=False)
    reduce = InProcess(sampler, [batch])
    q = sampler.init(reduce.observe(), np.random.default_rng(seed))
    found = []
    for step in Driver(loop_of(sampler), sampler, q, reduce):
        if sampler.warmup <= step.iteration < sampler.last:
            (local,) = reduce.local_states(step.iteration)
            z = np.stack([c.z for c in local.chains]).astype(float)
            weights = np.stack([c.weights for c in step.q.chains])
            found.append(quantities(z, weights, batch.levels))
    return np.stack(found, 1)
