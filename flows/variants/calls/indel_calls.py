"""Calls of insertions and deletions: a fit of their own error rates, a decision, and their rows.

Their units are few compared with the substitutions', since most anchors show none. So the
hyperparameters are fitted where the run is driven, at the locations that those of the
substitutions are fitted on; evidence and results are made partition by partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flows import storage
from flows.family import Each
from flows.records.runs import Parameter, RunPaths
from flows.records.states import read_state
from flows.variants.calls.alleles import Shown, Strands, call_of, filters_of, table_of
from flows.variants.calls.calls import (
    BINS,
    LOW,
    Decision,
    Evidence,
    Scored,
    bayes_factors,
    decide,
    in_bins,
    summarise,
    verdict_of,
)
from flows.variants.calls.loci import outcomes_of
from flows.variants.calls.part_calls import IndelFit, IndelRate, PartIndels, clusters
from flows.variants.input.counts import Loci
from flows.variants.input.locations import read_counts, read_indels, read_loci
from flows.variants.schema import INDELS, READ_SUMS
from flows.variants.settings import VariantSettings
from vbmodels.core.driver import Driver, has_converged
from vbmodels.core.fit import loop_of
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, to_bytes
from vbmodels.variants.counts import BASES, Counts, Units
from vbmodels.variants.indels import UNSEEN, Indels, indel_units, names_of_kinds
from vbmodels.variants.read_filters import (
    LEAST_READS,
    LEAST_REFERENCE,
    AlleleReads,
    apply_filters,
    on_one_strand,
)
from vbmodels.variants.sampling import alike, sums_of
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import log_bayes_factors

KEPT = "indels"
LEAST_SHOWN = 2  # of an allele that the table has, or that is called
LEAST_TOL = 1e-4  # of their bound: what is left there moves no rate by a thousandth
LEAST_RISE = (
    0.05  # of their bound, in nats: where few reads have indels, rates are not known better
)


@dataclass(frozen=True)
class IndelCalls:
    """What was found in each partition, and what was fitted."""

    parts: tuple[PartIndels, ...]
    fit: IndelFit


def not_called(
    indices: Sequence[int],
    settings: VariantSettings,
    paths: RunPaths,
    fitted: RunPaths | None,
    each: Each,
    number: int,
) -> str | None:
    """Return why indels are not called, in one sentence; None where they are.

    The parameters are those of `call_indels`; ``indices`` are of the partitions with locations.
    """
    if not settings.indels:
        return "Indels were not called, as indels=false asks."
    if settings.test != "two_groups":
        return f"Indels were not called: only test two_groups does, not {settings.test}."
    if not all(storage.exists(paths.part("indels", index, "npz")) for index in indices):
        return (
            "Indels were not called: these counts do not hold them or come without a reference "
            "(fasta)."
        )
    unknown = fitted is not None and not storage.exists(kept_url(fitted, number))
    if unknown and max(each(_most_reads, indices, paths)) >= LEAST_SHOWN:
        return (
            "Indels were not called: the fitted run saw none; call these files in a run of "
            "their own."
        )
    return None


def call_indels(
    positions: Sequence[tuple[int, int]],
    model: TwoGroups,
    settings: VariantSettings,
    paths: RunPaths,
    fitted: RunPaths | None,
    each: Each,
    number: int = 0,
) -> IndelCalls:
    """Fit, decide over all partitions at once, write their tables and return the calls.

    Parameters
    ----------
    positions
        The number of each table's part, and the partition with locations that it is of.
    model
        That of the substitutions; shifts are always by type.
    settings, paths, fitted, each
        See `flows.family.Family.select`.
    number
        Of the case, where there are several.
    """
    indices = [index for _, index in positions]
    if max(each(_most_reads, indices, paths)) < LEAST_SHOWN:
        none = each(_conclude_none, positions, paths)
        return IndelCalls(tuple(none), IndelFit((), True, 0))
    indel_model = replace(model, types="12") if isinstance(model, BatchNull) else model
    before = None if fitted is None else kept_url(fitted, number)
    converged, sweeps = True, 0
    if before is not None and storage.exists(before):
        q: Any = read_state(before, State)
    else:
        q, converged, sweeps = _fit(indel_model, _joined(each(_sampled, indices, paths)), settings)
        before = None
    summaries = each(_score, indices, indel_model, q, paths)
    decision = decide(summaries, q.pi, settings, refit=before is None)
    q = replace(q, pi=decision.pi)
    storage.write_bytes(paths.part("indel_decision", number, "npz"), to_bytes(decision))
    storage.write_bytes(fit_url(paths, number), to_bytes(q))
    concluded = each(_conclude, positions, indel_model, q, settings, paths, number)
    factors = np.exp(getattr(q, "shift", np.zeros(len(q.a))))
    rates = map(IndelRate, names_of_kinds(), (q.a / (q.a + q.b)).tolist(), factors.tolist())
    return IndelCalls(tuple(concluded), IndelFit(tuple(rates), converged, sweeps))


def fit_url(paths: RunPaths, number: int = 0) -> str:
    """Return where a run keeps the indels' hyperparameters while it works."""
    return paths.part("indel_fit", number, "npz")


