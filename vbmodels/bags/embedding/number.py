"""The embedding of a number: blocks of bag features in one Gaussian, in closed form.

    (y_i - centre)/scale = F_i'w + e_i,   e_i ~ N(0, s^2),   s^2 ~ InvGamma(a, b)
    w_m | s^2 ~ N(0, s^2 v_m I),   c | s^2 ~ N(0, 10 s^2)

With A = diag(1/v) + F'F, m = A^-1 F'y, a_n = a + n/2 and b_n = b + (y'y - m'Am)/2 the posterior
is w | s^2 ~ N(m, s^2 A^-1), s^2 ~ InvGamma(a_n, b_n), and (Bishop 2006, sections 2.3.6 and 3.3)

    log p(y | v) = -(n log 2 pi + log|A| + sum log v)/2 + a log b - a_n log b_n
                   + log Gamma(a_n) - log Gamma(a)
    d log p / d log v_m = [ (a_n/b_n) |m_m|^2/v_m - D_m + tr(A^-1)_mm/v_m ]/2

The variances v are searched by it under the prior of `block_variances`: over bags, with
K = F diag(v) F', where these are fewer than the columns. One sweep is then the end. With
h_i = F_i'A^-1 F_i and r_i = y_i - F_i'm the number of a bag given all others is a Student t with
2 a_n - 1 degrees of freedom, at y_i - r_i/(1 - h_i), of squared scale
(b_n - r_i^2/(2 (1 - h_i)))/((a_n - 1/2)(1 - h_i)): exact at these v.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import lgamma, log, pi
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding import block_variances as prior
from vbmodels.bags.embedding.ep import Weights, by_block
from vbmodels.bags.embedding.model import BlockModel, Embedding, spanned
from vbmodels.bags.embedding.pools import Pools
from vbmodels.bags.embedding.predict import shares_of
from vbmodels.bags.multilabel import FOLDS, Spread, fold_of_groups
from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show, Sweep
from vbmodels.core.cavi import evaluate
from vbmodels.core.linalg import cholesky, log_det, pack, solve, solve_lower, unpack
from vbmodels.core.state import FloatArray, IntArray, State, Stats

SHAPE, RATE = 0.5, 0.25
"""a and b: a variance of one half is believed with the weight of one bag."""
COVERED = 0.95
"""Probability of the intervals."""


@dataclass(frozen=True)
class NumberPools(Pools, kind="bags/embedding.NumberPools"):
    """What fitted bags say before the first pass, and the spread of their numbers, [1]."""

    target: Spread


@dataclass(frozen=True)
class NumberRows(Stats, kind="bags/embedding.NumberRows"):
    """Columns [n, D] and scaled numbers [n] of the fitted bags, in the order of the partitions."""

    columns: FloatArray
    y: FloatArray

    def __add__(self, other: NumberRows) -> NumberRows:
        columns = np.concatenate([self.columns, other.columns])
        return NumberRows(columns, np.concatenate([self.y, other.y]))


@dataclass(frozen=True)
class NumberSums(Stats, kind="bags/embedding.NumberSums"):
    """F'F (packed), F'y, y'y and the number of bags; each with a first axis of folds, or none."""

    gram: FloatArray
    pull: FloatArray
    square: FloatArray
    count: FloatArray

    @classmethod
    def of(cls, columns: FloatArray, y: FloatArray) -> NumberSums:
        """Sum up bags."""
        gram = pack(columns.T @ columns)
        return cls(gram, columns.T @ y, np.array(y @ y), np.array(float(y.size)))

    @classmethod
    def by_fold(cls, columns: FloatArray, y: FloatArray, fold: IntArray) -> NumberSums:
        """Sum up bags fold by fold."""
        each = [cls.of(columns[fold == f], y[fold == f]) for f in range(FOLDS)]
        return cls(*(np.array([getattr(one, f.name) for one in each]) for f in fields(cls)))

    def without(self) -> list[NumberSums]:
        """Return the sums of all folds but one, for each fold."""
        each = {f.name: getattr(self, f.name) for f in fields(self)}
        return [
            NumberSums(**{name: value.sum(axis=0) - value[f] for name, value in each.items()})
            for f in range(FOLDS)
        ]


