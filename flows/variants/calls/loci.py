"""One partition's rows of the loci table, its calls and their filters, from its evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import chdtrc

from flows.variants.calls.alleles import (
    Outcomes,
    Shown,
    Strands,
    call_of,
    filters_of,
    table_of,
)
from flows.variants.calls.calls import CHUNK, Decision, Evidence, Verdict, verdict_of
from flows.variants.calls.part_calls import Chains, Disagreeing, PartCalls
from flows.variants.calls.samples import mixed
from flows.variants.input.counts import Loci
from flows.variants.schema import LOCI, READ_SUMS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.variants.counts import BASES, Counts, Units, units
from vbmodels.variants.read_filters import (
    LEAST_READS,
    LEAST_REFERENCE,
    AlleleReads,
    apply_filters,
    control_spectrum,
    on_one_strand,
    spectrum_p_value,
)
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import LEVELS, OF_TABLES, rates

_AT = {name: i for i, name in enumerate(READ_SUMS)}
_COMPARED = (
    "base_quality",
    "base_quality_2",
    "mapping_quality",
    "mapping_quality_2",
    "to_end",
    "to_end_2",
    "near_indel",
    "many_mismatches",
    "no_base_quality",
)


_MEASURES = {"read_end": "to_end", "low_mapq": "mapping_quality", "low_baseq": "base_quality"}


@dataclass(frozen=True)
class Filtered:
    """What the reads say of some calls.

    ``taken``: by the name of each filter that could run, [C]. ``read_end_z``: [C] z of the distance
    to the read's end against the reference's reads; NaN if not known. ``reads``: the allele's and
    the reference's that were compared; none where nothing is known of them.
    """

    taken: dict[str, BoolArray]
    read_end_z: FloatArray
    reads: tuple[AlleleReads, ...] = ()

    def compared(self, i: int) -> dict[str, list[float | None]]:
        """Return by filter the means of one call's reads; None of too few."""
        means: dict[str, list[float | None]] = {}
        for name in (*_MEASURES, "near_indel", "many_mismatches") if self.reads else ():
            for r, least in zip(self.reads, (LEAST_READS, LEAST_REFERENCE), strict=True):
                n = int(r.n[i] - (name == "low_baseq") * r.no_base_quality[i])
                mean = float(getattr(r, _MEASURES.get(name, name))[i]) / max(n, 1)
                means.setdefault(name, []).append(mean if n >= least else None)
        return means


def filter_reads(
    alleles: Units, hits: IntArray, batch: Counts, loci: Loci, level: float
) -> Filtered:
    """Compare the reads of called alleles with those of the reference, in the case.

    Where the case has hardly a read of the reference, with those of the control.

    Parameters
    ----------
    alleles, hits
        The alleles, and which of them are called.
    batch, loci
        The partition's counts, and what is known of their reads.
    level
        Largest probability with which a filter takes a true variant.
    """
    j, alt = alleles.location[hits], alleles.alt[hits]
    ref = batch.ref[j].astype(int)
    rows = np.arange(len(hits))
    taken: dict[str, BoolArray] = {}
    z = np.full(len(hits), np.nan)
    if not len(hits):
        return Filtered(taken, z)
    if loci.forward is not None:
        forward = loci.forward[:, batch.case].sum(axis=1)[j]
        reverse = batch.counts[:, batch.case].sum(axis=1)[j] - forward
        taken["strand_bias"] = on_one_strand(
            forward[rows, ref], reverse[rows, ref], forward[rows, alt], reverse[rows, alt], level
        )
    if loci.sums is None:
        return Filtered(taken, z)
    allele = _gathered(j, alt, batch, loci, batch.case)
    reference = _gathered(j, ref, batch, loci, batch.case)
    few = reference.n < LEAST_REFERENCE
    if few.any() and (~batch.case).any():
        control = _gathered(j, ref, batch, loci, ~batch.case)
        reference = AlleleReads(
            *(
                np.where(few, getattr(control, name), getattr(reference, name))
                for name in ("n", *_COMPARED)
            )
        )
    by_reads, z = apply_filters(allele, reference, level)
    return Filtered(taken | by_reads, z, (allele, reference))


