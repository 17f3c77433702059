"""What the embedding says of bags: probabilities, and what adds to their scores.

With G the columns of new bags, m = G w and s^2 = |L^-1 G|^2,
P = Phi(m/sqrt(1 + s^2)).

Blocks of means are sums over instances as they stand: c_ij = (1/n_i)(F_m(x_ij) - centre)'w_m. In
blocks of maxima each column goes to the instance that has the largest value (in equal parts where
several have it). So a bag's contributions sum to those blocks' part of its f; what the other
blocks add (size, spread, distributions of instances, trees) belongs to the bag as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from vbmodels.bags.bags import Bags, Instances
from vbmodels.bags.embedding.blocks import POOL_NAMES, POOLED_CLIP, RANKED, SMOOTH, ModalityMap
from vbmodels.bags.embedding.model import Embedding
from vbmodels.bags.embedding.pools import pieces_of, rows_of
from vbmodels.bags.multilabel import BLOCK, runs_of
from vbmodels.core.linalg import solve_lower
from vbmodels.core.state import FloatArray, IntArray

_Weighted = tuple[FloatArray, float]  # of a block: weights [Q] of its columns, its centre's share


@dataclass(frozen=True)
class BagScores:
    """What is said of bags.

    Attributes
    ----------
    mean, sd
        Of the score f, [B].
    probability
        P(y = 1), [B].
    shares
        Mean of what each block adds to f, [B, M + 1]; the last is the constant. They sum to
        ``mean``.
    """

    mean: FloatArray
    sd: FloatArray
    probability: FloatArray
    shares: FloatArray


def predict_bags(q: Embedding, data: Bags) -> BagScores:
    """Return what is said of bags; their labels are not read."""
    columns = q.map.columns(data)
    mean, variance = q.marginals(columns)
    probability = ndtr(mean / np.sqrt(1.0 + variance))
    return BagScores(mean, np.sqrt(variance), probability, shares_of(q, columns))


def shares_of(q: Embedding, columns: FloatArray) -> FloatArray:
    """Return the mean of what each block adds to f, the last the constant, [B, M + 1]."""
    count = len(q.map.bases) + 1
    shares = np.zeros((len(columns), count))
    parts = columns * q.block_mean
    for m in range(count):
        shares[:, m] = parts[:, q.map.block == m].sum(axis=1)
    return shares


def of_instances(name: str) -> bool:
    """Whether a block's share is divided among instances.

    >>> of_instances("smooth mean 0.5"), of_instances("trees 1"), of_instances("1: max")
    (True, False, True)
    """
    own = name.split(": ")[-1]
    return own.split()[0] in ("smooth", "rank", "words") or own in POOL_NAMES[:3]


def contributions(q: Embedding, data: Bags) -> tuple[FloatArray, ...]:
    """Return what every instance adds to the mean of its bag's f, [N_k] of each modality."""
    weights = {name: _weighted(q, m) for m, name in enumerate(q.map.names())}
    several, out = len(q.map.modalities) > 1, []
    parts = zip(q.map.modalities, data.modalities, feature_weights(q), strict=True)
    for k, (of, instances, of_features) in enumerate(parts):
        prefix = f"{k}: " if several else ""
        own = {
            name.removeprefix(prefix): w
            for name, w in weights.items()
            if name.startswith(prefix) and of_instances(name)
        }
        centre = sum(c for name, (_, c) in own.items() if name in (*POOL_NAMES, "words"))
        adds = np.zeros(len(instances.features))
        for here, rows, run in _runs(instances):
            adds[here] = _by_feature(of, rows, run, of_features).sum(axis=1)
            adds[here] -= np.repeat(centre / run.sizes, run.sizes)
            adds[here] += _of_kernels(of, rows, run, own)
        out.append(adds)
    return tuple(out)


