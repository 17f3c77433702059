"""The likelihood of bags under the probit GP given w, and the sums a partition returns.

With the letters of `features` and s_i^2 = 1 + r_i (the variance of m_i given w, f integrated
out), for each class

    t_i = (c0 + phi_i'w) / s_i,   l_b = sum_i log Phi(-t_i) = log p(Y_b = 0 | w)
    log p(Y | w) = sum_b [ Y log(-expm1 l_b) + (1 - Y) l_b ]
    gradient = sum_i g_i phi_i / s_i,   g = -h (negative bag), w_b h (positive bag),
    h = phi/Phi(-t),   w_b = 1/expm1(-l_b)

(eqs 1, 8, 11, 12, 20-23 of Wang and Pinar 2021, with E[m_i] = s t + s g and log Z in stable form.)
The curvature is Gauss-Newton: sum_neg h (h - t) phi phi'/s^2 + sum_pos w (1 + w) q_b q_b',
q_b = sum_i h_i phi_i/s_i; the part of positive bags that bends upwards is left out.

Instances whose own label is known are bags of one instance each (`with_known_instances`).

Given w instances are independent, so that with U the instances of bag b whose label is not known

    p(labels of b | w) = prod_{h_i = 0} Phi(-t_i) prod_{h_i = 1} Phi(t_i)
                         (1 if some h_i = 1, else 1 - prod_U Phi(-t_i) if Y_b = 1, else prod_U ...)

which is that of bags: each known instance alone, with its label, and the others with the bag's,
or without one where an instance is known to be positive. Known negatives of a negative bag say
nothing new. These bags have a leak like any other: a positive instance is an error of the labels
with the leak's chance, 2e-4, and no bag of one instance is quite sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from vbmodels.bags.bags import UNLABELLED, Bags, Instances
from vbmodels.bags.mil_gp.features import LEAK, FeatureMap
from vbmodels.bags.multilabel import (
    Batch,
    MultiLabelBags,
    bags_of,
    instances_of,
    labels_of,
    rows_of,
    runs_of,
)
from vbmodels.core.linalg import pack
from vbmodels.core.normal_kernels import log_cdf_and_mills
from vbmodels.core.special import inverse_mills, log1mexp
from vbmodels.core.state import BoolArray, FloatArray, IntArray, Memory, State, Stats

SMALL = 1e-250
"""Below this -l_b is taken from logarithms."""

LARGEST_EXPONENT = 700.0

AT_ONCE = 32
"""Searches of one length scale that read its columns together."""


@dataclass(frozen=True)
class Block:
    """Some whole bags of a partition with their columns, for every length scale.

    Attributes
    ----------
    columns, residual
        phi before weights [n, P], and what is left of a variance of 1 [n]; one a length scale.
    mean
        Mean of f before phi'w, [n]: c0, or that of a leak, which is the last row of its bag.
    offsets
        Rows of bag i are ``offsets[i]:offsets[i + 1]``, [B + 1].
    labels
        [B, C].
    leak
        Whether bags have a leak.
    """

    columns: tuple[FloatArray, ...]
    residual: tuple[FloatArray, ...]
    mean: FloatArray
    offsets: IntArray
    labels: NDArray[np.int8]
    leak: bool

    @classmethod
    def of(cls, batch: Batch, bags: slice, features: FeatureMap) -> Block:
        """Compute the columns of some bags."""
        rows = rows_of(batch, bags)
        offsets = instances_of(batch).offsets[bags.start : bags.stop + 1]
        offsets = offsets - offsets[0]
        columns, residual = features.base(rows)
        mean = np.full(len(rows), features.offset)
        if features.leak:
            ends = offsets[1:]
            offsets = offsets + np.arange(offsets.size)
            columns = tuple(np.insert(each, ends, 0.0, axis=0) for each in columns)
            for each in columns:
                each[offsets[1:] - 1, features.n_columns - 2] = 1.0  # before the constant
            residual = tuple(np.insert(each, ends, 0.0) for each in residual)
            mean = np.insert(mean, ends, LEAK[0])
        return cls(columns, residual, mean, offsets, labels_of(batch)[bags], features.leak)

    def part(self, bags: slice) -> Block:
        """Return some of the bags, of neighbouring places, as views."""
        bounds = self.offsets[bags.start : bags.stop + 1]
        rows = slice(bounds[0], bounds[-1])
        return Block(
            tuple(columns[rows] for columns in self.columns),
            tuple(residual[rows] for residual in self.residual),
            self.mean[rows],
            bounds - bounds[0],
            self.labels[bags],
            self.leak,
        )

    def own(self, of_rows: FloatArray) -> FloatArray:
        """Return what is of instances, [n - B], of what is of rows, [n]."""
        return np.delete(of_rows, self.offsets[1:] - 1) if self.leak else of_rows

    def deviation(self, features: FeatureMap, k: int) -> FloatArray:
        """Return s at kernel value k, [n]."""
        return np.asarray(np.sqrt(1.0 + features.amplitude[k] * self.residual[features.which[k]]))


class BlockCache(Memory[list[Block]]):
    """Blocks of partitions, until another feature map comes."""

    def blocks(self, batch: Batch, features: FeatureMap) -> Iterator[Block]:
        """Return the blocks of a partition, from memory where they are."""
        made = (Block.of(batch, bags, features) for bags in runs_of(instances_of(batch)))
        return iter(self.of(batch, features.key, lambda: list(made)))


CACHE = BlockCache()


@dataclass(frozen=True)
class BagTerms:
    """What bags contribute at t, for every class.

    Attributes
    ----------
    value
        log p(Y_b | w), [B, C]; 0 without label.
    slope
        g, [n, C].
    hazard
        h, [n, C].
    negative
        l_b, [B, C].
    """

    value: FloatArray
    slope: FloatArray
    hazard: FloatArray
    negative: FloatArray

    @property
    def root_odds(self) -> FloatArray:
        """The square root of (1 + w)/w of positive bags, exp(-l/2), [B, C].

        By it w q becomes a factor of w (1 + w) q q'. Where it would overflow w q is 0 long since,
        and so must their product be.
        """
        return np.exp(np.minimum(-0.5 * self.negative, LARGEST_EXPONENT))

    @classmethod
    def at(cls, t: FloatArray, offsets: IntArray, labels: NDArray[np.int8]) -> BagTerms:
        """Evaluate bags (eqs 20 to 23); one without instances says nothing."""
        sizes = np.diff(offsets)
        full = sizes > 0
        log_negative = np.zeros(labels.shape)
        log_chance, hazard = log_cdf_and_mills(-t)
        starts = offsets[:-1][full]
        if starts.size:
            log_negative[full] = np.add.reduceat(log_chance, starts, axis=0)
        positive = (labels == 1) & full[:, None]
        far = positive & (-log_negative < SMALL)
        safe = np.where(positive & ~far, -log_negative, 1.0)
        value = np.where(positive, log1mexp(safe), np.where(labels == 0, log_negative, 0.0))
        with np.errstate(over="ignore"):
            weight = np.where(positive, 1.0 / np.expm1(safe), np.where(labels == 0, -1.0, 0.0))
        slope = np.repeat(weight, sizes, axis=0) * hazard
        for b, c in np.argwhere(far):
            rows = slice(offsets[b], offsets[b + 1])
            value[b, c], slope[rows, c] = _far(t[rows, c])
        return cls(value, slope, hazard, log_negative)


def _far(t: FloatArray) -> tuple[float, FloatArray]:
    """Return log(-expm1 l) and w h where -l underflows: -l = sum Phi(t_i), h/Phi = phi/Phi."""
    log_chance = log_ndtr(t)
    top = log_chance.max()
    share = np.exp(log_chance - top)
    total = float(share.sum())
    return float(top + np.log(total)), share / total * inverse_mills(t)


@dataclass(frozen=True)
class Sums(Stats, kind="bags/mil_gp.Sums"):
    """What a partition returns at the points [K, C, P].

    Attributes
    ----------
    value
        log p(Y | w), [K, C].
    gradient
        [K, C, P].
    matrix
        Packed, that of `PointsWithGram` or `PointsWithCurvature`; [0] where none is wanted.
    """

    value: FloatArray
    gradient: FloatArray
    matrix: FloatArray


@dataclass(frozen=True)
class Points(State, kind="bags/mil_gp.Points"):
    """Points [K, C, P] at which the likelihood and its gradient are evaluated.

    Of kernel values and classes that are not ``active``, [K, C], they stay 0.
    """

    features: FeatureMap
    points: FloatArray
    active: BoolArray

    def sums(self, batch: Batch) -> Sums:
        """Evaluate a partition."""
        value, gradient = np.zeros(self.points.shape[:2]), np.zeros(self.points.shape)
        sums, which = Sums(value, gradient, self.matrix(batch)), self.features.which
        kernel, of = np.nonzero(self.active)
        for block in CACHE.blocks(batch, self.features):
            # Kernel values of one length have the same columns, which are read once for all.
            for length in np.unique(which[kernel]):
                own = np.flatnonzero(which[kernel] == length)
                for first in range(0, own.size, AT_ONCE):
                    some = own[first : first + AT_ONCE]
                    _add_block(sums, block, self.features, self.points, kernel[some], of[some])
        return sums

    def matrix(self, batch: Batch) -> FloatArray:
        """Return what is summed besides."""
        return np.zeros(0)


@dataclass(frozen=True)
class PointsWithGram(Points, kind="bags/mil_gp.PointsWithGram"):
    """The first points, with what the bound's precision is made of."""

    def matrix(self, batch: Batch) -> FloatArray:
        """Return phi'phi/s^2 over the instances of bags with a label in some class, [K, ...]."""
        features, size = self.features, self.features.n_columns
        total = np.zeros((features.n_kernels, size * (size + 1) // 2))
        for block in CACHE.blocks(batch, features):
            for k, weights in enumerate(features.weights):
                columns = block.columns[features.which[k]]
                half = (columns / block.deviation(features, k)[:, None])[known_rows(block)]
                total[k] += pack((half.T @ half) * (weights[:, None] * weights))
        return total


@dataclass(frozen=True)
class PointsWithCurvature(Points, kind="bags/mil_gp.PointsWithCurvature"):
    """The modes, with Gauss-Newton's matrices there."""

    def matrix(self, batch: Batch) -> FloatArray:
        """Return those of every kernel value and class, [K, C, ...]."""
        features, points, size = self.features, self.points, self.features.n_columns
        total = np.zeros((*points.shape[:2], size * (size + 1) // 2))
        for block in CACHE.blocks(batch, features):
            for k, weights in enumerate(features.weights):
                columns, s = block.columns[features.which[k]], block.deviation(features, k)
                t = (block.mean[:, None] + columns @ (points[k] * weights).T) / s[:, None]
                terms = BagTerms.at(t, block.offsets, block.labels)
                for c in range(points.shape[1]):
                    own = _curvature(columns, s, t[:, c], terms, block, c)
                    total[k, c] += pack(own * (weights[:, None] * weights))
        return total


def known_rows(block: Block) -> BoolArray:
    """Say which rows are of bags with a label in some class, [n]."""
    return np.repeat((block.labels >= 0).any(axis=1), np.diff(block.offsets))


def _add_block(
    sums: Sums,
    block: Block,
    features: FeatureMap,
    points: FloatArray,
    kernel: IntArray,
    of: IntArray,
) -> None:
    """Add a block's terms at t (eq 19) to searches: kernel values of one length [S], classes [S].

    In place.
    """
    columns = block.columns[features.which[kernel[0]]]
    values, which = np.unique(kernel, return_inverse=True)
    s = np.column_stack([block.deviation(features, k) for k in values])[:, which]
    weights = features.weights[kernel]
    t = columns @ (points[kernel, of] * weights).T
    t += block.mean[:, None]
    t /= s
    terms = BagTerms.at(t, block.offsets, block.labels[:, of])
    sums.value[kernel, of] += terms.value.sum(axis=0)
    sums.gradient[kernel, of] += ((terms.slope / s).T @ columns) * weights


def _curvature(
    columns: FloatArray, s: FloatArray, t: FloatArray, terms: BagTerms, block: Block, c: int
) -> FloatArray:
    """Return Gauss-Newton's matrix of one class before weights, [P, P].

    w (1 + w) q q' = exp(-l) (w q)(w q)', which does not overflow where w does.
    """
    sizes = np.diff(block.offsets)
    negative = np.repeat(block.labels[:, c] == 0, sizes)
    h, a_h = terms.hazard[negative, c], -terms.slope[negative, c]
    bend = np.maximum(a_h * (h - t[negative]), 0.0) / s[negative] ** 2
    below = columns[negative]
    matrix: FloatArray = (below * bend[:, None]).T @ below
    full = np.flatnonzero(sizes > 0)
    if full.size:
        slope = (terms.slope[:, c] / s)[:, None]
        pulls = np.add.reduceat(columns * slope, block.offsets[full])
        positive = block.labels[full, c] == 1
        pull = pulls[positive] * terms.root_odds[full[positive], c][:, None]
        matrix += pull.T @ pull
    return matrix


_KNOWN: Memory[Batch] = Memory()


def with_known_instances(batch: Batch) -> Batch:
    """Return a partition whose instances with a known label are bags; itself where it has none."""
    if not instances_of(batch).known.size:
        return batch
    return _KNOWN.of(batch, b"known", lambda: split_known(batch))


def split_known(batch: Batch) -> Batch:
    """Return other bags: those of ``batch`` first, then one for each known instance.

    Where there are several classes, a known instance has its label in those in which its bag has
    one; in all where the bag has none.
    """
    data, of, labels = bags_of(batch), instances_of(batch), labels_of(batch)
    bag, known = of.bag, of.known
    some = np.flatnonzero((known != UNLABELLED) & ~(labels == 0).any(axis=1)[bag])
    number = bag.copy()
    number[some] = data.n_bags + np.arange(some.size)
    counts = (labels != UNLABELLED) | (labels == UNLABELLED).all(axis=1)[:, None]
    own = np.where(counts[bag[some]], known[some, None], np.int8(UNLABELLED)).astype(np.int8)
    rest = labels.copy()
    rest[np.unique(bag[some][known[some] == 1])] = UNLABELLED
    every = np.concatenate([rest, own])
    rows = Instances.from_rows(number, of.features, data.n_bags + some.size)
    features = np.concatenate([data.bag_features, data.bag_features[bag[some]]])
    found = Bags((rows,), every[:, 0], features, data.partition)
    return MultiLabelBags(found, every) if isinstance(batch, MultiLabelBags) else found