@dataclass(frozen=True)
class Noise(State, kind="bags/embedding.Noise"):
    """The inverse gamma of s^2: a_n and b_n."""

    shape: float
    rate: float

    @classmethod
    def of(cls, sums: NumberSums, weights: Weights) -> Noise:
        """Return it from sums, at the weights that these make."""
        left = max(float(sums.square - weights.mean @ sums.pull), 0.0)
        return cls(SHAPE + 0.5 * float(sums.count), RATE + 0.5 * left)


@dataclass(frozen=True)
class NumberEmbedding(Embedding, kind="bags/embedding.NumberEmbedding"):
    """The fit of a number.

    Attributes
    ----------
    centre, scale
        Mean and standard deviation of the fitted numbers: the model's are (y - centre)/scale.
    noise
        Of all bags; of those without each fold of groups, or none.
    """

    centre: float = 0.0
    scale: float = 1.0
    noise: Noise = Noise(SHAPE, RATE)
    fold_noise: tuple[Noise, ...] = field(default_factory=tuple)

    def scaled(self, batch: Bags) -> FloatArray:
        """Return the numbers of a partition's fitted bags on the model's scale, [n]."""
        return (batch.labelled().target - self.centre) / self.scale

    def sums(self, batch: Bags, local: Any) -> NumberSums:  # type: ignore[override]
        """Sum up a partition."""
        return NumberSums.of(self.columns(batch), self.scaled(batch))


@dataclass(frozen=True)
class GatheringNumbers(State, kind="bags/embedding.GatheringNumbers"):
    """Asks for all bags or, of more than ``gathered``, for their sums."""

    q: NumberEmbedding
    gathered: int

    def sums(self, batch: Bags, local: None) -> NumberRows | NumberSums:
        """Return them of a partition."""
        if self.q.map.n_bags > self.gathered:
            return self.q.sums(batch, local)
        return NumberRows(self.q.columns(batch), self.q.scaled(batch))


@dataclass(frozen=True)
class NumbersOfFolds(State, kind="bags/embedding.NumbersOfFolds"):
    """Asks for the sums of each fold of groups."""

    q: NumberEmbedding

    def sums(self, batch: Bags, local: Any) -> NumberSums:
        """Return them of a partition."""
        fold = fold_of_groups(batch.labelled().group)
        return NumberSums.by_fold(self.q.columns(batch), self.q.scaled(batch), fold)


@dataclass(frozen=True)
class LeftOutNumbers(State, kind="bags/embedding.LeftOutNumbers"):
    """The number of each fitted bag given the others: a Student t, in the model's units, [n]."""

    at: FloatArray
    width: FloatArray
    freedom: float


@dataclass(frozen=True)
class Numbers:
    """Predicted numbers, in their own units.

    Attributes
    ----------
    mean, sd
        [B].
    low, high
        Ends of the 95 % interval, [B].
    freedom
        Degrees of freedom of the Student t that it is.
    shares
        What each block adds to ``mean`` - ``centre``, [B, M + 1]; the last is the constant.
    """

    mean: FloatArray
    sd: FloatArray
    low: FloatArray
    high: FloatArray
    freedom: float
    shares: FloatArray

    def level_chances(self, count: int) -> FloatArray:
        """Return the chances of the numbers nearest to 1 to ``count``, [B, count]."""
        half = float(stdtrit(self.freedom, 0.5 + 0.5 * COVERED))
        width = (self.high - self.low)[:, None] / (2.0 * half)
        cuts = np.arange(1.5, count)
        below = stdtr(self.freedom, (cuts - self.mean[:, None]) / width)
        ends = np.zeros(self.mean.size), np.ones(self.mean.size)
        return np.diff(np.column_stack([ends[0], below, ends[1]]), axis=1)


