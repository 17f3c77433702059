"""A sampler of the text's own model that shares nothing with the package: for small tables.

p(x = r) is the softmax of b_0r + z_n . b_r with all weights N(0, sd^2) (eq 10), z_n has the
stick-breaking prior of K features. Rows are drawn exactly by going through all patterns, the
weights of each column by elliptical slice sampling (Murray, Adams and MacKay 2010), the sticks by
Metropolis steps on their logits. All chains move together in arrays.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import expit, log_softmax

from tests.contract.ibp_sampler import first_of_softmax, quantities
from vbmodels.core.state import BoolArray, FloatArray, IntArray

SLICES = 2
"""Slices of each column an iteration."""


class SoftmaxSampler:
    """The chains' state: z [C, N, K], w [C, L, K + 1], v [C, K]."""

    def __init__(
        self, codes: IntArray, levels: IntArray, k: int, prior: tuple[float, float], free: BoolArray
    ) -> None:
        self.codes, self.levels, self.k = codes, levels, k
        self.alpha, self.sd = prior
        self.free = free
        self.patterns = np.array(list(product([0.0, 1.0], repeat=k)))
        self.cuts = np.cumsum(levels)[:-1]

    def run(self, chains: int, warmup: int, draws: int, rng: np.random.Generator) -> FloatArray:
        """Return the quantities of every draw; [C, T, Q]."""
        size = (chains, int(self.levels.sum()), self.k + 1)
        w = self.prior_draw(size, rng)
        v = rng.beta(self.alpha, 1.0, (chains, self.k))
        z = np.zeros((chains, len(self.codes), self.k))
        found = []
        for t in range(warmup + draws):
            z = self.rows(w, v, rng)
            for _ in range(SLICES):
                w = self.slices(w, z, rng)
            v = self.sticks(v, z.sum(1), rng)
            if t >= warmup:
                found.append(quantities(z, w, self.levels, first_of_softmax))
        return np.stack(found, 1)

    def prior_draw(self, size: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw weights, 0 where they are pinned."""
        return rng.normal(0.0, self.sd, size) * self.free[:, None]

    def columns(self, w: FloatArray, z: FloatArray) -> FloatArray:
        """log p of every row's cell in each column, 0 where missing; [C, rows of z, D]."""
        psi = w[:, None, :, 0] + z @ w[..., 1:].transpose(0, 2, 1)
        blocks = np.split(psi, self.cuts, axis=-1)
        told = []
        for d, block in enumerate(blocks):
            code = self.codes[:, d]
            log_p = log_softmax(block, axis=-1)[:, np.arange(len(code)), np.maximum(code, 0)]
            told.append(np.where(code < 0, 0.0, log_p))
        return np.stack(told, -1)

    def rows(self, w: FloatArray, v: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw every row's pattern from its exact conditional."""
        pi = np.cumprod(v, axis=1)
        log_p = []
        for pattern in self.patterns:
            z = np.broadcast_to(pattern, (len(w), len(self.codes), self.k))
            prior = np.where(pattern > 0, np.log(pi), np.log1p(-pi)).sum(1)
            log_p.append(self.columns(w, z).sum(-1) + prior[:, None])
        gumbel = rng.gumbel(size=(len(self.patterns), *log_p[0].shape))
        drawn: FloatArray = self.patterns[np.argmax(np.stack(log_p) + gumbel, axis=0)]
        return drawn

    def slices(self, w: FloatArray, z: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Move each column's weights along an ellipse through a draw from the prior."""
        shape = (len(w), len(self.levels))
        other = self.prior_draw(w.shape, rng)
        level = self.columns(w, z).sum(1) + np.log(rng.random(shape))
        angle = rng.uniform(0.0, 2.0 * np.pi, shape)
        low, high = angle - 2.0 * np.pi, angle.copy()
        while True:
            turn = np.repeat(angle, self.levels, axis=1)[..., None]
            tried = w * np.cos(turn) + other * np.sin(turn)
            below = self.columns(tried, z).sum(1) < level
            if not below.any():
                return tried
            low = np.where(below & (angle < 0), angle, low)
            high = np.where(below & (angle >= 0), angle, high)
            angle = np.where(below, rng.uniform(low, high), angle)

    def sticks(self, v: FloatArray, on: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Ten Metropolis steps on logit v given how many rows have each feature."""
        x = np.log(v) - np.log1p(-v)
        for _ in range(10):
            y = x + 0.7 * rng.standard_normal(x.shape)
            gain = self.stick_density(y, on) - self.stick_density(x, on)
            x = np.where((np.log(rng.random(len(x))) < gain)[:, None], y, x)
        return np.clip(expit(x), 1e-12, 1.0 - 1e-12)

    def stick_density(self, x: FloatArray, on: FloatArray) -> FloatArray:
        """log p(logit v, z), up to a constant; [C]."""
        v = np.clip(expit(x), 1e-12, 1.0 - 1e-12)
        pi = np.cumprod(v, axis=1)
        told = on * np.log(pi) + (len(self.codes) - on) * np.log1p(-pi)
        density: FloatArray = (self.alpha * np.log(v) + np.log1p(-v) + told).sum(1)
        return density
