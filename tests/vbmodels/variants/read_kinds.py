"""Draws of what reads are like, to measure how often a filter takes a true variant."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import IntArray
from vbmodels.variants.read_filters import AlleleReads


@dataclass(frozen=True)
class Kind:
    """What the reads at a location are like."""

    base_qualities: Mapping[int, float]
    mapping_qualities: Mapping[int, float]
    length: int = 150
    near_indel: float = 0.002
    mismatches: float = 0.005


_BINNED = {12: 0.04, 25: 0.06, 37: 0.9}
_SKEWED = {2: 0.1, 38: 0.9}
KINDS = {
    "good": Kind(_BINNED, {60: 0.99, 40: 0.01}),
    "mixed": Kind({20: 0.2, 30: 0.3, 41: 0.5}, {60: 0.6, 27: 0.2, 20: 0.2}, 100, 0.1, 0.1),
    "skewed": Kind(_SKEWED, {60: 0.93, 20: 0.07}, 75, 0.03, 0.03),
    "next to an indel": Kind(_BINNED, {60: 0.9, 48: 0.1}, 150, 0.5, 0.05),
    "hypervariable": Kind(_BINNED, {60: 0.8, 30: 0.2}, 250, 0.05, 0.4),
    "amplicon": Kind(_BINNED, {60: 1.0}, 0),
}
"""Kinds of locations, of which none is an artefact."""


def draw_reads(rng: np.random.Generator, kind: Kind, alleles: int, n: int) -> dict[str, IntArray]:
    """Draw n reads for each of some alleles; by property, [alleles, n]."""
    shape = (alleles, n)

    def of(values: Mapping[int, float]) -> IntArray:
        return np.asarray(rng.choice(list(values), shape, p=list(values.values())), np.int64)

    if kind.length:
        place = rng.integers(0, kind.length, shape)
        to_end = np.minimum(place, kind.length - 1 - place)
    else:
        to_end = np.where(rng.random(shape) < 0.3, 4, 61)
    return {
        "base_quality": of(kind.base_qualities),
        "mapping_quality": of(kind.mapping_qualities),
        "to_end": to_end,
        "near_indel": (rng.random(shape) < kind.near_indel).astype(np.int64),
        "mismatches": (rng.random(shape) < kind.mismatches).astype(np.int64),
    }


def summed(reads: Mapping[str, IntArray]) -> AlleleReads:
    """Sum what reads are like over the reads of each allele."""
    totals = {
        f"{name}{power}": (reads[name] ** (2 if power else 1)).sum(axis=1)
        for name in ("base_quality", "mapping_quality", "to_end")
        for power in ("", "_2")
    }
    missing = np.zeros(len(reads["to_end"]), np.int64)
    n = np.full(len(reads["to_end"]), reads["to_end"].shape[1])
    near, many = reads["near_indel"].sum(axis=1), reads["mismatches"].sum(axis=1)
    return AlleleReads(
        n=n, near_indel=near, many_mismatches=many, no_base_quality=missing, **totals
    )
