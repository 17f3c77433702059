"""What a bag is, in blocks of columns: pooled features, kernels of instances, kernels of bags.

size
    log(1 + n_i).
mean, max, min, sd
    Pooled features: z-scores over bags, clipped at 4.
smooth mean m, smooth max m
    mean_j L^-1 k(z, x_ij) and max_j k(z, x_ij) (MILES: Chen, Bi and Wang 2006).
rank mean m, rank max m
    The same on ranks, k = exp(-|u - u'|_1/l): the limit of random partitions (Mondrian forests:
    Balog et al. 2016), so what trees see, as a Gaussian process.
trees m
    L^-1 of that kernel on the ranks of the bag's pooled features and its size.
distribution m
    L^-1 of a Gaussian kernel on smooth mean m (Szabo et al. 2016).

k is Gaussian on z-scores clipped at 3; lengths are multiples m of the median distance. Text (rows
of TF-IDF) has mean words instead, weights of words being N(0, R) a priori with R the cosines
between words (`mil_gp.features`), and the size: of the largest words too the labels of held-out
bags were predicted worse (`benchmarks/bag_stack.md`).

A bag without instances has no columns but its size: in every other block it has the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist

from vbmodels.bags.bags import Instances
from vbmodels.bags.embedding.pools import Pool, pieces_of, pooled, rows_of
from vbmodels.bags.landmarks import (
    JITTER,
    Ranks,
    factor_of,
    laplace,
    of_both,
    rbf,
    single,
    typical,
)
from vbmodels.bags.multilabel import refuse_words, runs_of
from vbmodels.core.linalg import cholesky, solve_lower, unpack
from vbmodels.core.state import FloatArray, State

CLIP, POOLED_CLIP = 3.0, 4.0
SMOOTH = (0.5, 1.0, 2.0)
RANKED = (0.3, 1.0, 3.0)
WIDE = 300
"""Pooled features beyond which they are turned to the span of the sampled bags."""
POOL_NAMES = ("mean", "max", "min", "sd")


@dataclass(frozen=True)
class Kernels(State, kind="bags/embedding.Kernels"):
    """Landmarks [R, D] of a kernel, its lengths [M] and the factors of k(z, z), [M, R, R]."""

    points: FloatArray
    lengths: FloatArray
    factors: FloatArray

    @classmethod
    def gaussian(cls, points: FloatArray, lengths: FloatArray) -> Kernels:
        """Return Gaussian kernels at these lengths."""
        between = cdist(points, points)
        factors = [factor_of(rbf(between, length)) for length in lengths]
        return cls(points, lengths, np.array(factors))

    @classmethod
    def ranked(cls, points: FloatArray, lengths: FloatArray) -> Kernels:
        """Return Laplace kernels on ranks at these lengths."""
        between = cdist(points, points, "cityblock")
        factors = [factor_of(laplace(between, length)) for length in lengths]
        return cls(points, lengths, np.array(factors))

    def turned(self, m: int, values: FloatArray) -> FloatArray:
        """Return L^-1 k for rows of k(z, .), [n, R]."""
        return np.ascontiguousarray(solve_lower(self.factors[m], values.T).T)


@dataclass(frozen=True)
class Scaler(State, kind="bags/embedding.Scaler"):
    """How one modality's instances are scaled: z = (x - mean) scale, clipped; [D], [D]."""

    mean: FloatArray
    scale: FloatArray

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Return clipped z-scores of instances."""
        return np.clip((rows - self.mean) * self.scale, -CLIP, CLIP)


@dataclass(frozen=True)
class ModalityMap(Scaler, kind="bags/embedding.ModalityMap"):
    """From one modality's instances to a bag's columns before centring.

    Attributes
    ----------
    text
        Whether rows are TF-IDF.
    turn
        L of R for text, [D, D]; else [0, 0].
    ranks, bag_ranks
        Of instances and of pooled bags with their size.
    smooth, ranked
        Kernels of instances.
    pool_mean, pool_scale
        Of pooled features, [4 D].
    spans
        Of each pool in turn, where it is wide: an orthonormal basis of the sampled bags,
        [D, r]; else [0, 0].
    trees
        Kernels of bags on ranks.
    distributions
        Kernels of bags on each smooth mean; none until the bags' columns are known.
    """

    text: bool
    turn: FloatArray
    ranks: Ranks | None
    bag_ranks: Ranks | None
    smooth: Kernels | None
    ranked: Kernels | None
    pool_mean: FloatArray
    pool_scale: FloatArray
    spans: tuple[FloatArray, ...]
    trees: Kernels | None
    distributions: tuple[Kernels, ...]

    def columns(self, instances: Instances) -> dict[str, FloatArray]:
        """Return the blocks of bags, name to [B, Q], in a fixed order; the size is not among them.

        Raises
        ------
        ValueError
            If the instances have another number of features than those of the fit.
        """
        if instances.n_features != self.mean.size:
            raise ValueError(
                f"expected {self.mean.size} features an instance, as in the fit, got "
                f"{instances.n_features}"
            )
        pooled_rows = pooled(instances)
        if self.text:
            return {"words": pooled_rows[:, : self.mean.size] @ self.turn}
        blocks = dict(zip(POOL_NAMES, self.pools(pooled_rows), strict=True))
        if self.smooth is None or self.ranked is None or self.trees is None:
            return blocks
        means, highest = self._instance_kernels(instances)
        labels = {"smooth": (self.smooth, SMOOTH), "rank": (self.ranked, RANKED)}
        for name, (kernels, multiples) in labels.items():
            for m, times in enumerate(multiples):
                blocks[f"{name} mean {times:g}"] = kernels.turned(m, means[name][m])
                blocks[f"{name} max {times:g}"] = highest[name][m]
        of_bags = np.hstack([pooled_rows, np.log1p(instances.sizes.astype(float))[:, None]])
        ranks = self.bag_ranks(of_bags) if self.bag_ranks else pooled_rows[:, :0]
        away = cdist(ranks, self.trees.points, "cityblock")
        for m, times in enumerate(RANKED):
            kernel = laplace(away, float(self.trees.lengths[m]))
            blocks[f"trees {times:g}"] = self.trees.turned(m, kernel)
        for kernels, times in zip(self.distributions, SMOOTH, strict=False):
            own = cdist(blocks[f"smooth mean {times:g}"], kernels.points)
            kernel = rbf(own, float(kernels.lengths[0]))
            blocks[f"distribution {times:g}"] = kernels.turned(0, kernel)
        return blocks

    def smooth_means(self, instances: Instances) -> FloatArray:
        """Return mean_j k(z, x_ij) at all lengths, [B, 3 R], [B, 0] for text.

        L^-1 is left to the gathering: its rounding depends on the bags it is multiplied with, and
        is enlarged by the small eigenvalues of k(z, z); of a bag alone these have the same bits.
        """
        if self.smooth is None:
            return np.empty((instances.offsets.size - 1, 0))
        return np.hstack(self._instance_kernels(instances)[0]["smooth"])

    def pools(self, pooled_rows: FloatArray) -> list[FloatArray]:
        """Return z-scores of pooled features [B, 4 D], clipped, one array a pool."""
        z = np.clip((pooled_rows - self.pool_mean) * self.pool_scale, -POOLED_CLIP, POOLED_CLIP)
        parts = np.split(z, 4, axis=1)
        return [
            part @ span / np.sqrt(len(span)) if span.size else part
            for part, span in zip(parts, self.spans, strict=True)
        ]

    def kernels_at(self, rows: FloatArray) -> dict[str, list[FloatArray]]:
        """Return k(z, x) of every kernel of instances, [n, R] each."""
        if self.smooth is None or self.ranked is None or self.ranks is None:
            raise ValueError("expected a map with kernels of instances")
        near = cdist(self.scaled(rows), self.smooth.points)
        ranks = cdist(self.ranks(rows), self.ranked.points, "cityblock")
        return {
            "smooth": [rbf(near, float(length)) for length in self.smooth.lengths],
            "rank": [laplace(ranks, float(length)) for length in self.ranked.lengths],
        }

    def _instance_kernels(
        self, instances: Instances
    ) -> tuple[dict[str, list[FloatArray]], dict[str, list[FloatArray]]]:
        """Return means and maxima over each bag's instances of every kernel."""
        n_bags = instances.offsets.size - 1
        size = len(self.smooth.points) if self.smooth is not None else 0
        means, highest = (
            {name: [np.zeros((n_bags, size)) for _ in range(3)] for name in ("smooth", "rank")}
            for _ in range(2)
        )
        for bags in runs_of(instances):
            rows, offsets = rows_of(instances, bags)
            sizes = np.diff(offsets)
            full = np.flatnonzero(sizes > 0)
            if not full.size:
                continue
            # A bag larger than a piece is alone in its run, and taken a piece at a time.
            starts, count, at = offsets[full], sizes[full][:, None], bags.start + full
            for piece in pieces_of(rows):
                for name, values in self.kernels_at(piece).items():
                    for m, kernel in enumerate(values):
                        means[name][m][at] += np.add.reduceat(kernel, starts, axis=0) / count
                        high = np.maximum.reduceat(kernel, starts, axis=0)
                        highest[name][m][at] = np.maximum(highest[name][m][at], high)
        return means, highest