def log_evidence(sums: NumberSums, weights: Weights, variance: FloatArray) -> tuple[float, float]:
    """Return log p(y | v) in nats, and a_n/b_n."""
    count = float(sums.count)
    return _log_evidence(count, weights.constant(variance), Noise.of(sums, weights))


def _log_evidence(count: float, constant: float, noise: Noise) -> tuple[float, float]:
    value = constant - 0.5 * count * log(2.0 * pi) + SHAPE * log(RATE)
    value += lgamma(noise.shape) - lgamma(SHAPE) - noise.shape * log(noise.rate)
    return value, noise.shape / noise.rate


def by_weights(
    sums: NumberSums, variance: FloatArray, block: IntArray, n_blocks: int
) -> tuple[float, FloatArray]:
    """Return log p(y | v) and its slope in log v [M], over the columns."""
    weights = Weights.of(variance, unpack(sums.gram), sums.pull)
    value, precision = log_evidence(sums, weights, variance)
    size, determined = weights.sizes_and_determined(variance, block, n_blocks)
    return value, 0.5 * (precision * size - determined)


def by_bags(
    rows: NumberRows, variance: FloatArray, block: IntArray, n_blocks: int
) -> tuple[float, FloatArray]:
    """Return the same, over the bags."""
    scaled, n = rows.columns * np.sqrt(variance), rows.y.size
    factor = cholesky(scaled @ scaled.T + np.eye(n), "I + K")
    pull = solve(factor, rows.y)
    noise = Noise(SHAPE + 0.5 * n, RATE + 0.5 * float(rows.y @ pull))
    value, precision = _log_evidence(float(n), -0.5 * float(log_det(factor)), noise)
    half = solve_lower(factor, rows.columns)
    each = precision * (rows.columns.T @ pull) ** 2 - np.einsum("nd,nd->d", half, half)
    return value, by_block(0.5 * variance * each, block, n_blocks)


