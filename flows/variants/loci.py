"""One partition's rows of the loci table, its calls and their filters, from its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from flows.variants.calls import CHUNK, Decision, Evidence
from flows.variants.counts import Loci
from flows.variants.report import Mixing, PartCalls
from flows.variants.roles import mixed, roles_of
from flows.variants.schema import LOCI, READ_SUMS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.bases import BASES
from vbmodels.variants.batch import Counts, Units, units
from vbmodels.variants.calls import local_fdr
from vbmodels.variants.posterior import LEVELS, OF_TABLES, rates
from vbmodels.variants.read_filters import (
    LEAST_READS,
    LEAST_REFERENCE,
    AlleleReads,
    judge,
    on_one_strand,
)
from vbmodels.variants.spectrum import control_spectrum, spectrum_p_value
from vbmodels.variants.two_groups import TwoGroups

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


def judge_reads(of: Units, at: IntArray, batch: Counts, loci: Loci, level: float) -> Judged:
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
    """
    j, alt = of.location[at], of.alt[at]
    ref = batch.ref[j].astype(int)
    rows = np.arange(len(at))
    taken: dict[str, BoolArray] = {}
    z = np.full(len(at), np.nan)
    if not len(at):
        return Judged(taken, z)
    if loci.forward is not None:
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


MOST_DEPTHS = 8000
"""Points of the report's plots of depth, of all partitions together."""


def conclude_part(
    model: Any, q: Any, batch: Counts, loci: Loci, evidence: Evidence, decision: Decision,
    settings: VariantSettings, points: int,
) -> tuple[pa.Table, PartCalls]:  # fmt: skip
    """Return one partition's rows of the loci table and its calls.

    Parameters
    ----------
    model, q
        The fit.
    batch, loci, evidence
        The partition's counts, where they are, and their evidence.
    decision
        The decision over all partitions.
    settings
        The run's.
    points
        Most locations whose depth the report draws.
    """
    if isinstance(model, TwoGroups):
        of = units(batch)
        score = evidence.score
        chosen = _shown(of, score, decision)
        of, score = of.take(chosen), score[chosen]
        prob = 1.0 - local_fdr(score, decision.pi)
        log_odds = score + np.log(decision.pi) - np.log1p(-decision.pi)
        called = score >= decision.least
        case, control = rates_of(model, q, decision, of, called)
    else:
        of, score = _by_location(batch, settings), evidence.score
        prob, log_odds = 1.0 / (1.0 + np.exp(-score)), score
        called = score >= decision.least
        case, control = evidence.rates()
    at = np.flatnonzero(called)
    judged = judge_reads(of, at, batch, loci, settings.filter_level)
    filters = _filters(of, batch, called, judged, settings)
    q_value = decision.q_of(score)
    table = _table(of, loci, batch, case, control, prob, q_value, called, filters, settings)
    calls = tuple(
        _call(of, loci, batch, i, case, control, prob, q_value, log_odds, filters, z, settings)
        for i, z in zip(at.tolist(), judged.read_end_z, strict=True)
    )
    histogram = np.histogram(np.clip(q_value, 0.0, 1.0), 40, (0.0, 1.0))[0]
    names = tuple(dict.fromkeys(loci.chrom.tolist()))
    return table, PartCalls(
        len(loci.pos), len(evidence.score), names, calls, histogram, _depths(batch, loci, points),
        None if evidence.mixing is None else Mixing.of(evidence.mixing),
        loci.forward is not None, loci.sums is not None, mixed=mixed(batch, settings),
    )  # fmt: skip


def _shown(of: Units, score: FloatArray, decision: Decision) -> IntArray:
    """Return the best unit of every location and any other that is called, in order."""
    best = score.reshape(-1, 3) + 1e-9 * of.alt_reads[:, of.case].sum(axis=1).reshape(-1, 3)
    shown = np.zeros(len(of), bool)
    shown[3 * np.arange(len(best)) + best.argmax(axis=1)] = True
    return np.flatnonzero(shown | (score >= decision.least))