def modality_map(pool: Pool, count: int, bag_count: int, rng: np.random.Generator) -> ModalityMap:
    """Choose scaling, landmarks and lengths from what the partitions summed up.

    Parameters
    ----------
    pool
        What fitted bags say of the modality.
    count, bag_count
        Landmarks of instances and of bags.
    rng
        Of the seeding.

    Raises
    ------
    ValueError
        If rows are TF-IDF of more than `MOST_WORDS` words.
    """
    width = pool.rows.mean.size
    mean, scale = scaling(pool.rows.mean, pool.rows.deviation, pool.rows.count)
    pool_mean, pool_scale = scaling(pool.bags.mean, pool.bags.deviation, pool.bags.count)
    if pool.text:
        refuse_words(width)
    blank = ModalityMap(
        text=pool.text,
        mean=mean,
        scale=scale,
        turn=np.empty((0, 0)),
        ranks=None,
        bag_ranks=None,
        smooth=None,
        ranked=None,
        pool_mean=pool_mean[:-1],
        pool_scale=pool_scale[:-1],
        spans=(np.empty((0, 0)),) * 4,
        trees=None,
        distributions=(),
    )
    if pool.text:
        return replace(blank, turn=_turn(pool))
    rows = [s.rows for s in pool.instances if len(s.rows)]
    pooled_rows = tuple(s.rows for s in pool.samples)
    if not rows or not width:
        return blank
    all_rows, all_bags = np.concatenate(rows), np.concatenate(pooled_rows)
    ranks, bag_ranks = Ranks.of(all_rows), Ranks.of(all_bags)
    samples = tuple(blank.scaled(s.rows) for s in pool.instances)
    marks = of_both(samples, count, rng)
    points = np.array([samples[y][i] for y, i in marks])
    raw = np.array([pool.instances[y].rows[i] for y, i in marks])
    length = typical(blank.scaled(all_rows), "euclidean")
    rank_length = typical(ranks(all_rows), "cityblock")
    bag_samples = tuple(bag_ranks(t) for t in pooled_rows)
    bag_points = np.array([bag_samples[y][i] for y, i in of_both(bag_samples, bag_count, rng)])
    tree_length = typical(bag_ranks(all_bags), "cityblock")
    return replace(
        blank,
        ranks=ranks,
        bag_ranks=bag_ranks,
        smooth=Kernels.gaussian(points, length * np.array(SMOOTH)),
        ranked=Kernels.ranked(ranks(raw), rank_length * np.array(RANKED)),
        spans=_spans(blank, all_bags[:, :-1]) if width > WIDE else blank.spans,
        trees=Kernels.ranked(bag_points, tree_length * np.array(RANKED)),
    )