@dataclass(frozen=True)
class NumberModel(BlockModel):
    """Blocks of bag features in one Gaussian of a number, `Bags.target`."""

    def observe(self, batch: Bags) -> NumberPools:
        """Return scaling, counts, samples for landmarks, and the spread of the numbers."""
        target = Spread.of(batch.labelled().target[:, None])
        return super().observe(batch).extended(NumberPools, target=target)

    def init(self, observed: Pools, rng: np.random.Generator) -> NumberEmbedding:
        """Choose landmarks; see `BlockModel.init`."""
        assert isinstance(observed, NumberPools)
        fresh = super().init(observed, rng)
        spread = observed.target
        sd = float(np.sqrt(spread.deviation[0] / spread.count))
        centre = float(spread.mean[0])
        return fresh.extended(NumberEmbedding, centre=centre, scale=sd if sd > 0.0 else 1.0)

    def local_step(
        self, q: Any, batch: Bags, local: LeftOutNumbers | None
    ) -> LeftOutNumbers | None:
        """Predict each fitted bag from the others in a sweep."""
        if not isinstance(q, NumberEmbedding):
            return local
        columns, y = q.columns(batch), q.scaled(batch)
        mean, leverage = q.weights.marginals(columns)
        free = np.maximum(1.0 - leverage, 1e-10)
        left = (y - mean) / free
        rate = np.maximum(q.noise.rate - 0.5 * left**2 * free, RATE)
        shape = q.noise.shape - 0.5
        return LeftOutNumbers(y - left, np.sqrt(rate / shape / free), 2.0 * shape)

    def algorithm(self, q: NumberEmbedding) -> Algorithm:
        """Make the blocks, search their variances, and sweep once."""
        q = yield Phase(self._blocks(q), "the blocks were being made")
        q, _, elbo = yield from evaluate(self, q)
        yield Show(q, elbo, by_trace=False)
        return self._without_folds(q, (yield Sweep(NumbersOfFolds(q)))) if q.grouped else q

    def _blocks(self, q: NumberEmbedding) -> Algorithm:
        """Make the blocks, search the variances by all bags, and fit the weights."""
        q = yield from self._mapped(q)
        found = yield Evaluate(GatheringNumbers(q, self.gathered))
        rows = found if isinstance(found, NumberRows) else None
        sums = found if rows is None else NumberSums.of(rows.columns, rows.y)
        begin = self.global_step(replace(q, final=True), sums)
        yield Show(begin, self.elbo(begin, sums), by_trace=False)
        block, count = q.map.block, len(q.map.bases)
        if rows is None or rows.y.size > rows.columns.shape[1]:
            at = self._best_variances(q, lambda v: by_weights(sums, v, block, count))
        else:
            at = self._best_variances(q, lambda v: by_bags(rows, v, block, count))
        q = replace(begin, at=at)
        if rows is not None:
            q = spanned(q, rows.columns)
            sums = NumberSums.of(rows.columns @ q.turn, rows.y) if q.turn.size else sums
        return self.global_step(q, sums)

    def global_step(self, q: NumberEmbedding, stats: NumberSums) -> NumberEmbedding:
        """Return the posterior of weights and noise at the variances."""
        weights = Weights.of(q.variance, unpack(stats.gram), stats.pull)
        noise = Noise.of(stats, weights)
        return replace(q, mean=weights.mean, factor=weights.factor, noise=noise)

    def elbo(self, q: NumberEmbedding, stats: NumberSums) -> float:
        """Return log p(y | v) + log p(log v)."""
        weights = Weights.of(q.variance, unpack(stats.gram), stats.pull)
        return log_evidence(stats, weights, q.variance)[0] + prior.log_prior(q.at)

    def left_out(self, q: NumberEmbedding, batch: Bags, local: LeftOutNumbers) -> LeftOutNumbers:
        """Return the number of each fitted bag given the others, or the groups of other folds."""
        if not q.grouped:
            return local
        columns, fold = q.columns(batch), fold_of_groups(batch.labelled().group)
        at, width, freedom = np.zeros(fold.size), np.ones(fold.size), np.inf
        each = zip(q.fold_mean, q.fold_factor, q.fold_noise, strict=True)
        for f, (mean, factor, noise) in enumerate(each):
            own = fold == f
            at[own], spread = Weights(mean, factor).marginals(columns[own])
            width[own] = np.sqrt(noise.rate / noise.shape * (1.0 + spread))
            freedom = min(freedom, 2.0 * noise.shape)
        return LeftOutNumbers(at, width, freedom)

    def _without_folds(self, q: NumberEmbedding, of: NumberSums) -> NumberEmbedding:
        """Add the posteriors without each fold of groups, at the variances of all bags."""
        each = [self.global_step(q, sums) for sums in of.without()]
        return replace(
            q,
            fold_mean=np.array([one.mean for one in each]),
            fold_factor=np.array([one.factor for one in each]),
            fold_noise=tuple(one.noise for one in each),
        )


def numbers_of(q: NumberEmbedding, of: LeftOutNumbers, shares: FloatArray) -> Numbers:
    """Return Student t distributions in the numbers' own units."""
    half = float(stdtrit(of.freedom, 0.5 + 0.5 * COVERED)) * of.width * q.scale
    mean = q.centre + q.scale * of.at
    more = of.freedom / max(of.freedom - 2.0, 0.5)
    sd = q.scale * of.width * np.sqrt(more)
    return Numbers(mean, sd, mean - half, mean + half, of.freedom, q.scale * shares)


def predict_numbers(q: NumberEmbedding, data: Bags) -> Numbers:
    """Return the numbers of any bags; their own are not read."""
    columns = q.map.columns(data)
    mean, variance = q.marginals(columns)
    width = np.sqrt(q.noise.rate / q.noise.shape * (1.0 + variance))
    return numbers_of(q, LeftOutNumbers(mean, width, 2.0 * q.noise.shape), shares_of(q, columns))
