"""One partition's insertions and deletions as rows of their table and as records of a VCF.

Filters of called insertions and deletions by their reads, compared with the reference's.

A read of the allele shows the reference's base at the anchor, so its sums are a part of that
base's; what is left when all alleles' of the anchor are taken off is of reads without any of them.
An aligner writes an indel only where bases follow on both sides: true ones lie further from the
ends of their reads than the reference does, never nearer, and `read_end` takes them the less.
"""

from __future__ import annotations

import numpy as np

from flows.variants.calls.shown_rows import Strands
from flows.variants.input.counts import Loci
from flows.variants.schema import READ_SUMS
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.counts import BASES, Counts, Units
from vbmodels.variants.indels import Indels
from vbmodels.variants.read_filters import (
    LEAST_READS,
    LEAST_REFERENCE,
    AlleleReads,
    apply_filters,
    on_one_strand,
)

FILTERS = ("read_end", "low_mapq")
_KEYS = ("to_end", "to_end_2", "mapping_quality", "mapping_quality_2")
_AT = [list(READ_SUMS).index(name) for name in _KEYS]


def filter_indels(
    of: Units, at: IntArray, batch: Counts, loci: Loci, found: Indels, level: float
) -> tuple[dict[str, BoolArray], FloatArray]:
    """Say which alleles lie near the ends of reads, or in reads mapped badly, in the case.

    Where the case has hardly a read of the reference, against those of the control.

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
    taken, z = apply_filters(own, _reads(other[:, 0], other[:, 1:]), level)
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


def alleles_of(of: Units, i: int, batch: Counts, found: Indels) -> tuple[str, str]:
    """Return REF and ALT of a unit as a VCF has them: with the base before."""
    e = int(of.alt[i])
    anchor = BASES[int(batch.ref[of.location[i]])]
    whole = anchor + str(found.bases[e])
    return (anchor, whole) if found.length[e] > 0 else (whole, anchor)


def reference_reads(of: Units, batch: Counts, found: Indels) -> IntArray:
    """Return the reads that show the reference at the anchor and no indel there, [U, R]."""
    ref = batch.ref[of.location].astype(int)
    shown = batch.counts[of.location, :, ref].astype(np.int64)
    return np.asarray(np.maximum(shown - _of_anchor(found.reads, of, found), 0))


def _of_anchor(reads: IntArray, of: Units, found: Indels) -> IntArray:
    """Return the reads of all alleles of each unit's anchor, [U, R]."""
    total = np.zeros((len(found.run), reads.shape[1]), np.int64)
    np.add.at(total, found.location, reads)
    return total[of.location]


def by_strand(of: Units, batch: Counts, loci: Loci, found: Indels) -> Strands | None:
    """Return reads of reference and allele, forward and reverse of each, [U, R]."""
    if loci.forward is None:
        return None
    ref = batch.ref[of.location].astype(int)
    forward = loci.forward[of.location, :, ref] - _of_anchor(found.forward, of, found)
    forward = np.maximum(forward, 0)
    reverse = np.maximum(reference_reads(of, batch, found) - forward, 0)
    own = found.forward[of.alt]
    return forward, reverse, own, of.alt_reads - own


def taken_by(
    of: Units, called: BoolArray, batch: Counts, loci: Loci, found: Indels, strands: Strands | None,
    level: float,
) -> tuple[dict[str, BoolArray], FloatArray]:  # fmt: skip
    """Return which of the called alleles each filter takes, [C], and z of all, [U].

    That is of the distance to the ends of reads.
    """
    at, taken = np.flatnonzero(called), {}
    if strands is not None and at.size:
        a, b, c, d = (s[at][:, of.case].sum(axis=1) for s in strands)
        taken["strand_bias"] = on_one_strand(a, b, c, d, level) & (c + d >= LEAST_READS)
    z = np.full(len(called), np.nan)
    by_reads, z[at] = filter_indels(of, at, batch, loci, found, level)
    return taken | by_reads, z
