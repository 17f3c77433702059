"""The text's sampler as a model of the common loop: one chain, one partition, small tables.

`LaplaceGibbs` draws Z with the weights integrated out. Its draws after the warm-up are averaged
feature by feature (a feature keeps its number while any row has it), for the features of the last
draw. At those probabilities, held, Polya-Gamma sets the weights: what reports, missing cells and
new rows are read from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import draw
from vbmodels.core.state import BoolArray, FloatArray, State, Stats
from vbmodels.features.ibp.held_weights import HeldGlobal
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.ibp.sticks import fit_sticks
from vbmodels.features.laplace_gibbs.sampler import LaplaceDraw, LaplaceGibbs
from vbmodels.features.table import FeatureBatch, UnitCounts, bearable, unit_counts


@dataclass(frozen=True)
class ObservedParts(Stats, kind="features/laplace_gibbs.ObservedParts"):
    """Counts of answers, and how many partitions there are."""

    counts: UnitCounts
    parts: int


@dataclass(frozen=True)
class ChainGlobal(State, kind="features/laplace_gibbs.ChainGlobal"):
    """How far the chain is; all that it draws lives with the rows.

    Parameters
    ----------
    iteration
        Iterations so far.
    seed
        Of everything that is drawn.
    n_rows, units
        N and J.
    trace
        [T, 2] number of features and log p(X, Z) at every iteration, 0 ahead.
    """

    iteration: int
    seed: int
    n_rows: float
    units: int
    trace: FloatArray


@dataclass(frozen=True)
class ChainRows(State, kind="features/laplace_gibbs.ChainRows"):
    """The last draw, and how many of the draws that count had each of its features [N, K]."""

    draw: LaplaceDraw
    times: FloatArray


@dataclass(frozen=True)
class ChainSums(Stats, kind="features/laplace_gibbs.ChainSums"):
    """log p(X, Z) by Laplace, and the draws that count in which a row had a feature [K]."""

    log_joint: float
    features: int
    times: FloatArray


@dataclass(frozen=True)
class LaplaceIBP:
    """The collapsed sampler with the Laplace approximation (section 3 of the text).

    Parameters
    ----------
    polya
        What sets the weights at the end; its ``n_features`` bounds the features of a draw.
    sigma2
        sigma_B^2.
    warmup, draws
        Iterations thrown away and iterations averaged.
    held
        Sweeps of the weights at the end.
    """

    polya: PolyaGammaIBP
    sigma2: float = 1.0
    warmup: int = 50
    draws: int = 50
    held: int = 8

    @property
    def last(self) -> int:
        """Iterations of the chain."""
        return self.warmup + self.draws

    def observe(self, batch: FeatureBatch) -> ObservedParts:
        """Count answers and partitions."""
        return ObservedParts(unit_counts(batch), 1)

    def init(self, observed: ObservedParts, rng: np.random.Generator) -> ChainGlobal:
        """Start the chain.

        Raises
        ------
        ValueError
            If there are several partitions: every flip needs all rows.
        """
        if observed.parts != 1:
            raise ValueError(
                f"the collapsed sampler takes one partition, got {observed.parts}: its rows are "
                "not independent given the global parameters"
            )
        counts = observed.counts
        trace = np.zeros((self.last, 2))
        return ChainGlobal(0, int(rng.integers(2**62)), counts.n_rows, len(counts.stop), trace)

    def local_step(self, q: Any, batch: FeatureBatch, local: Any) -> ChainRows | FeatureLocal:
        """Draw once; when the chain is done, hold the features' probabilities."""
        if not isinstance(q, ChainGlobal):
            return FeatureLocal(self._chance(local)) if isinstance(local, ChainRows) else local
        sampler = LaplaceGibbs(
            batch.codes[batch.row_of], batch.levels, self.polya.alpha, self.sigma2,
            bearable(self.polya.n_features, q.n_rows),
        )  # fmt: skip
        rng = np.random.default_rng([q.seed, q.iteration])
        if local is None:
            local = ChainRows(sampler.start(rng), np.zeros((batch.n_rows, 2)))
        draw = sampler.iterate(local.draw, rng)
        times = np.zeros(draw.z.shape)
        _, new, old = np.intersect1d(draw.names, local.draw.names, return_indices=True)
        times[:, new] = local.times[:, old]
        return ChainRows(draw, times + draw.z if q.iteration >= self.warmup else times)

    def suff_stats(self, q: Any, batch: FeatureBatch, local: Any) -> Any:
        """Sum up the draw, or what the weights need."""
        if not isinstance(q, ChainGlobal):
            return self.weights_of(q).suff_stats(q.inner, batch, local)
        value = local.draw.log_evidence + log_buffet(local.draw.z, self.polya.alpha)
        return ChainSums(value, local.draw.z.shape[1], local.times.sum(0))

    def global_step(self, q: Any, stats: Any) -> Any:
        """Count the iteration; at the end begin with the weights."""
        if isinstance(q, HeldGlobal):
            moved = self.weights_of(q).global_step(q.inner, stats)
            return replace(q, inner=moved, left=q.left - 1)
        trace = q.trace.copy()
        trace[q.iteration] = stats.features, stats.log_joint
        if q.iteration + 1 < self.last:
            return replace(q, iteration=q.iteration + 1, trace=trace)
        return HeldGlobal(self._begin(q, stats), self.held)

    def elbo(self, q: Any, stats: Any) -> float:
        """Return log p(X, Z) of the draw, then the bound at the held features."""
        if isinstance(q, ChainGlobal):
            return float(stats.log_joint)
        return self.weights_of(q).elbo(q.inner, stats)

    def algorithm(self, q: ChainGlobal) -> Algorithm:
        """Draw, then sweep the weights as often as planned."""
        return draw(self, q, lambda q: isinstance(q, HeldGlobal) and q.left <= 0)

    def weights_of(self, q: HeldGlobal) -> PolyaGammaIBP:
        """Return the model of the weights, for as many features as the chain ended with."""
        return replace(self.polya, n_features=len(q.inner.tau))

    def _chance(self, local: ChainRows) -> FloatArray:
        chance = local.times / self.draws
        return chance if chance.shape[1] else np.zeros((len(chance), 1))

    def _begin(self, q: ChainGlobal, stats: ChainSums) -> FeatureGlobal:
        """Start the weights at nothing, for the features of the last draw."""
        k = max(stats.features, 1)
        on = stats.times / self.draws if stats.features else np.zeros(1)
        polya = replace(self.polya, n_features=k)
        counts = UnitCounts(q.n_rows, np.zeros(q.units), np.zeros(q.units))
        first = polya.init(counts, np.random.default_rng(q.seed))
        tau, alpha = fit_sticks(on, q.n_rows, polya.alpha, first.tau, learn_alpha=polya.learn)
        return replace(
            first, mean=np.zeros(first.mean.shape), tau=tau, alpha=alpha, share=on / q.n_rows
        )


def log_buffet(z: BoolArray, alpha: float) -> float:
    """log p(Z) of the Indian buffet process (section 2), Z up to the order of its columns.

    K log alpha - alpha H_N - sum_h log K_h! + sum_k log (N - m_k)! (m_k - 1)! / N!, with H_N the
    harmonic number and K_h how many columns equal each other.
    """
    n, k = z.shape
    m = z.sum(0)
    harmonic = float((1.0 / np.arange(1, n + 1)).sum())
    _, same = np.unique(z, axis=1, return_counts=True) if k else (None, np.zeros(0))
    each = gammaln(n - m + 1.0) + gammaln(m) - gammaln(n + 1.0)
    return float(k * np.log(alpha) - alpha * harmonic - gammaln(same + 1.0).sum() + each.sum())