def _gathered(
    j: IntArray, base: IntArray, batch: Counts, loci: Loci, member: BoolArray
) -> AlleleReads:
    """Sum what is known of the reads of one base at each location over some replicates."""
    n = batch.counts[j][np.arange(len(j)), :, base][:, member].sum(axis=1).astype(np.int64)
    sums = np.zeros((len(j), len(READ_SUMS)), np.int64)
    for i, (location, b) in enumerate(zip(j, base, strict=True)):
        known = loci.sums_of(int(location))
        if known is None:
            n[i] = min(n[i], LEAST_READS - 1)  # nothing to compare
        else:
            sums[i] = known[member, b].sum(axis=0)
    return AlleleReads(n, *(sums[:, _AT[name]] for name in _COMPARED))


UNDECIDED = 0.05  # probability from which on it is said why an allele is not called
OF_CHANCE = 1e-3  # with which replicates of one rate differ so
MOST_DISAGREEING = 5


def call_part(
    model: Any,
    q: Any,
    batch: Counts,
    loci: Loci,
    evidence: Evidence,
    decision: Decision,
    settings: VariantSettings,
) -> tuple[pa.Table, PartCalls]:
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
    """
    if isinstance(model, TwoGroups):
        alleles = units(batch)
        verdict = verdict_of(evidence, decision, settings)
        chosen = _best_or_called(alleles, evidence.score, verdict.called)
        outcomes = outcomes_of(model, q, decision, alleles, evidence.score, verdict, chosen)
    else:
        outcomes = _papers_outcomes(batch, evidence, decision, settings)
    alleles, called = outcomes.alleles, np.flatnonzero(outcomes.called)
    filtered = filter_reads(alleles, called, batch, loci, settings.filter_level)
    z = np.full(len(alleles), np.nan)
    z[called] = filtered.read_end_z
    ref = batch.ref[alleles.location].astype(int)
    letters = np.array(list(BASES))
    taken = _taken(batch, called, filtered, settings)
    shown = Shown(
        outcomes,
        list(zip(letters[ref].tolist(), letters[alleles.alt].tolist(), strict=True)),
        filters_of(alleles, outcomes.called, taken, settings),
        z,
        batch.counts[alleles.location, :, ref].astype(np.int64),
        _by_strand(alleles, ref, batch, loci),
    )
    table = table_of(shown, loci, settings.case, LOCI.arrow)
    deleted = np.zeros(len(batch), np.int64)
    if batch.deleted is not None:
        deleted = batch.deleted[:, batch.case].sum(axis=1)
    calls = tuple(
        {
            **call_of(shown, i, loci, settings),
            "compared": filtered.compared(k),
            "deleted": int(deleted[alleles.location[i]]),
        }
        for k, i in enumerate(called.tolist())
    )
    return table, PartCalls(
        len(loci.pos),
        tuple(dict.fromkeys(loci.chrom.tolist())),
        calls,
        chains=None if evidence.r_hat is None else Chains.of(evidence.r_hat),
        strands=loci.forward is not None,
        reads=loci.sums is not None,
        mixed=mixed(batch, settings),
        disagreeing=_disagreeing(shown, loci),
    )


def outcomes_of(
    model: TwoGroups,
    q: Any,
    decision: Decision,
    alleles: Units,
    score: FloatArray,
    verdict: Verdict,
    chosen: IntArray,
) -> Outcomes:
    """Return what the fit and the decision say of chosen units."""
    alleles, score, called = alleles.take(chosen), score[chosen], verdict.called[chosen]
    case, control = _rates(model, q, decision, alleles, called)
    log_odds = score + np.log(decision.pi) - np.log1p(-decision.pi)
    prob, q_value = 1.0 - verdict.lfdr[chosen], verdict.q_value[chosen]
    return Outcomes(alleles, case, control, prob, q_value, log_odds, called)


def _papers_outcomes(
    batch: Counts, evidence: Evidence, decision: Decision, settings: VariantSettings
) -> Outcomes:
    """Return the same of every location's allele by the papers' test."""
    score = evidence.score
    prob, called = 1.0 / (1.0 + np.exp(-score)), score >= decision.least
    alleles, q_value = _by_location(batch, settings), decision.q_of(score)
    return Outcomes(alleles, *evidence.rates(), prob, q_value, score, called)


def _disagreeing(shown: Shown, loci: Loci) -> tuple[Disagreeing, ...]:
    """Return undecided alleles that the case's replicates show in shares that differ."""
    outcomes, alleles = shown.outcomes, shown.outcomes.alleles
    if alleles.case.sum() < 2:
        return ()
    undecided = np.flatnonzero(~outcomes.called & (outcomes.prob >= UNDECIDED))
    reads, depth = (x[undecided][:, alleles.case] for x in (alleles.alt_reads, alleles.depth))
    share = reads.sum(axis=1) / np.maximum(depth.sum(axis=1), 1)
    expected = share[:, None] * depth
    variance = np.maximum(expected * (1.0 - share[:, None]), 1e-9)
    statistic = ((reads - expected) ** 2 / variance).sum(axis=1)
    differ = undecided[chdtrc(int(alleles.case.sum()) - 1, statistic) < OF_CHANCE]
    return tuple(
        Disagreeing(
            chrom=str(loci.chrom[alleles.location[k]]),
            pos=int(loci.pos[alleles.location[k]]),
            ref=shown.alleles[k][0],
            alt=shown.alleles[k][1],
            prob=float(outcomes.prob[k]),
            reads=tuple(alleles.alt_reads[k, alleles.case].tolist()),
        )
        for k in differ[:MOST_DISAGREEING].tolist()
    )