def marker_contributions(
    q: Embedding, data: Bags, most: int
) -> tuple[tuple[IntArray, FloatArray], ...]:
    """Return the features of every instance that add most to its bag's f, and what each adds.

    Two of [N_k, R] for each modality, R at most ``most``, the largest in size first. What a feature
    adds is its share of the bag's mean, largest and smallest value, each against its mean over the
    fitted bags; what kernels of all features together add belongs to none.
    """
    weights = feature_weights(q)
    out = []
    for of, instances, own in zip(q.map.modalities, data.modalities, weights, strict=True):
        shape = len(instances.features), min(most, instances.n_features)
        which, adds = np.zeros(shape, np.int64), np.zeros(shape)
        for here, rows, run in _runs(instances):
            each = _by_feature(of, rows, run, own)
            which[here] = np.argsort(-np.abs(each), axis=1, kind="stable")[:, : shape[1]]
            adds[here] = np.take_along_axis(each, which[here], axis=1)
        out.append((which, adds))
    return tuple(out)


def _by_feature(
    of: ModalityMap, rows: FloatArray, run: _Run, own: dict[str, FloatArray]
) -> FloatArray:
    """Return what each feature of each instance adds to its bag's f, [n, D]."""
    if of.text:
        return rows * own["words"] / np.repeat(run.sizes, run.sizes)[:, None]
    width = rows.shape[1]
    out = np.zeros(rows.shape)
    for i, name in enumerate(POOL_NAMES[:3]):
        where = slice(i * width, (i + 1) * width)
        mean, scale = of.pool_mean[where], of.pool_scale[where]
        if name == "mean":
            z = (rows - mean) * scale
            means = run.means(z)
            away = np.clip(means, -POOLED_CLIP, POOLED_CLIP) - means
            z += np.repeat(away, run.sizes, axis=0)
            out += z * own[name] / np.repeat(run.sizes, run.sizes)[:, None]
            continue
        towards = rows if name == "max" else -rows
        highest = np.maximum.reduceat(towards, run.starts, axis=0)
        value = highest if name == "max" else -highest
        z = np.clip((value - mean) * scale, -POOLED_CLIP, POOLED_CLIP)
        winner = towards == np.repeat(highest, run.sizes, axis=0)
        each = z * own[name] / np.add.reduceat(winner.astype(float), run.starts, axis=0)
        out += winner * np.repeat(each, run.sizes, axis=0)
    return out


def _weighted(q: Embedding, m: int) -> _Weighted:
    basis, mean = q.map.bases[m], q.block_mean[q.map.block == m]
    weights = basis.turn @ mean
    return weights, float(basis.centre @ weights)


def feature_weights(q: Embedding) -> list[dict[str, FloatArray]]:
    """Return what an sd of each pooled feature adds to a bag's score, [D] by pool, by modality."""
    return [
        {pool: columns @ q.block_mean for pool, columns in pools.items()}
        for pools in feature_columns(q)
    ]


def feature_columns(q: Embedding) -> list[dict[str, FloatArray]]:
    """Return the columns that an sd of each pooled feature adds, [D, columns] by pool and modality.

    Pools are those of `POOL_NAMES`, or "words" for text. What kernels of all features together add
    belongs to none. `Embedding.marginals` of the columns is what the feature adds to a score.
    """
    names, several = q.map.names(), len(q.map.modalities) > 1
    out = []
    for k, of in enumerate(q.map.modalities):
        prefix = f"{k}: " if several else ""
        found = {}
        for m, name in enumerate(names):
            own = name.removeprefix(prefix)
            if not name.startswith(prefix) or own not in (*POOL_NAMES, "words"):
                continue
            turn = q.map.bases[m].turn
            if own == "words":
                turn = of.turn @ turn
            elif of.spans[POOL_NAMES.index(own)].size:
                turn = of.spans[POOL_NAMES.index(own)] @ turn / np.sqrt(of.mean.size)
            found[own] = np.zeros((len(turn), q.map.block.size))
            found[own][:, q.map.block == m] = turn
        out.append(found)
    return out