def kept_url(paths: RunPaths, number: int = 0) -> str:
    """Return where a finished run has them; of the first of several cases, as of one."""
    name = f"{KEPT}-{number:05d}.npz" if number else f"{KEPT}.npz"
    return storage.join(paths.root, "posterior", name)


def hyperparameters(q: Any) -> list[Parameter]:
    """Return the indels' hyperparameters, as rows of the parameters' table."""
    rows = [Parameter("indel_pi", None, q.pi), Parameter("indel_log_M_mean", None, q.log_m_mean)]
    rate = q.a / (q.a + q.b)
    return rows + [
        Parameter("indel_error_rate", kind, float(mean))
        for kind, mean in zip(names_of_kinds(), rate, strict=True)
    ]


def _read(index: int, paths: RunPaths) -> tuple[Counts, Indels]:
    indels = read_indels(paths, index)
    assert indels is not None
    return read_counts(paths, index), indels


def _units(counts: Counts, indels: Indels) -> Units:
    return indel_units(indels, counts.depth, counts.case, counts.member)


def _sampled(index: int, paths: RunPaths) -> Units:
    """Return the units that the hyperparameters are fitted on."""
    counts, indels = _read(index, paths)
    alleles = _units(counts, indels)
    if counts.weight is None:
        return alleles
    weight = counts.weight[alleles.location]
    return replace(alleles, weight=weight, share=counts.share).take(np.flatnonzero(weight))


def _joined(parts: Sequence[Units]) -> Units:
    alt_reads, depth, kind, location, alt = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("alt_reads", "depth", "kind", "location", "alt")
    )
    weight = None
    if parts[0].weight is not None:
        weight = np.concatenate([part.weight for part in parts if part.weight is not None])
    return Units(
        alt_reads,
        depth,
        kind,
        location,
        alt,
        parts[0].case,
        parts[0].member,
        weight,
        parts[0].share,
    )


def _fit(model: TwoGroups, alleles: Units, settings: VariantSettings) -> tuple[Any, bool, int]:
    """Return the hyperparameters, whether the fit has converged, and its sweeps."""
    reduce = sums_of(model, alleles)
    q = model.init(reduce.observe(), np.random.default_rng(settings.seed))
    tol = max(settings.tol, LEAST_TOL)
    run = Driver(loop_of(model), model, q, reduce, tol=tol, max_iter=settings.max_iter)
    converged = False
    for step in run:
        q = step.q
        converged = has_converged(run.trace, LEAST_RISE / max(1.0, abs(run.trace[-1])))
        if converged:
            break
    return q, converged or run.converged, run.number + 1


def _most_reads(index: int, paths: RunPaths) -> int:
    """Return the reads of the allele that most reads of a partition's samples show."""
    _, indels = _read(index, paths)
    return int(indels.reads.sum(axis=1).max(initial=0))


def _conclude_none(where: tuple[int, int], paths: RunPaths) -> PartIndels:
    """Write an empty table of indels of a partition in which no allele has two reads."""
    index, partition = where
    counts, indels = _read(partition, paths)
    storage.write_table(paths.table("indels", index), INDELS.arrow.empty_table())
    return PartIndels(len(_units(counts, indels)), len(indels), (), ())


