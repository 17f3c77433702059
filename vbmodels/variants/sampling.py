"""Which locations and units are evaluated, and how often each counts.

Variants and sites that differ between samples are rare, and only they show how rare: a few
thousand locations at random hold none of them. So locations whose samples differ more are taken
with a higher probability p_j, and each of those that are taken stands for 1 / p_j
(Horvitz and Thompson 1952). With T(z) the number of locations that differ by z or more,

    p(z) = max(k, min(1, c / T(z))),

every e-fold of the tail has about c locations in the sample, and k is the share of all the others.
The fit's objective is k times the estimated sum over all locations: a location of the bulk then
weighs 1, as much as it informs, and one that differs k / p_j.

Of the indels' units most are slips that no read shows, at depths that hardly differ: `Repeated`
evaluates those that are alike once and adds their sums as often as they come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.algorithm import Model
from vbmodels.core.fit import InProcess
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.counts import Counts, Units
from vbmodels.variants.indels import UNSEEN, Indels

LEVELS = 96
_PER_DOUBLING = 8.0  # levels, of 1 + z
_STEP = 4.0  # probabilities are powers of it: each weight is a pass of its own
_OF_BULK = 0.5  # of the locations that are wanted


def differing(batch: Counts, indels: Indels | None = None) -> IntArray:
    """Return how much case and control differ at each location, as a level from 0, [J].

    z = 2 |sqrt(p_case) - sqrt(p_control)| / sqrt(1 / n_case + 1 / n_control), which is about
    standard normal for counts alike (Anscombe 1948), at the allele where it is largest. Without a
    control z = 2 sqrt(r). The level is floor(8 log2(1 + z)).

    >>> counts = np.array([[[990, 10, 0, 0], [999, 1, 0, 0]]], np.int32)
    >>> differing(Counts(counts, np.zeros(1, np.int8), np.array([True, False]))).tolist()
    [15]
    """
    depth = batch.depth
    z = _differences(np.moveaxis(batch.counts, 2, 1), depth[:, None], batch.case)
    z[np.arange(len(batch)), batch.ref] = 0.0
    most = np.where(batch.ref >= 0, z.max(axis=1, initial=0.0), 0.0)
    if indels is not None:
        np.maximum.at(
            most, indels.location, _differences(indels.reads, depth[indels.location], batch.case)
        )
    return np.minimum(np.floor(_PER_DOUBLING * np.log2(1.0 + most)), LEVELS - 1).astype(np.int64)


def _differences(reads: NDArray[np.integer], depth: IntArray, case: BoolArray) -> FloatArray:
    """Return z of reads [..., R] at depths [..., R]; 0 where a sample has none."""
    root = variance = np.zeros(depth.shape[:-1])
    for sign, sample in ((1.0, case), (-1.0, ~case)):
        if sample.any():
            n = depth[..., sample].sum(axis=-1, dtype=float)
            share = np.where(n > 0.0, reads[..., sample].sum(axis=-1) + 0.375, np.nan) / np.maximum(
                n, 1.0
            )
            root = root + sign * np.sqrt(share)
            variance = variance + 1.0 / np.maximum(n, 1.0)
    return np.asarray(np.nan_to_num(2.0 * np.abs(root) / np.sqrt(variance)))


def numbers(level: IntArray) -> IntArray:
    """Return how many locations are of each level, [LEVELS]; they add over partitions."""
    return np.bincount(level, minlength=LEVELS)


def probabilities(number: IntArray, wanted: float) -> FloatArray:
    """Return with which probability a location of each level is taken, [LEVELS].

    ``number``: [LEVELS] locations of all partitions. ``wanted``: how many are to be taken, about;
    with no more than that all are.
    """
    whole = float(number.sum())
    if whole <= wanted:
        return np.ones(LEVELS)
    least = _OF_BULK * wanted / whole
    tail = np.maximum(np.cumsum(number[::-1])[::-1], 1.0)

    def at(c: float) -> FloatArray:
        power = np.floor(np.log(np.clip(c / tail, least, 1.0)) / np.log(_STEP))
        return np.asarray(np.maximum(_STEP**power, least))

    low, high = 0.0, wanted
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) @ number <= wanted else (low, middle)
    return at(low)


_STEPS = 2  # a doubling, to which depths are rounded


@dataclass(frozen=True)
class Repeated:
    """What a model computes on batches of units and how often they come; its statistics add up."""

    model: Model

    def observe(self, batch: tuple[Units, int]) -> Any:
        """Return the statistics before the first sweep."""
        return self.model.observe(batch[0]).scaled(batch[1])

    def local_step(self, q: Any, batch: tuple[Units, int], local: Any) -> Any:
        """Return the local parameters of one of each."""
        return self.model.local_step(q, batch[0], local)

    def suff_stats(self, q: Any, batch: tuple[Units, int], local: Any) -> Any:
        """Return the statistics of all."""
        return self.model.suff_stats(q, batch[0], local).scaled(batch[1])


def alike(alleles: Units) -> tuple[Units, IntArray]:
    """Return units of a kind and weight, with reads at about the same depths, once, and how many.

    Depths are a sample's mean, rounded to the next of two steps a doubling; no reads of the allele
    are expected, so that depth says only how sure it is that there are none.
    """
    depth = np.zeros_like(alleles.depth)
    for member in (alleles.case, ~alleles.case):
        if member.any():
            mean = alleles.depth[:, member].mean(axis=1)
            steps = np.rint(_STEPS * np.log2(np.maximum(mean, 1.0))) / _STEPS
            rounded = np.where(mean < 1.0, 0, np.rint(2.0**steps)).astype(np.int64)
            depth[:, member] = rounded[:, None]
    keys = np.column_stack([alleles.kind, depth])
    if alleles.weight is not None:
        keys = np.column_stack([keys, alleles.weight])
    _, first, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    return replace(alleles.take(first), depth=depth[first]), count


def sums_of(model: Model, alleles: Units) -> InProcess:
    """Return what sums over the indels' units: those that no read shows by kind and depth."""
    unseen = alleles.alt == UNSEEN
    few, times = alike(alleles.take(unseen))
    repeated: Any = Repeated(model)
    several = [(few.take(times == n), int(n)) for n in np.unique(times)]
    return InProcess(repeated, [(alleles.take(~unseen), 1), *several])