def _best_or_called(alleles: Units, score: FloatArray, called: BoolArray) -> IntArray:
    """Return the best unit of every location and any other that is called, in order."""
    reads = alleles.alt_reads[:, alleles.case].sum(axis=1)
    best = (score + 1e-9 * reads).reshape(-1, 3)
    shown = np.zeros(len(alleles), bool)
    shown[3 * np.arange(len(best)) + best.argmax(axis=1)] = True
    return np.flatnonzero(shown | called)


def _rates(
    model: TwoGroups, q: Any, decision: Decision, alleles: Units, called: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean, sd and quantiles of every unit's rate in case and control, [U, 6] each.

    The outer two quantiles are for the VCF: NaN of what is not called.
    """
    fit = model.anchored(replace(q, pi=decision.pi))
    summaries = np.full((2, len(alleles), 2 + len(LEVELS)), np.nan)
    for chosen, shown in ((called, slice(None)), (~called, OF_TABLES)):
        which, columns = np.flatnonzero(chosen), np.r_[:2, np.arange(2, summaries.shape[2])[shown]]
        for chunk in np.split(which, range(CHUNK, len(which), CHUNK)):
            pair = rates(model, fit, model.rate_table(fit, alleles.take(chunk)), LEVELS[shown])
            for into, r in zip(summaries, pair, strict=True):
                into[np.ix_(chunk, columns)] = np.column_stack([r.mean, r.sd, r.quantiles])
    return summaries[0], summaries[1]


def _by_location(batch: Counts, settings: VariantSettings) -> Units:
    """Return one unit a location, with the allele that the case shows most.

    Where losses count too, with that whose share differs most from the control's.
    """
    alleles = units(batch)
    shown = alleles.alt_reads[:, alleles.case].sum(axis=1).astype(float)
    if settings.two_sided and settings.control:
        shown = np.abs(_share(alleles, alleles.case) - _share(alleles, ~alleles.case))
    most = shown.reshape(-1, 3).argmax(axis=1)
    return alleles.take(3 * np.arange(len(most)) + most)


def _share(alleles: Units, member: BoolArray) -> FloatArray:
    """Return the allele's share of the reads of some replicates together."""
    reads = alleles.alt_reads[:, member].sum(axis=1)
    return np.asarray(reads / np.maximum(alleles.depth[:, member].sum(axis=1), 1))


def _taken(
    batch: Counts, called: IntArray, filtered: Filtered, settings: VariantSettings
) -> dict[str, BoolArray]:
    """Return which of the called alleles each filter takes, [C]."""
    if not called.size or settings.test == "two_groups" or not settings.control:
        return filtered.taken
    errors = units(batch).alt_reads.reshape(-1, 3, batch.counts.shape[1]).swapaxes(1, 2)
    spectrum = control_spectrum(errors[:, ~batch.case])
    return filtered.taken | {
        "spectrum": spectrum_p_value(errors[:, batch.case], spectrum)[called] > 0.05
    }


def _by_strand(alleles: Units, ref: IntArray, batch: Counts, loci: Loci) -> Strands | None:
    if loci.forward is None:
        return None
    both = []
    for base in (ref, alleles.alt):
        forward = loci.forward[alleles.location, :, base]
        both += [forward, batch.counts[alleles.location, :, base] - forward]
    return both[0], both[1], both[2], both[3]
