"""What a vMMIC fit leaves: draws of the global parameters, and predictions that average them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky
from scipy.special import ndtr, ndtri

from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.layout import Layout, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood, chunks
from vbmodels.core.linalg import solve_lower
from vbmodels.core.state import FloatArray, State


def normal_points(dim: int, count: int, seed: int = 0) -> FloatArray:
    """Return quasi-random points of N(0, I), [count, dim]: scrambled Sobol, ``count`` a power of 2.

    Scrambling shifts no point onto 0 or 1, so that every normal quantile is finite.
    """
    from scipy.stats import qmc

    uniform = qmc.Sobol(dim, seed=seed).random_base2(int(count).bit_length() - 1)
    return np.asarray(ndtri(np.clip(uniform, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)))


@dataclass(frozen=True)
class Gaussian(State, kind="bags/vmmic.Gaussian"):
    """q(t) = N(mean, precision^-1), [dim] and [dim, dim]."""

    mean: FloatArray
    precision: FloatArray

    @cached_property
    def factor(self) -> FloatArray:
        """Lower Cholesky factor of the precision."""
        return np.asarray(cholesky(self.precision, lower=True))

    @property
    def variance(self) -> FloatArray:
        """The diagonal of the covariance, [dim]."""
        half = solve_lower(self.factor, np.eye(self.mean.size))
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def spread(self, points: FloatArray) -> FloatArray:
        """Return deviations from the mean that belong to points of N(0, I), [S, dim]."""
        return solve_lower(self.factor, points.T, transposed=True).T


@dataclass(frozen=True)
class Posterior(State, kind="bags/vmmic.Posterior"):
    """A mixture of Gaussians over t, equally weighted, with the scaling of the features.

    Attributes
    ----------
    scaling
        Of the features; where it turns them, the Gaussians are over turned coordinates.
    components
        The Gaussians.
    tau
        Prior precision of every slope's block, [components, blocks]: that of the directions of
        turned features that are left out.
    """

    scaling: Scaling
    components: tuple[Gaussian, ...]
    tau: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def layout(self) -> Layout:
        """The coordinates of `moments` and `coefficients`, of features as they are."""
        return self.scaling.layout.plain

    def draws(self, count: int = 64) -> FloatArray:
        """Return about ``count`` quasi-random draws of t, as many of each component."""
        each = max(count // len(self.components), 1)
        points = normal_points(self.scaling.layout.dim, each)
        return np.concatenate([c.mean + c.spread(points) for c in self.components])

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the standard deviation of t, [dim] each."""
        means = np.array([c.mean for c in self.components])
        variances = np.array([c.variance for c in self.components])
        if self.scaling.turns:
            back = self.scaling.back
            halves = [solve_lower(c.factor, back.T) for c in self.components]
            means = means @ back.T
            variances = np.array([np.einsum("ij,ij->j", half, half) for half in halves])
            variances += self._left_out(1.0 - (back**2).sum(axis=1))
        squares = variances + means**2
        mean = means.mean(axis=0)
        return mean, np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, 0.0))

    def coefficients(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Return random draws of t in the coordinates of `layout`, [count, dim]."""
        which = rng.integers(len(self.components), size=count)
        noise = rng.standard_normal((count, self.components[0].mean.size))
        each = zip(which, noise, strict=True)
        drawn = np.stack(
            [self.components[c].mean + self.components[c].spread(z[None])[0] for c, z in each]
        )
        if not self.scaling.turns:
            return drawn
        back = self.scaling.back
        rest = rng.standard_normal((count, len(back)))
        rest -= rest @ back @ back.T
        return drawn @ back.T + np.sqrt(self._left_out(np.ones(len(back))))[which] * rest

    def _left_out(self, share: FloatArray) -> FloatArray:
        """Return the prior variance of slopes times their ``share``, [components, dim]."""
        out = np.zeros((len(self.components), self.layout.dim))
        for j, block in enumerate(self.layout.slope_blocks):
            out[:, block] = np.maximum(share[block], 0.0) / self.tau[:, [j]]
        return out


@dataclass(frozen=True)
class Prediction:
    """Predictions for bags and their instances.

    Attributes
    ----------
    bag
        P(y = 1), [B].
    instances
        P(delta = 1), [N_k] for each modality.
    contributions
        E[delta s]: what an instance is expected to add to its bag's score, [N_k] each.
    """

    bag: FloatArray
    instances: tuple[FloatArray, ...]
    contributions: tuple[FloatArray, ...]


def predict(draws: FloatArray, scaling: Scaling, data: Bags) -> Prediction:
    """Average the predictions of draws of t, [S, dim], over bags of any label (section 2.2.3).

    P(y = 1) = mean Phi(z(t)), P(delta = 1) = mean Phi(a + x b), with the two-moment form of
    `likelihood` for z. An empty bag is scored by the intercept and its own features.
    """
    likelihood = Likelihood(scaling)
    bag = np.zeros(data.n_bags)
    sizes = [len(m.features) for m in data.modalities]
    instances = tuple(np.zeros(size) for size in sizes)
    contributions = tuple(np.zeros(size) for size in sizes)
    weights = [likelihood.weights(t) for t in draws]
    for first, last in chunks(data):
        rows = [slice(m.offsets[first], m.offsets[last]) for m in data.modalities]
        for w in weights:
            mean, var, terms = likelihood.moments(w, data, first, last)
            bag[first:last] += ndtr(mean / np.sqrt(1.0 + var))
            for k, (primary, _, score) in enumerate(terms):
                instances[k][rows[k]] += primary
                contributions[k][rows[k]] += primary * score
    for total in (bag, *instances, *contributions):
        total /= len(draws)
    return Prediction(bag, instances, contributions)
