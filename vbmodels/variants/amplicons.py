"""Amplicons that are read on one strand or on both, and what oxidation then looks like.

A base that was oxidised in the molecule that is read shows G>T on forward reads and C>A on reverse
ones; where reads of both strands are counted together, either is half as much more frequent.
"""

from __future__ import annotations

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.batch import Counts, Units, units
from vbmodels.variants.simulate import Truth

FORWARD, BOTH, REVERSE = range(3)


def strand_of(n_locations: int, length: int) -> IntArray:
    """Return on which strand the reads of locations lie, [J]: by turns, ``length`` at a time.

    >>> strand_of(7, 2).tolist()
    [0, 0, 1, 1, 2, 2, 0]
    """
    return np.arange(n_locations) // length % 3


def by_strand(kind: IntArray, which: IntArray, oxidised: list[int], factor: float) -> FloatArray:
    """Return the factors of errors on the reads of either strand, [J, K, 2].

    Where a location has reads of one strand, that strand's stands twice.

    Parameters
    ----------
    kind, which
        [J, K] substitutions, and [J] strands as `strand_of` has them.
    oxidised, factor
        The substitution that is more frequent on forward reads, and that on reverse ones; by what.
    """
    factors = np.stack([np.where(kind == one, factor, 1.0) for one in oxidised], axis=-1)
    factors[which == FORWARD, :, 1] = factors[which == FORWARD, :, 0]
    factors[which == REVERSE, :, 0] = factors[which == REVERSE, :, 1]
    return np.asarray(factors)


def forward_reads(
    rng: np.random.Generator, counts: Counts, truth: Truth, which: IntArray,
    oxidised: list[int], factor: float,
) -> IntArray:  # fmt: skip
    """Draw how many of the reads lie on the forward strand, [J, R, 4].

    All, none, or half; of the case's errors that `by_strand` makes more frequent on one strand, as
    many more there. Half of a variant's, whose errors are few beside it.
    """
    share = np.full(counts.counts.shape, 0.5)
    of: Units = units(counts)
    factors = by_strand(of.kind[:, None], which[of.location], oxidised, factor)[:, 0]
    more = factors[:, 0] / factors.sum(axis=1)
    share[of.location[:, None], np.flatnonzero(counts.case), of.alt[:, None]] = more[:, None]
    share[truth.location, :, truth.alt] = 0.5
    share[which == FORWARD], share[which == REVERSE] = 1.0, 0.0
    return rng.binomial(counts.counts, share).astype(np.int32)
