"""The embedding: blocks of bag features in one probit Gaussian, fitted by partitioned EP.

    f(bag) = c + sum_m F_m(bag)'w_m,   w_m ~ N(0, v_m I),   c ~ N(0, 10)
    P(y = 1) = Phi(f)

Three passes make the blocks (`bag_map`): samples for landmarks, landmark bags, moments. Then the
columns of the bags, or of up to half of `GATHERED` of either label, are brought together, and the
blocks' variances are searched there by their gradient (`block_variances`) in the form that costs
less (`ep`). Then come sweeps of parallel EP (`ep`) over all bags: a partition keeps two
numbers a bag and returns sum F tau F', sum F nu and the evidence. Where variances were found by
some of the bags, they take a step with each of the first sweeps (`block_variances.stepped`).

This file has no published source; the parts are named in their own files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding import block_variances as prior
from vbmodels.bags.embedding.bag_map import (
    BagMap,
    BlockMoments,
    LandmarkBags,
    bag_map,
    with_bases,
    with_landmark_bags,
)
from vbmodels.bags.embedding.ep import Gathered, Sites, Weights, damping, log_chance, update
from vbmodels.bags.embedding.pools import Pools, draw_bags, pooled, sizes_of
from vbmodels.bags.multilabel import FOLDS, Sample, fold_of_groups
from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Save, Show, Sweep
from vbmodels.core.cavi import evaluate
from vbmodels.core.linalg import pack, unpack
from vbmodels.core.optimise import BatchedLBFGS
from vbmodels.core.state import FloatArray, Memory, State, Stats, aligned

GATHERED = 2000
"""Bags that variances are searched by: all, or of more half as many of either label."""
RISE = 0.01
"""Rise of the objective still promised, in nats (a thousand bags), at which the search ends.

Before the first step the promise is half the squared slope, which is less than there is to gain:
few or mute labels leave the variances at the prior's middle. Going on there predicted new bags
worse (`benchmarks/bag_stack.md`).
"""
COARSE, FINE = 1e-7, 1e-22
"""Mean squared move of the sites at which EP ends, while searching and at the end."""
MOST_SWEEPS = 60
MOST_STEPS = 240
"""Sweeps in which variances may step: with more columns than bags they trade along ridges."""
COLUMNS: Memory[FloatArray] = Memory()
"""Columns of the labelled bags of partitions, until another map comes."""
WIDTH = 300
"""About the most columns of a bag."""
Evidence = Callable[[FloatArray], tuple[float, FloatArray]]
"""The evidence at the columns' prior variances [D], and its slope in the blocks' logarithms."""


@dataclass(frozen=True)
class Sums(Stats, kind="bags/embedding.Sums"):
    """What a partition returns of a sweep: sum F tau F' (packed), sum F nu, and two scalars."""

    gram: FloatArray
    pull: FloatArray
    evidence: float
    moved: float


@dataclass(frozen=True)
class Rows(Stats, kind="bags/embedding.Rows"):
    """Columns [n, D] and labels [n] of the fitted bags, in the order of the partitions."""

    columns: FloatArray
    sign: FloatArray

    def __add__(self, other: Rows) -> Rows:
        return Rows(
            np.concatenate([self.columns, other.columns]), np.concatenate([self.sign, other.sign])
        )


@dataclass(frozen=True)
class Drawn(Stats, kind="bags/embedding.Drawn"):
    """Columns of some bags of either label, the same however the data are cut."""

    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class FoldSums(Stats, kind="bags/embedding.FoldSums"):
    """sum F tau F' (packed) and sum F nu of the bags of each fold, [K, ...] each."""

    gram: FloatArray
    pull: FloatArray


