"""Experts against their own sampler: the chance of the label 1 at a few fixed places.

Experts are exchangeable, so weights cannot be compared; predictions can. Under q they are
averaged over draws of its factors, made here with NumPy and scipy.stats.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, softmax

from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.rows import Rows
from vbmodels.testing.case import Sampler

PLACES = np.array(
    [[0.0, 0.0, 1.0], [1.0, 0.5, 1.0], [-1.0, 0.5, 1.0], [0.5, -1.0, 1.0], [-0.5, -1.0, 1.0]]
)
"""Two features and the intercept."""


def chances(gates: FloatArray, experts: FloatArray, x: FloatArray = PLACES) -> FloatArray:
    """Return P(y = 1) at rows x for draws [..., K, p]; [..., rows]."""
    share = softmax(gates @ x.T, axis=-2)
    return np.sum(share * expit(experts @ x.T), axis=-2)


def normal_draws(
    mean: FloatArray, covariance: FloatArray, rng: np.random.Generator, size: int
) -> FloatArray:
    """Return draws [size, K, p] of independent Gaussians."""
    pairs = zip(mean, covariance, strict=True)
    return np.stack([rng.multivariate_normal(m, c, size) for m, c in pairs], axis=1)


def angular_draws(q: Any, rng: np.random.Generator, size: int) -> FloatArray:
    """Return draws [size, K, p] of lengths times directions."""
    drawn = []
    for mu, khat, shape, length in zip(
        q.direction, q.concentration, q.shape, q.length, strict=True
    ):
        a = stats.vonmises_fisher(mu, khat).rvs(size, random_state=rng)
        drawn.append(rng.gamma(shape, length / shape, (size, 1)) * a)
    return np.stack(drawn, axis=1)


Vectors = Callable[[Any, np.random.Generator, int], tuple[FloatArray, FloatArray]]


def sampler_item(
    prior: WalkPrior,
    lengths: tuple[float, float],
    vectors: Vectors,
    mean_tolerance: float,
    sd_ratio: tuple[float, float],
) -> Sampler:
    """Return the item; ``vectors`` draws gates and experts from a fit's q.

    A mixture's chains cross from mode to mode, so they are long.
    """
    sampler = SampledExperts(2, prior, *lengths, chains=6, warmup=1500, draws=400, thin=25)

    def draws(batches: Sequence[Rows], rng: np.random.Generator) -> FloatArray:
        done = fit(sampler, batches, seed=int(rng.integers(2**31)), max_iter=sampler.evaluations)
        return chances(done.q.draws[:, :, 0], done.q.draws[:, :, 1])

    def moments(q: Any, locals_: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        found = chances(*vectors(q, np.random.default_rng(0), 40_000))
        return found.mean(0), found.std(0)

    return Sampler(
        draws=draws,
        moments=moments,
        mean_tolerance=mean_tolerance,
        sd_ratio=sd_ratio,
        largest_r_hat=1.06,
    )