def with_distributions(
    of: ModalityMap, samples: tuple[FloatArray, ...], count: int, rng: np.random.Generator
) -> ModalityMap:
    """Add the kernels on smooth means, from samples of these without L^-1, [n, 3 R], by class."""
    smooth = of.smooth
    if smooth is None or not any(len(s) for s in samples):
        return of
    samples = tuple(
        np.hstack([smooth.turned(m, each) for m, each in enumerate(np.split(s, len(SMOOTH), 1))])
        for s in samples
    )
    marks = of_both(samples, count, rng)
    points = np.array([samples[y][i] for y, i in marks])
    pooled_rows = np.concatenate(samples)
    size = len(smooth.points)
    kernels = []
    for m in range(len(SMOOTH)):
        own = slice(m * size, (m + 1) * size)
        length = np.array([typical(pooled_rows[:, own], "euclidean")])
        kernels.append(Kernels.gaussian(np.ascontiguousarray(points[:, own]), length))
    return replace(of, distributions=tuple(kernels))


def scaling(mean: FloatArray, deviation: FloatArray, count: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and 1/sd, rounded; 0 for a constant column, which says nothing."""
    sd = np.sqrt(deviation / max(count, 1.0))
    sd = np.where(sd > 1e-9 * np.maximum(np.abs(mean), 1e-300), sd, 0.0)
    return single(mean, sd), single(np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0.0))


def _spans(blank: ModalityMap, pooled_rows: FloatArray) -> tuple[FloatArray, ...]:
    """Return orthonormal bases of the sampled bags' pooled features, one a pool."""
    spans = []
    for part in blank.pools(pooled_rows):
        _, size, basis = np.linalg.svd(part, full_matrices=False)
        spans.append(basis[size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)].T.copy())
    return tuple(spans)


def _turn(pool: Pool) -> FloatArray:
    """Return L of the cosines between words."""
    products = unpack(pool.products.total)
    length = np.sqrt(np.diag(products))
    length = np.where(length > 0.0, length, 1.0)
    cosines = single(products / length[:, None] / length)
    cosines = (cosines + cosines.T) / 2.0
    np.fill_diagonal(cosines, 1.0 + JITTER)
    return cholesky(cosines, "the cosines between words", jitter=1e-6)
