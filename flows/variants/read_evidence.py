"""Filters of calls by their reads: sums of the case's replicates, allele against reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.variants.counts import Loci
from flows.variants.schema import READ_SUMS
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.batch import Counts, Units
from vbmodels.variants.read_filters import (
    LEAST_READS,
    LEAST_REFERENCE,
    AlleleReads,
    judge,
    on_one_strand,
)

_AT = {name: i for i, name in enumerate(READ_SUMS)}
_JUDGED = (
    "base_quality", "base_quality_2", "mapping_quality", "mapping_quality_2", "to_end", "to_end_2",
    "near_indel", "many_mismatches", "no_base_quality",
)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """What the reads say of some calls.

    Attributes
    ----------
    taken
        By the name of each filter that could run, [C].
    read_end_z
        [C] z of the distance to the read's end against the reference's reads; NaN if not known.
    """

    taken: dict[str, BoolArray]
    read_end_z: FloatArray


def judge_reads(
    of: Units, at: IntArray, batch: Counts, loci: Loci, level: float, both_strands: bool
) -> Judged:
    """Compare the reads of called alleles with those of the reference, in the case.

    Where the case has hardly a read of the reference, with those of the control.

    Parameters
    ----------
    of, at
        The alleles, and which of them are called.
    batch, loci
        The partition's counts, and what is known of their reads.
    level
        Largest probability with which a filter takes a true variant.
    both_strands
        Whether reads of both strands were counted.
    """
    j, alt = of.location[at], of.alt[at]
    ref = batch.ref[j].astype(int)
    rows = np.arange(len(at))
    taken: dict[str, BoolArray] = {}
    z = np.full(len(at), np.nan)
    if not len(at):
        return Judged(taken, z)
    if loci.forward is not None and both_strands:
        forward = loci.forward[:, batch.case].sum(axis=1)[j]
        reverse = batch.counts[:, batch.case].sum(axis=1)[j] - forward
        taken["strand_bias"] = on_one_strand(
            forward[rows, ref], reverse[rows, ref], forward[rows, alt], reverse[rows, alt], level
        )
    if loci.sums is None:
        return Judged(taken, z)
    own = _gathered(j, alt, batch, loci, batch.case)
    other = _gathered(j, ref, batch, loci, batch.case)
    few = other.n < LEAST_REFERENCE
    if few.any() and (~batch.case).any():
        control = _gathered(j, ref, batch, loci, ~batch.case)
        other = AlleleReads(
            *(np.where(few, getattr(control, name), getattr(other, name))
              for name in ("n", *_JUDGED))
        )  # fmt: skip
    found, z = judge(own, other, level)
    return Judged(taken | found, z)


def _gathered(
    j: IntArray, base: IntArray, batch: Counts, loci: Loci, member: BoolArray
) -> AlleleReads:
    """Sum what is known of the reads of one base at each location over some replicates."""
    n = batch.counts[j][np.arange(len(j)), :, base][:, member].sum(axis=1).astype(np.int64)
    sums = np.zeros((len(j), len(READ_SUMS)), np.int64)
    for i, (location, b) in enumerate(zip(j, base, strict=True)):
        known = loci.sums_of(int(location))
        if known is None:
            n[i] = min(n[i], LEAST_READS - 1)  # nothing to judge by
        else:
            sums[i] = known[member, b].sum(axis=0)
    return AlleleReads(n, *(sums[:, _AT[name]] for name in _JUDGED))
