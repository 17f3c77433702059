"""Metropolis-Hastings for experts under the mutual angular priors of both types.

beta_k = g_k a_k and eta_k = h_k e_k with lengths Gamma(alpha1, rate alpha2). Directions: a_1
uniform, then (Xie, Zhu and Xing 2016, type I) a_i | a_<i ~ vMF(-s_i/|s_i|, kappa), or (type
II) density proportional to exp(-kappa s_i'a_i), s_i = sum_{j<i} a_j. z is drawn from its
conditional, so the likelihood falls apart into experts; gates are moved one at a time.

Directions are proposed as a + noise, normalised: symmetric, since its density depends on
a'a* alone. Lengths are proposed from N(g, sigma^2) truncated to g* > 0, so the acceptance
ratio takes the factor Phi(g/sigma) / Phi(g*/sigma) (section 3 of the supplement). EM for
alpha1, alpha2 runs during warmup only and alpha1 is capped: without a cap it grows without
end, because K lengths that agree have an unbounded likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, log_expit, log_ndtr, log_softmax

from vbmodels.experts.batch import Rows
from vbmodels.expfam.von_mises_fisher import log_sphere_norm
from vbmodels.state import FloatArray

_WANTED = 0.3  # share of proposals accepted


@dataclass(frozen=True)
class AngularSampler:
    """Sample a mixture of logistic experts in this process.

    Parameters
    ----------
    n_experts
        K.
    prior
        "mabn1" or "mabn2".
    kappa
        Concentration of the directions.
    alpha1, alpha2
        Start of the lengths' shape and rate.
    learn
        Whether they are learned by EM during warmup.
    most_alpha1
        Cap on alpha1.
    """

    n_experts: int = 5
    prior: Literal["mabn1", "mabn2"] = "mabn1"
    kappa: float = 10.0
    alpha1: float = 2.0
    alpha2: float = 0.5
    learn: bool = False
    most_alpha1: float = 50.0

    def chain(self, batch: Rows, rng: np.random.Generator, draws: int, warmup: int) -> Chain:
        """Run one chain; proposals are tuned during warmup only."""
        moves = _Moves(self, batch, rng)
        for i in range(warmup):
            moves.sweep()
            moves.tune(i)
            if self.learn and i >= warmup // 4 and i % 10 == 9:
                moves.learn()
        moves.recent.clear()
        kept = np.empty((draws, 2, self.n_experts, batch.n_columns))
        for i in range(draws):
            moves.sweep()
            kept[i] = moves.vectors
        return Chain(kept, moves.alpha, moves.accepted / max(1, draws + warmup))

    def log_directions(self, a: FloatArray) -> float:
        """Return log p(a_1, ..., a_K) of directions [K, p]."""
        p = a.shape[1]
        before = np.cumsum(a, axis=0) - a
        length = np.sqrt(np.einsum("kp,kp->k", before, before))
        along = np.einsum("kp,kp->k", before, a)
        if self.prior == "mabn2":
            pull, norm = self.kappa * along, self.kappa * length
        else:
            pull = self.kappa * along / np.maximum(length, 1e-300)
            norm = np.where(np.arange(len(a)) > 0, self.kappa, 0.0)
        return -float(np.sum(pull) + np.sum(log_sphere_norm(p, norm)))


@dataclass(frozen=True)
class Chain:
    """Draws of gates and experts [draws, 2, K, p], the last (alpha1, alpha2) [2, 2], rates."""

    draws: FloatArray
    alpha: FloatArray
    accepted: FloatArray


class _Moves:
    """The present state of a chain and its moves."""

    def __init__(self, model: AngularSampler, batch: Rows, rng: np.random.Generator) -> None:
        k, p = model.n_experts, batch.n_columns
        self.model, self.batch, self.rng = model, batch, rng
        a = rng.standard_normal((2, k, p))
        self.a = a / np.linalg.norm(a, axis=-1, keepdims=True)
        self.g = np.full((2, k), model.alpha1 / model.alpha2)
        self.alpha = np.full((2, 2), [model.alpha1, model.alpha2])
        self.scale = np.stack([np.full((2, k), 0.3), np.full((2, k), 1.0)])  # directions, lengths
        self.accepted = np.zeros((2, 2, k))
        self.window = np.zeros((2, 2, k))
        self.recent: list[FloatArray] = []
        self.linear = np.stack([batch.project(v) for v in self.vectors])

    @property
    def vectors(self) -> FloatArray:
        """Gates and experts; [2, K, p]."""
        result: FloatArray = self.g[..., None] * self.a
        return result

    def sweep(self) -> None:
        """Draw z, then move every direction and every length once."""
        t = self.batch.t
        logits = self.linear[0] + log_expit(t * self.linear[1]) * (t != 0.0)
        z = np.argmax(logits + self.rng.gumbel(size=logits.shape), axis=0)
        for role in (0, 1):
            for k in range(self.model.n_experts):
                for kind in (0, 1):
                    self._move(role, k, kind, z)
        self.recent = [*self.recent[-99:], self.g.copy()]

    def _move(self, role: int, k: int, kind: int, z: np.ndarray) -> None:
        size = self.scale[kind, role, k]
        a, g = self.a[role].copy(), self.g[role].copy()
        if kind == 0:
            moved = a[k] + size * self.rng.standard_normal(a.shape[1])
            a[k] = moved / np.linalg.norm(moved)
            ratio = self.model.log_directions(a) - self.model.log_directions(self.a[role])
        else:
            g[k] += size * self.rng.standard_normal()
            while g[k] <= 0.0:
                g[k] = self.g[role, k] + size * self.rng.standard_normal()
            shape, rate = self.alpha[role]
            old = self.g[role, k]
            ratio = (shape - 1.0) * np.log(g[k] / old) - rate * (g[k] - old)
            ratio += float(log_ndtr(old / size) - log_ndtr(g[k] / size))
        linear = self.linear[role].copy()
        linear[k] = self.batch.project((g[k] * a[k])[None])[0]
        ratio += self._log_rows(role, linear, k, z) - self._log_rows(role, self.linear[role], k, z)
        if np.log(self.rng.random()) < ratio:
            self.a[role], self.g[role], self.linear[role] = a, g, linear
            self.accepted[kind, role, k] += 1.0
            self.window[kind, role, k] += 1.0

    def _log_rows(self, role: int, linear: FloatArray, k: int, z: np.ndarray) -> float:
        """Log-likelihood of z (gates), or of the labels of expert k's rows."""
        if role == 0:
            gates = log_softmax(linear, axis=0)[z, np.arange(z.size)]
            return float(self.batch.used @ gates)
        rows = self.batch.used * (z == k)
        return float(rows @ log_expit(self.batch.t * linear[k]))

    def tune(self, i: int) -> None:
        """Bring the share of accepted proposals near its goal, every 20 sweeps."""
        if i % 20 == 19:
            self.scale *= np.exp(self.window / 20.0 - _WANTED)
            self.scale = np.clip(self.scale, 1e-4, 50.0)
            self.window[:] = 0.0

    def learn(self) -> None:
        """M step for the shape (capped) and rate of gates' and of experts' lengths."""
        lengths = np.array(self.recent)
        for role in (0, 1):
            mean, mean_log = lengths[:, role].mean(), np.log(lengths[:, role]).mean()
            gap = np.log(mean) - mean_log
            cap = self.model.most_alpha1
            shape = cap
            if np.log(cap) - digamma(cap) < gap:
                shape = brentq(lambda s, gap=gap: np.log(s) - digamma(s) - gap, 1e-3, cap)
            self.alpha[role] = shape, shape / mean