def _score(index: int, model: TwoGroups, q: Any, paths: RunPaths) -> Scored:
    """Keep the evidence of a partition's alleles, in their order; count that of the unseen."""
    counts, indels = _read(index, paths)
    alleles = _units(counts, indels)
    seen = alleles.alt != UNSEEN
    evidence = bayes_factors(model, q, alleles.take(seen))
    storage.write_bytes(paths.part("indel_evidence", index, "npz"), to_bytes(evidence))
    summary = summarise(evidence)
    few, weight = alike(alleles.take(~seen))
    low = np.clip(log_bayes_factors(model, q, few), LOW, 0.0)
    unseen = np.histogram(low, BINS, (LOW, 0.0), weights=weight)[0].astype(np.int64)
    return Scored.of(summary.high, in_bins([summary]) + unseen)


def _conclude(
    where: tuple[int, int],
    model: TwoGroups,
    q: Any,
    settings: VariantSettings,
    paths: RunPaths,
    number: int,
) -> PartIndels:
    """Write one partition's table of indels; return its calls and clusters without one."""
    index, partition = where
    counts, indels = _read(partition, paths)
    loci = read_loci(paths, partition)
    every = _units(counts, indels)
    alleles = every.take(every.alt != UNSEEN)
    evidence = read_state(paths.part("indel_evidence", partition, "npz"), Evidence)
    decision = read_state(paths.part("indel_decision", number, "npz"), Decision)
    verdict = verdict_of(evidence, decision, settings)
    groups = clusters(alleles, verdict.called, loci)
    chosen = np.flatnonzero(verdict.called | (alleles.alt_reads.sum(axis=1) >= LEAST_SHOWN))
    outcomes = outcomes_of(model, q, decision, alleles, evidence.score, verdict, chosen)
    alleles, called = outcomes.alleles, outcomes.called
    strands = by_strand(alleles, counts, loci, indels)
    taken, z = taken_by(alleles, called, counts, loci, indels, strands, settings.filter_level)
    published = Shown(
        outcomes,
        [alleles_of(alleles, i, counts, indels) for i in range(len(alleles))],
        filters_of(alleles, called, taken, settings),
        z,
        reference_reads(alleles, counts, indels),
        strands,
    )
    kinds = np.array(names_of_kinds())[alleles.kind].tolist()
    rows = table_of(published, loci, settings.case, INDELS.arrow, kinds)
    storage.write_table(paths.table("indels", index), rows)
    calls = tuple(
        call_of(published, i, loci, settings) | {"HRUN": int(indels.run[alleles.location[i]])}
        for i in np.flatnonzero(called).tolist()
    )
    return PartIndels(len(every), len(indels), calls, groups)


# A read of the allele shows the reference's base at the anchor, so its sums are a part of that
# base's; what is left when those of all its alleles are taken off is of reads without any.
# An aligner writes an indel only where bases follow on both sides: true ones lie further from the
# ends of their reads than the reference does, never nearer, and `read_end` takes them the less.
FILTERS = ("read_end", "low_mapq")
_KEYS = ("to_end", "to_end_2", "mapping_quality", "mapping_quality_2")
_AT = [list(READ_SUMS).index(name) for name in _KEYS]


