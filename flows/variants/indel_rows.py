"""One partition's insertions and deletions as rows of their table and as records of a VCF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows.variants.counts import Loci
from flows.variants.indel_evidence import judge_indels
from flows.variants.loci import stated_rates, told_of
from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.bases import BASES
from vbmodels.variants.batch import Counts, Units
from vbmodels.variants.indels import Indels, names_of_kinds
from vbmodels.variants.read_filters import LEAST_READS, on_one_strand


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


def _by_strand(of: Units, batch: Counts, loci: Loci, found: Indels) -> tuple[IntArray, ...] | None:
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
    of: Units, called: BoolArray, batch: Counts, loci: Loci, found: Indels,
    settings: VariantSettings,
) -> tuple[list[list[str]], FloatArray]:  # fmt: skip
    """Return the names of the filters that take each unit, and z of its distance to reads' ends."""
    names: list[list[str]] = [[] if c else ["q_value"] for c in called]
    at = np.flatnonzero(called)
    if settings.controls:
        for i in at[of.depth[at][:, ~of.case].sum(axis=1) == 0]:
            names[i].append("no_control")
    strands = _by_strand(of, batch, loci, found)
    judged = settings.strand == "both" and "strand_bias" not in settings.skipped_filters
    if strands is not None and judged and at.size:
        a, b, c, d = (s[at][:, of.case].sum(axis=1) for s in strands)
        enough = c + d >= LEAST_READS
        for i in at[on_one_strand(a, b, c, d, settings.filter_level) & enough]:
            names[i].append("strand_bias")
    z = np.full(len(called), np.nan)
    by_reads, z[at] = judge_indels(of, at, batch, loci, found, settings.filter_level)
    for name, taken in by_reads.items():
        for i in at[taken] if name not in settings.skipped_filters else ():
            names[i].append(name)
    return names, z


def table_of(
    of: Units, loci: Loci, batch: Counts, found: Indels, case: FloatArray, control: FloatArray,
    prob: FloatArray, q_value: FloatArray, called: BoolArray, filters: list[list[str]],
) -> list[Any]:  # fmt: skip
    """Return the columns of the indels' table."""
    pairs = [alleles_of(of, i, batch, found) for i in range(len(of))]
    kinds = np.array(names_of_kinds())
    columns: list[Any] = [
        pa.array(loci.chrom[of.location].tolist(), pa.string()),
        pa.array(loci.pos[of.location]),
        pa.array([ref for ref, _ in pairs], pa.string()),
        pa.array([alt for _, alt in pairs], pa.string()),
        pa.array(kinds[of.kind].tolist(), pa.string()),
    ]
    for rate, member in ((case, of.case), (control, ~of.case)):
        columns += [pa.array(rate[:, i]) for i in (0, 1, 3, 4)]
        columns += [pa.array(v[:, member].sum(axis=1)) for v in (of.depth, of.alt_reads)]
    columns += [pa.array(prob), pa.array(q_value), pa.array(called)]
    columns.append(pa.array([";".join(names) or "PASS" for names in filters], pa.string()))
    return columns


def call_of(
    i: int, case: FloatArray, control: FloatArray, prob: float, q_value: float, log_odds: float,
    filters: list[str], read_end_z: float, *, of: Units, loci: Loci, batch: Counts, found: Indels,
    settings: VariantSettings,
) -> dict[str, Any]:  # fmt: skip
    """Return what `flows.variants.vcf.write_vcf` and the report take of a call."""
    j = int(of.location[i])
    one = of.take(slice(i, i + 1))
    ref, alt = alleles_of(of, i, batch, found)
    ref_reads = reference_reads(one, batch, found)[0]
    strands = _by_strand(one, batch, loci, found) if settings.strand == "both" else None

    def said(member: BoolArray, called: bool) -> dict[str, Any]:
        return {
            "depth": int(one.depth[0, member].sum()),
            "ref_reads": int(ref_reads[member].sum()),
            "reads": int(one.alt_reads[0, member].sum()),
            "strands": None if strands is None
            else tuple(int(s[0, member].sum()) for s in strands),
            "called": called,
        }  # fmt: skip

    share = [
        one.alt_reads[0, member].sum() / max(one.depth[0, member].sum(), 1)
        for member in (of.case, ~of.case)
    ]
    row: dict[str, Any] = {
        "chrom": str(loci.chrom[j]),
        "pos": int(loci.pos[j]),
        "ref": ref,
        "alt": alt,
        "qual": float(10.0 / np.log(10.0) * np.logaddexp(0.0, log_odds)),
        "filters": filters,
        "P": prob,
        "LFDR": 1.0 - prob,
        "QV": q_value,
        "RPZ": None if np.isnan(read_end_z) else round(read_end_z, 3),
        "HRUN": int(found.run[j]),
        **stated_rates(case, control, settings),
        "samples": {},
        "replicates": {},
    }
    for name, member, of_panel in told_of(of, settings):
        single = [np.arange(len(member)) == r for r in np.flatnonzero(member) if not of_panel]
        row["samples"][name] = {
            **said(member, name == "case" and bool(share[0] > share[1])),
            "replicates": [said(alone, False) for alone in single],
        }
        reads, depth = one.alt_reads[0, member], one.depth[0, member]
        shown = row["replicates"].setdefault("panel" if of_panel else name, [])
        shown += (
            [(int(reads.sum()), int(depth.sum()))]
            if of_panel
            else list(zip(reads.tolist(), depth.tolist(), strict=True))
        )
    return row
