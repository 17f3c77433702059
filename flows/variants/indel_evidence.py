"""Filters of called insertions and deletions by their reads, beside those of the reference.

A read of the allele shows the reference's base at the anchor, so its sums are a part of that
base's; what is left when all alleles' of the anchor are taken off is of reads without any of them.
An aligner writes an indel only where bases follow on both sides: true ones lie further from the
ends of their reads than the reference does, never nearer, and `read_end` takes them the less.
"""

from __future__ import annotations

import numpy as np

from flows.variants.counts import Loci
from flows.variants.schema import READ_SUMS
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.batch import Counts, Units
from vbmodels.variants.indels import Indels
from vbmodels.variants.read_filters import LEAST_REFERENCE, AlleleReads, judge

FILTERS = ("read_end", "low_mapq")
_KEYS = ("to_end", "to_end_2", "mapping_quality", "mapping_quality_2")
_AT = [list(READ_SUMS).index(name) for name in _KEYS]


def judge_indels(
    of: Units, at: IntArray, batch: Counts, loci: Loci, found: Indels, level: float
) -> tuple[dict[str, BoolArray], FloatArray]:
    """Say which alleles lie near the ends of reads, or in reads mapped badly, in the case.

    Where the case has hardly a read of the reference, beside those of the control.

    Parameters
    ----------
    of, at
        The alleles, and which of them are called.
    batch, loci, found
        The partition's counts, what is known of their reads, and its alleles.
    level
        Largest probability with which a filter takes a true variant.

    Returns
    -------
    taken
        By the filter's name, [C]; none where nothing is known of the reads.
    z
        [C] z of the distance to the read's end against the reference's; NaN if not known.
    """
    if found.sums is None or loci.sums is None or not len(at):
        return {}, np.full(len(at), np.nan)
    own = _reads(
        np.array([found.reads[e, of.case].sum() for e in of.alt[at]]),
        np.array([found.sums[e][of.case].sum(axis=0) for e in of.alt[at]]),
    )
    case, control = (
        np.array([_reference(int(j), batch, loci, found, member) for j in of.location[at]])
        for member in (of.case, ~of.case)
    )
    few = (case[:, 0] < LEAST_REFERENCE)[:, None]
    other = np.where(few & (control[:, :1] > 0), control, case)
    taken, z = judge(own, _reads(other[:, 0], other[:, 1:]), level)
    return {name: taken[name] for name in FILTERS}, z


def _reference(j: int, batch: Counts, loci: Loci, found: Indels, member: BoolArray) -> IntArray:
    """Return number and sums [5] of some replicates' reads with the reference and no allele."""
    known = loci.sums_of(j)
    assert found.sums is not None
    if known is None:
        return np.zeros(1 + len(_KEYS), np.int64)
    here = slice(*np.searchsorted(found.location, (j, j + 1)))
    ref = int(batch.ref[j])
    n = batch.counts[j, member, ref].sum() - found.reads[here][:, member].sum()
    sums = known[member, ref][:, _AT].sum(axis=0) - found.sums[here][:, member].sum(axis=(0, 1))
    return np.maximum(np.array([n, *sums], np.int64), 0)


def _reads(n: IntArray, sums: IntArray) -> AlleleReads:
    none = np.zeros(len(n), np.int64)
    of = dict(zip(_KEYS, sums.T, strict=True))
    return AlleleReads(
        n=n, base_quality=none, base_quality_2=none, near_indel=none, many_mismatches=none,
        no_base_quality=none, **of,
    )  # fmt: skip
