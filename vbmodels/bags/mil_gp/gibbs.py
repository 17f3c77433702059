"""Exact Gibbs sampling for MIL-GP-Probit, f integrated out: the yardstick of its fits.

Letters as in `model`. With f integrated out m_i | w has the variance s_i^2 = 1 + r_i; the
text (eqs 26-28) has 1 there, which samples another model. The blocks are

    m_b | w, Y_b    all instances of a bag at once: of a positive bag the first positive
                    instance by its chance, those before it negative, those after it free
    w | m           N(Sigma sum phi (m - c0)/s^2, Sigma),   Sigma = (I + G)^-1

(the text draws one m_i after another; the joint draw mixes better and is as cheap). Chains and
classes go side by side as columns. Partitions draw m from generators of their own, so the
draws depend on the partitioning, and on nothing else but the seed. Predictions average
P(. | w) over draws of w (Rao-Blackwell).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from vbmodels.bags.mil_gp.features import FeatureMap, KernelOptions, feature_map
from vbmodels.bags.mil_gp.likelihood import CACHE, BagTerms, Block, known_rows
from vbmodels.bags.mil_gp.model import warn_of_one_side
from vbmodels.bags.mil_gp.predict import Predictions, bag_probabilities, blocks
from vbmodels.bags.multilabel import Batch, Observed, bags_of
from vbmodels.core.algorithm import Algorithm
from vbmodels.core.cavi import draw
from vbmodels.core.draws import Schedule
from vbmodels.core.linalg import cholesky, pack, solve_lower, unpack
from vbmodels.core.special import truncated_draw
from vbmodels.core.state import FloatArray, IntArray, State, Stats

ONE_KERNEL = KernelOptions(length_scales=(1.0,), amplitudes=(3.0,))


@dataclass(frozen=True)
class Chains(State, kind="bags/mil_gp.Chains"):
    """Where the chains stand.

    Attributes
    ----------
    features
        The feature map, of one kernel value.
    seed, sweep
        Of the random numbers of this sweep.
    w
        Present draws, [chains, C, P].
    factor
        L of I + G, [P, P]; [0] before the first sweep.
    draws
        Draws kept so far, [chains, S, C, P].
    """

    features: FeatureMap
    seed: int
    sweep: int
    w: FloatArray
    factor: FloatArray
    draws: FloatArray


@dataclass(frozen=True)
class ChainSums(Stats, kind="bags/mil_gp.ChainSums"):
    """What a partition returns.

    Attributes
    ----------
    total
        sum phi (m - c0)/s^2 at its draw of m, [chains, C, P].
    log_likelihood
        log p(Y | w), [chains, C].
    gram
        G packed, in the first sweep; else [0].
    """

    total: FloatArray
    log_likelihood: FloatArray
    gram: FloatArray


@dataclass(frozen=True)
class GibbsGP:
    """Exact Gibbs sampling at one kernel value.

    Parameters
    ----------
    options
        Kernel, scaling, inducing points; one length scale and one amplitude.
    chains
        Chains, started from the prior.
    warmup, draws
        Sweeps thrown away, and draws kept of each chain.
    thin
        Sweeps between two draws that are kept.
    """

    options: KernelOptions = ONE_KERNEL
    chains: int = 4
    warmup: int = 200
    draws: int = 750
    thin: int = 1
    objective: ClassVar[str] = "log density"

    def __post_init__(self) -> None:
        if len(self.options.length_scales) > 1 or len(self.options.amplitudes) > 1:
            raise ValueError(
                "expected one length scale and one amplitude for Gibbs sampling; find them with "
                "inference 'direct', or take kernel_params 'heuristic'"
            )
        if self.chains < 2 or self.schedule.draws < 4:
            raise ValueError("expected at least 2 chains of 4 draws for their diagnosis")

    @property
    def schedule(self) -> Schedule:
        """The sweeps of each chain."""
        return Schedule(self.warmup, self.draws, self.thin)

    def observe(self, batch: Batch) -> Observed:
        """Return scaling, label counts and a sample for the inducing points."""
        options = self.options
        return Observed.of(batch, options.sample, options.sample_seed, options.wants_products)

    def init(self, observed: Observed, rng: np.random.Generator) -> Chains:
        """Start every chain at a draw from the prior."""
        warn_of_one_side(observed)
        features = feature_map(self.options, observed, rng)
        shape = (self.chains, observed.positive.size, features.n_columns)
        return Chains(
            features=features,
            seed=int(rng.integers(2**62)),
            sweep=0,
            w=rng.standard_normal(shape),
            factor=np.empty(0),
            draws=np.empty((self.chains, 0, *shape[1:])),
        )

    def local_step(self, q: Chains, batch: Batch, local: None) -> None:
        """Do nothing: m is drawn with the statistics and not kept."""

    def suff_stats(self, q: Chains, batch: Batch, local: None) -> ChainSums:
        """Draw m given w and return its sums."""
        rng = np.random.default_rng([q.seed, q.sweep, 1 + bags_of(batch).partition])
        features, size = q.features, q.features.n_columns
        flat = q.w.reshape(-1, size)
        total, log_likelihood = np.zeros_like(flat), np.zeros(len(flat))
        gram = np.zeros((size, size))
        weights = features.weights[0]
        for block in CACHE.blocks(batch, features):
            columns, s = block.columns[0], block.deviation(features, 0)
            labels = np.tile(block.labels, (1, self.chains))
            t = (block.mean[:, None] + columns @ (flat * weights).T) / s[:, None]
            terms = BagTerms.at(t, block.offsets, labels)
            y = draw_latent(t, block.offsets, labels, rng)
            known = known_rows(block)
            away = np.where(
                known[:, None], (y - block.mean[:, None] / s[:, None]) / s[:, None], 0.0
            )
            total += (away.T @ columns) * weights
            log_likelihood += terms.value.sum(axis=0)
            if not q.factor.size:
                half = (columns / s[:, None])[known] * weights
                gram += half.T @ half
        return ChainSums(
            total=total.reshape(q.w.shape),
            log_likelihood=log_likelihood.reshape(q.w.shape[:2]),
            gram=pack(gram) if not q.factor.size else np.empty(0),
        )

    def global_step(self, q: Chains, stats: ChainSums) -> Chains:
        """Draw w given the sums over m; section 3.5."""
        factor = q.factor
        if not factor.size:
            gram = unpack(stats.gram)
            factor = cholesky(gram + np.eye(len(gram)), "I + G")
        rng = np.random.default_rng([q.seed, q.sweep])
        noise = rng.standard_normal(q.w.shape).reshape(-1, len(factor)).T
        pull = solve_lower(factor, stats.total.reshape(-1, len(factor)).T)
        w = solve_lower(factor, pull + noise, transposed=True).T.reshape(q.w.shape)
        draws = q.draws
        if self.schedule.slot(q.sweep) is not None:
            draws = np.concatenate([draws, w[:, None]], axis=1)
        w = np.ascontiguousarray(w)
        return replace(q, w=w, factor=factor, sweep=q.sweep + 1, draws=draws)

    def elbo(self, q: Chains, stats: ChainSums) -> float:
        """Return log p(Y, w) of the present draws, the mean over chains: no bound."""
        prior = -0.5 * (q.w**2 + np.log(2.0 * np.pi)).sum(axis=(1, 2))
        return float((stats.log_likelihood.sum(axis=1) + prior).mean())

    def algorithm(self, q: Chains) -> Algorithm:
        """Sweep until all draws have been made."""
        return draw(self, q, lambda q: q.sweep >= self.schedule.sweeps)

    def without_draws(self, q: Chains) -> Chains:
        """Return what a sweep needs."""
        return replace(q, draws=q.draws[:, :0])


def draw_latent(
    t: FloatArray, offsets: IntArray, labels: NDArray[np.int8], rng: np.random.Generator
) -> FloatArray:
    """Draw y ~ N(t, 1) given the labels of its bags, [n, S] (eqs 9, 10, 26-28); labels [B, S].

    All instances of a bag are drawn jointly. A positive bag's first positive instance is at
    most j with chance (1 - exp c_j)/(1 - exp l), c_j = sum_{i <= j} log Phi(-t_i), l the last.
    """
    log_negative = log_ndtr(-t)
    side = np.repeat(np.where(labels == 0, -1.0, 0.0), np.diff(offsets), axis=0)
    at = rng.random(labels.shape)
    for b in np.flatnonzero((labels == 1).any(axis=1) & (np.diff(offsets) > 0)):
        rows = slice(offsets[b], offsets[b + 1])
        chance = -np.expm1(np.cumsum(log_negative[rows], axis=0))
        lost = chance[-1] <= 0.0
        if lost.any():
            # All chances underflow: they are in proportion to Phi(t).
            log_chance = log_ndtr(t[rows][:, lost])
            chance[:, lost] = np.cumsum(np.exp(log_chance - log_chance.max(axis=0)), axis=0)
        first = (chance < at[b] * chance[-1]).sum(axis=0)
        place = np.arange(len(chance))[:, None]
        drawn = np.where(place < first, -1.0, np.where(place == first, 1.0, 0.0))
        side[rows] = np.where(labels[b] == 1, drawn, side[rows])
    free = rng.standard_normal(t.shape)
    log_u = np.log1p(-rng.random(t.shape))
    cut = side != 0.0
    y = t + free
    y[cut] = truncated_draw(t[cut], side[cut], log_u[cut])
    return y


def predict_from_draws(q: Chains, batch: Batch, most: int = 1000) -> list[Predictions]:
    """Predict every class from the draws of w, at most ``most`` of them, evenly spaced.

    The score is the mean of c0 + phi'w.
    """
    draws = q.draws.reshape(-1, *q.draws.shape[2:])
    draws = draws[:: -(-len(draws) // most)]
    found: list[list[Predictions]] = [[] for _ in range(draws.shape[1])]
    for block in blocks(q.features, batch):
        for c, parts in enumerate(found):
            parts.append(_summary(q.features, block, draws[:, c]))
    return [Predictions.concat(parts) for parts in found]


def _summary(features: FeatureMap, block: Block, draws: FloatArray) -> Predictions:
    weights = features.weights[0]
    s = block.deviation(features, 0)
    score = block.mean + block.columns[0] @ (draws.mean(axis=0) * weights)
    probability = np.zeros(len(s))
    for w in draws:
        probability += ndtr((block.mean + block.columns[0] @ (w * weights)) / s) / len(draws)
    bag = bag_probabilities(features, 0, block, draws)
    return Predictions(block.own(score), block.own(probability), bag)