@dataclass(frozen=True)
class Embedding(State, kind="bags/embedding.Embedding"):
    """The state of the fit.

    Attributes
    ----------
    map
        The blocks.
    at
        Searched coordinates of the variances in use, [M]; before there are blocks those of an
        earlier fit, or [0].
    mean, factor
        Of the weights, [D], [D, D]; [0] before the first sweep.
    sweep
        Sweeps since the first; counted from 0 again once the variances are final.
    final
        Whether the variances are final, so that sweeps converge at them.
    seed
        Of what is drawn: landmark bags.
    turn
        Where there are more columns than bags: the columns that the bags span, each of prior
        variance 1, [D, r]; else [0, 0].
    grouped
        Whether bags are left out in groups.
    fold_mean, fold_factor
        Of the weights without the sites of each fold of groups, [K, D], [K, D, D]; else none.
    """

    map: BagMap
    at: FloatArray
    mean: FloatArray
    factor: FloatArray
    sweep: int
    final: bool
    seed: int
    turn: FloatArray
    grouped: bool
    fold_mean: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    fold_factor: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))

    @cached_property
    def key(self) -> bytes:
        """Digest that distinguishes these columns from others, for caches.

        The centres are means of all blocks over all fitted bags; the first turned column has the
        variances in it.
        """
        digest = hashlib.blake2b(self.turn[:, :1].tobytes())
        for basis in self.map.bases:
            digest.update(basis.centre.tobytes())
        return digest.digest()

    @property
    def block_variance(self) -> FloatArray:
        """Prior variance of the columns of the blocks, [D]."""
        return np.append(prior.variances(self.at), prior.CONSTANT)[self.map.block]

    @property
    def variance(self) -> FloatArray:
        """Prior variance of the weights, [D], or [r] where columns are turned."""
        return np.ones(self.turn.shape[1]) if self.turn.size else self.block_variance

    @property
    def block_mean(self) -> FloatArray:
        """Posterior mean of the weights of the blocks' columns, [D]."""
        return self.turn @ self.mean if self.turn.size else self.mean

    def columns(self, batch: Bags) -> FloatArray:
        """Return the columns of a partition's labelled bags, from memory where they are."""

        def made() -> FloatArray:
            columns = self.map.columns(batch.labelled())
            return columns @ self.turn if self.turn.size else columns

        return COLUMNS.of(batch, self.key, made)

    def sums(self, batch: Bags, local: Sites) -> Sums:
        """Sum up a sweep over a partition."""
        columns = self.columns(batch)
        half = columns * np.sqrt(local.tau)[:, None]  # a product with itself costs half as much
        return Sums(pack(half.T @ half), columns.T @ local.nu, local.evidence, local.moved)

    @property
    def weights(self) -> Weights:
        """The Gaussian of the weights."""
        return Weights(self.mean, self.factor)

    def marginals(self, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f of any bags by their blocks' columns [B, D].

        What the fitted bags do not span keeps its prior variance.
        """
        if not self.turn.size:
            return self.weights.marginals(columns)
        turned = columns @ self.turn
        mean, variance = self.weights.marginals(turned)
        rest = (columns**2) @ self.block_variance - (turned**2).sum(axis=1)
        return mean, variance + np.maximum(rest, 0.0)


@dataclass(frozen=True)
class Gathering(State, kind="bags/embedding.Gathering"):
    """Asks for the bags by which variances are searched: all, or of more than ``gathered`` some."""

    q: Embedding
    gathered: int
    sample_seed: int

    def sums(self, batch: Bags, local: None) -> Rows | Drawn:
        """Return the columns of those of a partition."""
        known, columns = batch.labelled(), self.q.columns(batch)
        if self.q.map.n_bags <= self.gathered:
            return Rows(columns, known.sign)
        pooled_rows = np.hstack(
            [*map(pooled, known.modalities), sizes_of(known), known.bag_features]
        )
        each = self.gathered // 2
        drawn = draw_bags(pooled_rows, known.label, self.sample_seed, each)
        return Drawn(tuple(Sample(each, hashed, columns[where]) for hashed, where in drawn))


@dataclass(frozen=True)
class OfFolds(State, kind="bags/embedding.OfFolds"):
    """Asks for the sums of each fold of groups, where the sites rest."""

    q: Embedding

    def sums(self, batch: Bags, local: Sites) -> FoldSums:
        """Return them of a partition."""
        columns, fold = self.q.columns(batch), fold_of_groups(batch.labelled().group)
        half = columns * np.sqrt(local.tau)[:, None]
        own = [fold == f for f in range(FOLDS)]
        grams = np.array([pack(half[of].T @ half[of]) for of in own])
        return FoldSums(grams, np.array([columns[of].T @ local.nu[of] for of in own]))


class Asking(Protocol):
    """What is sent to partitions; it says itself what it asks of each."""

    def sums(self, batch: Bags, local: Any) -> Any:
        """Return it of a partition with these local states."""


Q = TypeVar("Q", bound=Embedding)


@dataclass(frozen=True)
class BlockModel:
    """What models on blocks of bag features share: making the blocks, searching their variances.

    Parameters
    ----------
    sample_seed
        Seed of the samples' hashes.
    gathered
        Bags that variances are searched by.
    rise
        Rise of the objective, in nats, at which the search for variances ends.
    products
        Whether words of text have the correlated prior, whose products cost N D^2 once.
    """

    sample_seed: int = 0
    gathered: int = GATHERED
    rise: float = RISE
    products: bool = True

    def observe(self, batch: Bags) -> Pools:
        """Return scaling, counts, and samples for landmarks."""
        return Pools.of(batch, self.sample_seed, self.products)

    def init(self, observed: Pools, rng: np.random.Generator) -> Embedding:
        """Choose landmarks.

        Raises
        ------
        ValueError
            If no bag has a label.
        """
        if not observed.n_bags:
            raise ValueError("expected labelled bags, found none; label some, or fit other data")
        nothing = np.empty(0)
        return Embedding(
            map=bag_map(observed, rng),
            at=nothing,
            mean=nothing,
            factor=np.empty((0, 0)),
            sweep=0,
            final=False,
            seed=int(rng.integers(2**31)),
            turn=np.empty((0, 0)),
            grouped=observed.grouped > 0,
        )

    def restart(self, observed: Pools, before: Any, rng: np.random.Generator) -> Embedding:
        """Start the search for variances where an earlier fit ended; all else starts fresh."""
        fresh = self.init(observed, rng)
        return self.near(fresh, before) if isinstance(before, Embedding) else fresh

    def suff_stats(self, q: Asking, batch: Bags, local: Any) -> Any:
        """Return what a sweep, or what comes before and after them, asks of a partition."""
        return q.sums(batch, local)

    def remembered(self, q: Embedding, batch: Bags) -> int:
        """Return about how many bytes of columns are kept of a partition between sweeps."""
        return 8 * batch.n_bags * min(q.map.n_bags, WIDTH)

    def near(self, fresh: Embedding, before: Embedding) -> Embedding:
        """Return a start at the variances of an earlier fit, where that has some."""
        return replace(fresh, at=before.at) if before.final else fresh

    def _mapped(self, q: Q) -> Algorithm:
        """Choose landmark bags and cut the blocks.

        The variances are those of an earlier fit, or the prior's middle.
        """
        chosen = yield Evaluate(LandmarkBags(q.map, self.sample_seed))
        landmarks = with_landmark_bags(q.map, chosen, np.random.default_rng(q.seed))
        q = aligned(replace(q, map=landmarks))
        placed = with_bases(q.map, (yield Evaluate(BlockMoments(q.map))))
        known = q.at.size == len(placed.bases)
        return aligned(replace(q, map=placed, at=q.at if known else np.zeros(len(placed.bases))))

    def _best_variances(self, q: Embedding, evidence: Evidence) -> FloatArray:
        """Search the variances by their evidence; return the best coordinates."""
        ascent: BatchedLBFGS | None = None
        at = q.at
        for _ in range(MOST_SWEEPS):
            variance = np.append(prior.variances(at), prior.CONSTANT)[q.map.block]
            value, slope = evidence(variance)
            values = np.array([value + prior.log_prior(at)])
            gradient = prior.searched_slope(at, slope)[None]
            if ascent is None:
                ascent = BatchedLBFGS.start(at[None], values, gradient, self.rise)
            else:
                ascent = ascent.updated(values, gradient, self.rise)
            if ascent.done[0]:
                break
            at = ascent.trial[0]
        return ascent.at[0] if ascent is not None else at


@dataclass(frozen=True)
class EmbeddingModel(BlockModel):
    """Blocks of bag features in one probit Gaussian."""

    def local_step(self, q: Asking, batch: Bags, local: Sites | None) -> Sites | None:
        """Update the sites of a partition in a sweep; at first they say nothing."""
        if not isinstance(q, Embedding):
            return local
        known = batch.labelled()
        if local is None:
            zeros = np.zeros(known.n_bags)
            local = Sites(zeros, zeros, zeros, 0.0, 0.0)
        marginals = q.weights.marginals(q.columns(batch))
        return update(known.sign, *marginals, local.tau, local.nu, damping(q.sweep))

    def algorithm(self, q: Embedding) -> Algorithm:
        """Make the blocks and search their variances, then sweep to where the sites rest."""
        q = yield Phase(self._blocks(q), "the blocks were being made")
        q = yield Phase(self._sweeps(q))
        return self._without_folds(q, (yield Sweep(OfFolds(q)))) if q.grouped else q

    def _blocks(self, q: Embedding) -> Algorithm:
        """Make the blocks, search the variances by some of the bags, and begin at their sites."""
        q = yield from self._mapped(q)
        rows = yield Evaluate(Gathering(q, self.gathered, self.sample_seed))
        if isinstance(rows, Drawn):
            each = [sample.rows for sample in rows.samples]
            rows = Rows(np.concatenate(each), np.repeat([-1.0, 1.0], list(map(len, each))))
        of = Gathered(rows.columns, rows.sign, q.map.block, len(q.map.bases))
        tau = nu = np.zeros(rows.sign.size)

        def evidence(variance: FloatArray) -> tuple[float, FloatArray]:
            nonlocal tau, nu
            found = of.converge(variance, tau, nu, COARSE)
            tau, nu = found.tau, found.nu
            return found.value, found.slope

        at = self._best_variances(q, evidence)
        all_there = q.map.n_bags == rows.sign.size
        q = spanned(replace(q, at=at, final=all_there), rows.columns)
        columns = rows.columns @ q.turn if q.turn.size else rows.columns
        half = columns * np.sqrt(tau)[:, None]
        weights = Weights.of(q.variance, half.T @ half, columns.T @ nu)
        return replace(q, mean=weights.mean, factor=weights.factor, sweep=0)

    def _sweeps(self, q: Embedding) -> Algorithm:
        """Show where sites rest; at variances that move no more that is the end."""
        while True:
            q = yield Save(q)
            q, stats, elbo = yield from evaluate(self, q)
            limit = FINE if q.final else COARSE
            if stats.moved <= limit * q.map.n_bags or q.sweep >= MOST_SWEEPS:
                yield Show(q, elbo, by_trace=False)
                if q.final:
                    return q
            q = self.global_step(q, stats)

    def global_step(self, q: Embedding, stats: Sums) -> Embedding:
        """Return the weights given the sites; where variances still move, a step of these too."""
        gram = unpack(stats.gram)
        weights = Weights.of(q.variance, gram, stats.pull)
        if not q.final and q.sweep > 0:
            moments = weights.sizes_and_determined(q.variance, q.map.block, len(q.map.bases))
            at, promised = prior.stepped(q.at, *moments)
            limit = self.rise * max(1.0, q.map.n_bags / 1000)
            final = promised <= limit or q.sweep >= MOST_STEPS
            q = replace(q, at=at, final=final, sweep=-1 if final else q.sweep)
            weights = Weights.of(q.variance, gram, stats.pull)
        return replace(q, mean=weights.mean, factor=weights.factor, sweep=q.sweep + 1)

    def _without_folds(self, q: Embedding, of: FoldSums) -> Embedding:
        """Add the weights without each fold's sites: groups are left out by folds.

        The variances and the others' sites are those of all bags, as in EP's leave-one-out.
        """
        gram, pull = unpack(of.gram.sum(axis=0)), of.pull.sum(axis=0)
        left = [
            Weights.of(q.variance, gram - unpack(own), pull - pulled)
            for own, pulled in zip(of.gram, of.pull, strict=True)
        ]
        return replace(
            q,
            fold_mean=np.array([one.mean for one in left]),
            fold_factor=np.array([one.factor for one in left]),
        )

    def left_out(self, q: Embedding, batch: Bags, local: Sites) -> FloatArray:
        """Return the log probability of each fitted bag's label without it, [n], in nats.

        Without the bag alone, or, where there are groups, without the groups of its fold.
        """
        if not q.grouped:
            return local.log_z
        known = batch.labelled()
        columns, fold = q.columns(batch), fold_of_groups(known.group)
        out = np.zeros(known.n_bags)
        for f, (mean, factor) in enumerate(zip(q.fold_mean, q.fold_factor, strict=True)):
            held = fold == f
            marginals = Weights(mean, factor).marginals(columns[held])
            out[held] = log_chance(known.sign[held], *marginals)
        return out

    def elbo(self, q: Embedding, stats: Sums) -> float:
        """Return log Z_EP + log p(log v) at the sites that ``q`` was made with."""
        return float(stats.evidence) + q.weights.constant(q.variance) + prior.log_prior(q.at)


def spanned(q: Q, columns: FloatArray) -> Q:
    """Turn the columns to those that the bags span, where these are fewer and all are there."""
    scaled = columns * np.sqrt(q.block_variance)
    if len(scaled) >= scaled.shape[1] or q.map.n_bags > len(scaled):
        return q
    _, size, basis = np.linalg.svd(scaled, full_matrices=False)
    basis = basis[size > 1e-9 * size.max()]
    top = np.abs(basis).argmax(axis=1)
    basis = basis * np.sign(basis[np.arange(len(basis)), top])[:, None]
    turn = np.ascontiguousarray((basis * np.sqrt(q.block_variance)).T)
    return replace(q, turn=turn)