@dataclass(frozen=True)
class _Run:
    """Some bags' instances: first row of each bag that has any, and their numbers."""

    starts: IntArray
    sizes: IntArray

    def mean_shares(self, values: FloatArray, weighted: _Weighted) -> FloatArray:
        """Return shares of a mean of ``values``, [n, Q]."""
        weights, centre = weighted
        each: FloatArray = (values @ weights - centre) / np.repeat(self.sizes, self.sizes)
        return each

    def means(self, values: FloatArray) -> FloatArray:
        """Return the mean of each bag, [b, Q]."""
        sums: FloatArray = np.add.reduceat(values, self.starts, axis=0)
        return sums / self.sizes[:, None]

    def largest_shares(self, values: FloatArray, weighted: _Weighted) -> FloatArray:
        """Return shares of a maximum of ``values``, [n, Q]."""
        weights, centre = weighted
        highest = np.maximum.reduceat(values, self.starts, axis=0)
        winner = (values == np.repeat(highest, self.sizes, axis=0)).astype(float)
        number = np.add.reduceat(winner, self.starts, axis=0)
        each = highest * weights / number
        gain: FloatArray = (winner * np.repeat(each, self.sizes, axis=0)).sum(axis=1)
        return gain - np.repeat(centre / self.sizes, self.sizes)


def _runs(instances: Instances) -> Iterator[tuple[slice, FloatArray, _Run]]:
    """Yield where some bags' instances are, their rows, and the bags that have any."""
    for bags in runs_of(instances):
        rows, offsets = rows_of(instances, bags)
        sizes = np.diff(offsets)
        run = _Run(offsets[:-1][sizes > 0], sizes[sizes > 0])
        if run.starts.size:
            start = int(instances.offsets[bags.start])
            yield slice(start, start + len(rows)), rows, run


def _of_kernels(
    of: ModalityMap, rows: FloatArray, run: _Run, own: dict[str, _Weighted]
) -> FloatArray | float:
    """Return what the kernels' blocks share among the instances, [n]."""
    if of.smooth is None or of.ranked is None:
        return 0.0
    if len(rows) > BLOCK:
        return _of_large(of, rows, own)
    out = np.zeros(len(rows))
    for kind, values in of.kernels_at(rows).items():
        for m, kernel in enumerate(values):
            of_mean, of_largest = _weights(of, own, kind, m)
            out += run.mean_shares(kernel, of_mean) + run.largest_shares(kernel, of_largest)
    return out


def _weights(
    of: ModalityMap, own: dict[str, _Weighted], kind: str, m: int
) -> tuple[_Weighted, _Weighted]:
    """Return what multiplies a kernel's values in its bag's mean, and in its maximum."""
    kernels, multiples = (of.smooth, SMOOTH) if kind == "smooth" else (of.ranked, RANKED)
    if kernels is None:
        raise ValueError("expected a map with kernels of instances")
    weights, centre = own[f"{kind} mean {multiples[m]:g}"]
    turned = solve_lower(kernels.factors[m], weights[:, None], transposed=True)[:, 0]
    return (turned, centre), own[f"{kind} max {multiples[m]:g}"]


def _of_large(of: ModalityMap, rows: FloatArray, own: dict[str, _Weighted]) -> FloatArray:
    """Return what the kernels' blocks share among the instances of one bag, a piece at a time.

    Maxima and how many instances have them come first; then kernels are evaluated again.
    """
    best: dict[tuple[str, int], tuple[FloatArray, FloatArray]] = {}
    for piece in pieces_of(rows):
        for kind, values in of.kernels_at(piece).items():
            for m, kernel in enumerate(values):
                high = kernel.max(axis=0)
                number = (kernel == high).sum(axis=0).astype(float)
                if (kind, m) in best:
                    before, count = best[kind, m]
                    number = np.where(high >= before, number, 0.0) + count * (before >= high)
                    high = np.maximum(high, before)
                best[kind, m] = high, number
    out = []
    for piece in pieces_of(rows):
        gain = np.zeros(len(piece))
        for kind, values in of.kernels_at(piece).items():
            for m, kernel in enumerate(values):
                (turned, centre), (weights, middle) = _weights(of, own, kind, m)
                high, number = best[kind, m]
                gain += (kernel @ turned - centre - middle) / len(rows)
                gain += (kernel == high).astype(float) @ (high * weights / number)
        out.append(gain)
    return np.concatenate(out)
