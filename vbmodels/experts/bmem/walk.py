"""Priors and proposals of the sampler in `metropolis`, for several chains side by side.

A vector (a gate or an expert) is v = g a with length g and direction a. Priors: "gaussian",
N(0, 1/tau) and N(0, 10) for the intercept; "mabn1" and "mabn2", g ~ Gamma(alpha1, rate alpha2),
a_1 uniform and then (Xie, Zhu and Xing 2016, type I) a_i | a_<i ~ vMF(-s_i/|s_i|, kappa), or
(type II) a density proportional to exp(-kappa s_i'a_i), s_i = sum_{j<i} a_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, log_ndtr, ndtr, ndtri

from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.mutual_angular import log_sphere_norm
from vbmodels.experts.candidate import INTERCEPT_PRECISION

SampledPrior = Literal["gaussian", "mabn1", "mabn2"]
Kind = Literal["vector", "direction", "length"]


@dataclass(frozen=True)
class WalkPrior:
    """The prior of gates and of experts; ``alpha`` (shape and rate) comes with every call.

    Parameters
    ----------
    name
        "gaussian", "mabn1" or "mabn2".
    tau
        Precision of "gaussian".
    kappa
        Concentration of the directions.
    """

    name: SampledPrior = "mabn1"
    tau: float = 1.0
    kappa: float = 10.0

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of proposals, in turn."""
        return ("vector",) if self.name == "gaussian" else ("direction", "length")

    def precision(self, columns: int) -> FloatArray:
        """Return the diagonal of the Gaussian's precision; [p]."""
        result = np.full(columns, self.tau)
        result[-1] = INTERCEPT_PRECISION
        return result

    def start(
        self, shape: tuple[int, ...], alpha: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draw first vectors, [chains, 2, K, p]: a prior without its angles, but not far out."""
        noise = rng.standard_normal(shape)
        if self.name == "gaussian":
            return 0.5 * noise
        mean = (alpha[:, 0] / alpha[:, 1])[None, :, None, None]
        result: FloatArray = mean * noise / np.linalg.norm(noise, axis=-1, keepdims=True)
        return result

    def propose(
        self, kind: Kind, v: FloatArray, size: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return proposals for vectors [..., p]; size is [...].

        Directions: a + noise, normalised, which is symmetric since its density depends on
        a'a* alone. Lengths: N(g, size^2) truncated to g* > 0.
        """
        if kind == "vector":
            walked: FloatArray = v + size[..., None] * rng.standard_normal(v.shape)
            return walked
        g = np.linalg.norm(v, axis=-1, keepdims=True)
        if kind == "direction":
            moved = v / g + size[..., None] * rng.standard_normal(v.shape)
            turned: FloatArray = g * moved / np.linalg.norm(moved, axis=-1, keepdims=True)
            return turned
        scale = size[..., None]
        below = ndtr(-g / scale)
        u = below + (1.0 - below) * rng.random(g.shape)
        longer = np.maximum(g + scale * ndtri(u), 1e-12)
        result: FloatArray = v * (longer / g)
        return result

    def log_ratio(
        self, kind: Kind, v: FloatArray, k: int, new: FloatArray, size: FloatArray,
        alpha: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Return the log of prior ratio times proposal ratio of v[:, k] -> new; [chains].

        For lengths the latter is Phi(g/size)/Phi(g*/size) (section 3 of the supplement); without
        it the draws of Gamma(2, 1) have the mean 2.18.
        """
        old = v[:, k]
        if kind == "vector":
            weight = self.precision(v.shape[-1])
            gaussian: FloatArray = 0.5 * ((old**2 - new**2) @ weight)
            return gaussian
        if kind == "direction":
            moved = v.copy()
            moved[:, k] = new
            return self.log_directions(moved) - self.log_directions(v)
        g, longer = np.linalg.norm(old, axis=-1), np.linalg.norm(new, axis=-1)
        prior = (alpha[0] - 1.0) * np.log(longer / g) - alpha[1] * (longer - g)
        result: FloatArray = prior + log_ndtr(g / size) - log_ndtr(longer / size)
        return result

    def log_density(self, v: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return log p of gates or of experts [chains, K, p], in (g, a) or in v; [chains]."""
        if self.name == "gaussian":
            weight = self.precision(v.shape[-1])
            terms = 0.5 * np.log(weight / (2.0 * np.pi)) - 0.5 * weight * v**2
            return np.asarray(terms.sum((1, 2)))
        g = np.linalg.norm(v, axis=-1)
        terms = alpha[0] * np.log(alpha[1]) - gammaln(alpha[0])
        terms = terms + (alpha[0] - 1.0) * np.log(g) - alpha[1] * g
        return np.asarray(terms.sum(1)) + self.log_directions(v)

    def log_directions(self, v: FloatArray) -> FloatArray:
        """Return log p(a_1, ..., a_K) (in eq 6) of the directions of v [chains, K, p]; [chains]."""
        a = v / np.linalg.norm(v, axis=-1, keepdims=True)
        before = np.cumsum(a, axis=1) - a
        length = np.linalg.norm(before, axis=-1)
        along = np.sum(before * a, axis=-1)
        if self.name == "mabn2":
            pull, norm = self.kappa * along, self.kappa * length
        else:
            pull = self.kappa * along / np.maximum(length, 1e-300)
            norm = np.where(np.arange(v.shape[1]) > 0, self.kappa, 0.0)[None]
        pull[:, 0] = 0.0
        result: FloatArray = -(pull + log_sphere_norm(v.shape[-1], norm)).sum(1)
        return result


def fitted_gamma(mean: float, mean_log: float, cap: float) -> tuple[float, float]:
    """Return shape and rate of a Gamma with these E g and E log g, the shape at most ``cap``."""
    gap = np.log(mean) - mean_log
    shape = cap
    if np.log(cap) - digamma(cap) < gap:
        shape = brentq(lambda s: np.log(s) - digamma(s) - gap, 1e-3, cap)
    return shape, shape / mean