def rates_of(
    model: TwoGroups, q: Any, decision: Decision, of: Units, called: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean, sd and quantiles of every unit's rate in case and control, [U, 6] each.

    The outer two quantiles are for the VCF: NaN of what is not called.
    """
    at = model.anchored(replace(q, pi=decision.pi))
    found = np.full((2, len(of), 2 + len(LEVELS)), np.nan)
    for own, shown in ((called, slice(None)), (~called, OF_TABLES)):
        which, columns = np.flatnonzero(own), np.r_[:2, np.arange(2, found.shape[2])[shown]]
        for some in np.split(which, range(CHUNK, len(which), CHUNK)):
            pair = rates(model, at, model.rate_table(at, of.take(some)), LEVELS[shown])
            for into, r in zip(found, pair, strict=True):
                into[np.ix_(some, columns)] = np.column_stack([r.mean, r.sd, r.quantiles])
    return found[0], found[1]


def stated_rates(
    case: FloatArray, control: FloatArray, settings: VariantSettings
) -> dict[str, Any]:
    """Return what a VCF's INFO says of a call's rates, [6] each, as `rates_of` has them."""
    row: dict[str, Any] = {}
    for rate, mark in ((case, ""), (control, "C")):
        if mark and not settings.controls:
            continue
        row |= {
            f"{mark}MU": float(rate[0]),
            f"{mark}MUSD": float(rate[1]),
            f"{mark}MUCI": (float(rate[2]), float(rate[5])),
        }
    if settings.test == "two_groups":
        row |= {"AF": (row["MU"],), "AFCI": row["MUCI"]}
    return row


def _by_location(batch: Counts, settings: VariantSettings) -> Units:
    """Return one unit a location, with the allele that the case shows most.

    Where losses count too, with that whose share differs most from the control's.
    """
    of = units(batch)
    shown = of.alt_reads[:, of.case].sum(axis=1).astype(float)
    if settings.two_sided and settings.control:
        shown = np.abs(_share(of, of.case) - _share(of, ~of.case))
    most = shown.reshape(-1, 3).argmax(axis=1)
    return of.take(3 * np.arange(len(most)) + most)


def _share(of: Units, member: BoolArray) -> FloatArray:
    """Return the allele's share of the reads of some replicates together."""
    reads = of.alt_reads[:, member].sum(axis=1)
    return np.asarray(reads / np.maximum(of.depth[:, member].sum(axis=1), 1))


def _filters(
    of: Units, batch: Counts, called: BoolArray, judged: Judged, settings: VariantSettings
) -> list[list[str]]:
    found: list[list[str]] = [[] if c else ["q_value"] for c in called]
    at = np.flatnonzero(called)
    if settings.controls:
        depth = of.depth[:, ~of.case].sum(axis=1)
        for i in at[depth[at] == 0]:
            found[i].append("no_control")
    for name, taken in judged.taken.items():
        if name not in settings.skipped_filters:
            for i in at[taken]:
                found[i].append(name)
    if at.size and settings.test != "two_groups" and settings.control:
        errors = units(batch).alt_reads.reshape(-1, 3, batch.counts.shape[1]).swapaxes(1, 2)
        spectrum = control_spectrum(errors[:, ~batch.case])
        p = spectrum_p_value(errors[:, batch.case], spectrum)
        for i in at[p[at] > 0.05]:
            found[i].append("spectrum")
    return found


def _table(
    of: Units, loci: Loci, batch: Counts, case: FloatArray, control: FloatArray,
    prob: FloatArray, q_value: FloatArray, called: BoolArray, filters: list[list[str]],
    settings: VariantSettings,
) -> pa.Table:  # fmt: skip
    letters = np.array(list(BASES))
    columns: list[Any] = [
        pa.array([settings.case] * len(of), pa.string()),
        pa.array(loci.chrom[of.location].tolist(), pa.string()),
        pa.array(loci.pos[of.location]),
        pa.array(letters[batch.ref[of.location]].tolist()),
        pa.array(letters[of.alt].tolist()),
    ]
    for rate, member in ((case, of.case), (control, ~of.case)):
        columns += [pa.array(rate[:, i]) for i in (0, 1, 3, 4)]
        columns += [pa.array(v[:, member].sum(axis=1)) for v in (of.depth, of.alt_reads)]
    columns += [pa.array(prob), pa.array(q_value), pa.array(called)]
    columns.append(pa.array([";".join(f) or "PASS" for f in filters]))
    return pa.table(columns, schema=LOCI.arrow)


def _call(
    of: Units, loci: Loci, batch: Counts, i: int, case: FloatArray, control: FloatArray,
    prob: FloatArray, q_value: FloatArray, log_odds: FloatArray, filters: list[list[str]],
    read_end_z: float, settings: VariantSettings,
) -> dict[str, Any]:  # fmt: skip
    j = int(of.location[i])
    ref = int(batch.ref[j])
    one = of.take(slice(i, i + 1))
    gained = bool(_share(one, of.case)[0] > _share(one, ~of.case)[0])
    row: dict[str, Any] = {
        "chrom": str(loci.chrom[j]),
        "pos": int(loci.pos[j]),
        "ref": BASES[ref],
        "alt": BASES[int(of.alt[i])],
        "qual": float(10.0 / np.log(10.0) * np.logaddexp(0.0, log_odds[i])),
        "filters": filters[i],
        "P": float(prob[i]),
        "LFDR": float(1.0 - prob[i]) if settings.test == "two_groups" else None,
        "QV": float(q_value[i]),
        "RPZ": None if np.isnan(read_end_z) else round(float(read_end_z), 3),
        **stated_rates(case[i], control[i], settings),
        "samples": {},
        "replicates": {},
    }
    for name, member, of_panel in told_of(of, settings):
        row["samples"][name] = {
            "depth": int(of.depth[i, member].sum()),
            "ref_reads": int(batch.counts[j, member, ref].sum()),
            "reads": int(of.alt_reads[i, member].sum()),
            "strands": _strands(loci, batch, j, member, int(of.alt[i])),
            "replicates": [
                _one_replicate(loci, batch, j, int(r), int(of.alt[i]))
                for r in np.flatnonzero(member)
                if not of_panel
            ],
            # A loss leaves the genotype to the reads.
            "called": name == "case" and gained,
        }
        reads, depth = of.alt_reads[i, member], of.depth[i, member]
        shown = row["replicates"].setdefault("panel" if of_panel else name, [])
        shown += (
            [(int(reads.sum()), int(depth.sum()))]
            if of_panel
            else list(zip(reads.tolist(), depth.tolist(), strict=True))
        )
    return row


def told_of(of: Units, settings: VariantSettings) -> list[tuple[str, BoolArray, bool]]:
    """Return of whom a call says its reads: role, replicates, whether it is of the panel."""
    return [(r.name, r.own, r.of_panel) for r in roles_of(of.case, of.member, settings)]


def _one_replicate(loci: Loci, batch: Counts, j: int, r: int, alt: int) -> dict[str, Any]:
    """Return what a VCF says of one replicate's reads; its genotype is left to the reads."""
    reads = batch.counts[j, r]
    member = np.zeros(len(batch.case), bool)
    member[r] = True
    return {
        "depth": int(reads.sum()),
        "ref_reads": int(reads[batch.ref[j]]),
        "reads": int(reads[alt]),
        "strands": _strands(loci, batch, j, member, alt),
        "called": False,
    }


def _strands(
    loci: Loci, batch: Counts, j: int, member: BoolArray, alt: int
) -> tuple[int, ...] | None:
    """Return reads of reference and allele, forward and reverse of each; None if not known."""
    if loci.forward is None:
        return None
    forward = loci.forward[j, member].sum(axis=0)
    reverse = batch.counts[j, member].sum(axis=0) - forward
    ref = int(batch.ref[j])
    return tuple(int(n) for base in (ref, alt) for n in (forward[base], reverse[base]))


def _depths(batch: Counts, loci: Loci, points: int) -> tuple[tuple[str, int, float, float], ...]:
    """Return contig, position and mean depth of case and control at some locations."""
    depth = batch.counts.sum(axis=2)
    step = max(1, -(-len(loci.pos) // points))
    control = ~batch.case
    return tuple(
        (
            str(loci.chrom[j]),
            int(loci.pos[j]),
            float(depth[j, batch.case].mean()),
            float(depth[j, control].mean()) if control.any() else 0.0,
        )
        for j in range(0, len(loci.pos), step)
    )