def filter_indels(
    alleles: Units, called: IntArray, batch: Counts, loci: Loci, indels: Indels, level: float
) -> tuple[dict[str, BoolArray], FloatArray]:
    """Say which alleles lie near the ends of reads, or in reads mapped badly, in the case.

    Where the case has hardly a read of the reference, against those of the control.

    Parameters
    ----------
    alleles, called
        The alleles, and which of them are called.
    batch, loci, indels
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
    if indels.sums is None or loci.sums is None or not len(called):
        return {}, np.full(len(called), np.nan)
    allele = _reads(
        np.array([indels.reads[e, alleles.case].sum() for e in alleles.alt[called]]),
        np.array([indels.sums[e][alleles.case].sum(axis=0) for e in alleles.alt[called]]),
    )
    case, control = (
        np.array([_reference(int(j), batch, loci, indels, m) for j in alleles.location[called]])
        for m in (alleles.case, ~alleles.case)
    )
    few = (case[:, 0] < LEAST_REFERENCE)[:, None]
    reference = np.where(few & (control[:, :1] > 0), control, case)
    taken, z = apply_filters(allele, _reads(reference[:, 0], reference[:, 1:]), level)
    return {name: taken[name] for name in FILTERS}, z


def _reference(j: int, batch: Counts, loci: Loci, indels: Indels, member: BoolArray) -> IntArray:
    """Return number and sums [5] of some replicates' reads with the reference and no allele."""
    known = loci.sums_of(j)
    assert indels.sums is not None
    if known is None:
        return np.zeros(1 + len(_KEYS), np.int64)
    here = slice(*np.searchsorted(indels.location, (j, j + 1)))
    ref = int(batch.ref[j])
    n = batch.counts[j, member, ref].sum() - indels.reads[here][:, member].sum()
    sums = known[member, ref][:, _AT].sum(axis=0) - indels.sums[here][:, member].sum(axis=(0, 1))
    return np.maximum(np.array([n, *sums], np.int64), 0)


def _reads(n: IntArray, sums: IntArray) -> AlleleReads:
    none = np.zeros(len(n), np.int64)
    by_name = dict(zip(_KEYS, sums.T, strict=True))
    return AlleleReads(
        n=n,
        base_quality=none,
        base_quality_2=none,
        near_indel=none,
        many_mismatches=none,
        no_base_quality=none,
        **by_name,
    )


def alleles_of(alleles: Units, i: int, batch: Counts, indels: Indels) -> tuple[str, str]:
    """Return REF and ALT of a unit as a VCF has them: with the base before."""
    e = int(alleles.alt[i])
    anchor = BASES[int(batch.ref[alleles.location[i]])]
    whole = anchor + str(indels.bases[e])
    return (anchor, whole) if indels.length[e] > 0 else (whole, anchor)


def reference_reads(alleles: Units, batch: Counts, indels: Indels) -> IntArray:
    """Return the reads that show the reference at the anchor and no indel there, [U, R]."""
    ref = batch.ref[alleles.location].astype(int)
    shown = batch.counts[alleles.location, :, ref].astype(np.int64)
    return np.asarray(np.maximum(shown - _of_anchor(indels.reads, alleles, indels), 0))


def _of_anchor(reads: IntArray, alleles: Units, indels: Indels) -> IntArray:
    """Return the reads of all alleles of each unit's anchor, [U, R]."""
    total = np.zeros((len(indels.run), reads.shape[1]), np.int64)
    np.add.at(total, indels.location, reads)
    return total[alleles.location]


def by_strand(alleles: Units, batch: Counts, loci: Loci, indels: Indels) -> Strands | None:
    """Return reads of reference and allele, forward and reverse of each, [U, R]."""
    if loci.forward is None:
        return None
    ref = batch.ref[alleles.location].astype(int)
    forward = loci.forward[alleles.location, :, ref] - _of_anchor(indels.forward, alleles, indels)
    forward = np.maximum(forward, 0)
    reverse = np.maximum(reference_reads(alleles, batch, indels) - forward, 0)
    shown = indels.forward[alleles.alt]
    return forward, reverse, shown, alleles.alt_reads - shown


def taken_by(
    alleles: Units,
    called: BoolArray,
    batch: Counts,
    loci: Loci,
    indels: Indels,
    strands: Strands | None,
    level: float,
) -> tuple[dict[str, BoolArray], FloatArray]:
    """Return which of the called alleles each filter takes, [C], and z of all, [U].

    That is of the distance to the ends of reads.
    """
    rows, taken = np.flatnonzero(called), {}
    if strands is not None and rows.size:
        a, b, c, d = (s[rows][:, alleles.case].sum(axis=1) for s in strands)
        taken["strand_bias"] = on_one_strand(a, b, c, d, level) & (c + d >= LEAST_READS)
    z = np.full(len(called), np.nan)
    by_reads, z[rows] = filter_indels(alleles, rows, batch, loci, indels, level)
    return taken | by_reads, z
