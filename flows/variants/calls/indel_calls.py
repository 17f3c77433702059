"""Calls of insertions and deletions: a fit of their own error rates, and a decision of their own.

Their units are few compared with the substitutions', since most anchors show none. So the
hyperparameters are fitted where the run is driven, at the locations that those of the
substitutions are fitted on; evidence and results are made partition by partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.family import Each
from flows.records.runs import Parameter, RunPaths
from flows.records.states import read_state
from flows.variants.calls.calls import (
    BINS,
    LOW,
    Decision,
    Evidence,
    Scored,
    bayes_factors,
    decide,
    in_bins,
    outcome_of,
    summarise,
)
from flows.variants.calls.indel_clusters import IndelFit, IndelRate, PartIndels, clusters
from flows.variants.calls.indel_rows import alleles_of, by_strand, reference_reads, taken_by
from flows.variants.calls.loci import rates_of
from flows.variants.calls.shown_rows import Shown, call_of, columns_of, filters_of
from flows.variants.input.indel_counts import read_indels
from flows.variants.input.locations import read_counts, read_loci
from flows.variants.schema import INDELS
from flows.variants.settings import VariantSettings
from vbmodels.core.driver import Driver, has_converged
from vbmodels.core.fit import loop_of
from vbmodels.core.state import State, to_bytes
from vbmodels.variants.counts import Counts, Units
from vbmodels.variants.indels import UNSEEN, Indels, indel_units, names_of_kinds
from vbmodels.variants.sampling import alike, sums_of
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import log_bayes_factors

KEPT = "indels"
LEAST_READS = 2  # of an allele that the table has, or that is called
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
    kept: Sequence[int], settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None,
    each: Each, number: int,
) -> str | None:  # fmt: skip
    """Return why indels are not called, in one sentence; None where they are.

    The parameters are those of `call_indels`; ``kept`` are the partitions with locations.
    """
    if not settings.indels:
        return "Indels were not called, as indels=false asks."
    if settings.test != "two_groups":
        return f"Indels were not called: only test two_groups does, not {settings.test}."
    if not all(storage.exists(_url(paths, index)) for index in kept):
        return (
            "Indels were not called: these counts do not hold them or come without a reference "
            "(fasta)."
        )
    unknown = fitted is not None and not storage.exists(kept_url(fitted, number))
    if unknown and max(each(_most_reads, kept, paths)) >= LEAST_READS:
        return (
            "Indels were not called: the fitted run saw none; call these files in a run of "
            "their own."
        )
    return None


def call_indels(
    positions: Sequence[tuple[int, int]], model: TwoGroups, settings: VariantSettings,
    paths: RunPaths, fitted: RunPaths | None, each: Each, number: int = 0,
) -> IndelCalls:  # fmt: skip
    """Fit, decide over all partitions at once, write their tables and return the calls.

    Parameters
    ----------
    positions
        The number of each table's part, and the partition with locations that it is of.
    model
        That of the substitutions; shifts are always by type.
    settings, paths, fitted, each
        See `flows.family.Selects`.
    number
        Of the case, where there are several.
    """
    kept = [index for _, index in positions]
    if max(each(_most_reads, kept, paths)) < LEAST_READS:
        none = each(_conclude_none, positions, paths)
        return IndelCalls(tuple(none), IndelFit((), True, 0))
    own = replace(model, types="12") if isinstance(model, BatchNull) else model
    before = None if fitted is None else kept_url(fitted, number)
    converged, sweeps = True, 0
    if before is not None and storage.exists(before):
        q: Any = read_state(before, State)
    else:
        q, converged, sweeps = _fit(own, _joined(each(_sampled, kept, paths)), settings)
        before = None
    summaries = each(_score, kept, own, q, paths)
    decision = decide(summaries, q.pi, settings, refit=before is None)
    q = replace(q, pi=decision.pi)
    storage.write_bytes(paths.part("indel_decision", number, "npz"), to_bytes(decision))
    storage.write_bytes(fit_url(paths, number), to_bytes(q))
    found = each(_conclude, positions, own, q, settings, paths, number)
    factors = np.exp(getattr(q, "shift", np.zeros(len(q.a))))
    rates = map(IndelRate, names_of_kinds(), (q.a / (q.a + q.b)).tolist(), factors.tolist())
    return IndelCalls(tuple(found), IndelFit(tuple(rates), converged, sweeps))


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
        Parameter("indel_error_rate", kind, float(of))
        for kind, of in zip(names_of_kinds(), rate, strict=True)
    ]


def _url(paths: RunPaths, index: int) -> str:
    return paths.part("indels", index, "npz")


def _read(index: int, paths: RunPaths) -> tuple[Counts, Indels]:
    found = read_indels(_url(paths, index))
    assert found is not None
    return read_counts(paths, index), found


def _units(counts: Counts, found: Indels) -> Units:
    return indel_units(found, counts.depth, counts.case, counts.member)


def _sampled(index: int, paths: RunPaths) -> Units:
    """Return the units that the hyperparameters are fitted on."""
    counts, found = _read(index, paths)
    of = _units(counts, found)
    if counts.weight is None:
        return of
    weight = counts.weight[of.location]
    return replace(of, weight=weight, share=counts.share).take(np.flatnonzero(weight))


def _joined(parts: Sequence[Units]) -> Units:
    alt_reads, depth, kind, location, alt = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("alt_reads", "depth", "kind", "location", "alt")
    )
    weight = None
    if parts[0].weight is not None:
        weight = np.concatenate([part.weight for part in parts if part.weight is not None])
    return Units(
        alt_reads, depth, kind, location, alt, parts[0].case, parts[0].member, weight,
        parts[0].share,
    )  # fmt: skip


def _fit(model: TwoGroups, of: Units, settings: VariantSettings) -> tuple[Any, bool, int]:
    """Return the hyperparameters, whether the fit has converged, and its sweeps."""
    reduce = sums_of(model, of)
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
    _, found = _read(index, paths)
    return int(found.reads.sum(axis=1).max(initial=0))


def _conclude_none(where: tuple[int, int], paths: RunPaths) -> PartIndels:
    """Write an empty table of indels of a partition in which no allele has two reads."""
    index, kept = where
    counts, found = _read(kept, paths)
    storage.write_table(paths.table("indels", index), INDELS.arrow.empty_table())
    return PartIndels(len(_units(counts, found)), len(found), (), ())


def _score(index: int, model: TwoGroups, q: Any, paths: RunPaths) -> Scored:
    """Keep the evidence of a partition's alleles, in their order; count that of the unseen."""
    counts, found = _read(index, paths)
    of = _units(counts, found)
    seen = of.alt != UNSEEN
    evidence = bayes_factors(model, q, of.take(seen))
    storage.write_bytes(paths.part("indel_evidence", index, "npz"), to_bytes(evidence))
    summary = summarise(evidence)
    few, weight = alike(of.take(~seen))
    low = np.clip(log_bayes_factors(model, q, few), LOW, 0.0)
    unseen = np.histogram(low, BINS, (LOW, 0.0), weights=weight)[0].astype(np.int64)
    return Scored.of(summary.high, in_bins([summary]) + unseen)


def _conclude(
    where: tuple[int, int], model: TwoGroups, q: Any, settings: VariantSettings, paths: RunPaths,
    number: int,
) -> PartIndels:  # fmt: skip
    """Write one partition's table of indels; return its calls and clusters without one."""
    index, kept = where
    counts, found = _read(kept, paths)
    loci = read_loci(paths, kept)
    every = _units(counts, found)
    of = every.take(every.alt != UNSEEN)
    evidence = read_state(paths.part("indel_evidence", kept, "npz"), Evidence)
    decision = read_state(paths.part("indel_decision", number, "npz"), Decision)
    score = evidence.score
    lfdr, called, q_value = outcome_of(evidence, decision, settings)
    groups = clusters(of, called, counts, loci)
    shown = np.flatnonzero(called | (of.alt_reads.sum(axis=1) >= LEAST_READS))
    of, score, called = of.take(shown), score[shown], called[shown]
    case, control = rates_of(model, q, decision, of, called)
    prob, q_value = 1.0 - lfdr[shown], q_value[shown]
    strands = by_strand(of, counts, loci, found)
    taken, z = taken_by(of, called, counts, loci, found, strands, settings.filter_level)
    log_odds = score + np.log(decision.pi) - np.log1p(-decision.pi)
    published = Shown(
        of, [alleles_of(of, i, counts, found) for i in range(len(of))], case, control, prob,
        q_value, log_odds, called, filters_of(of, called, taken, settings), z,
        reference_reads(of, counts, found), strands,
    )  # fmt: skip
    kinds = np.array(names_of_kinds())[of.kind].tolist()
    rows = pa.table(columns_of(published, loci, settings, kinds), schema=INDELS.arrow)
    storage.write_table(paths.table("indels", index), rows)
    calls = tuple(
        call_of(published, i, loci, settings) | {"HRUN": int(found.run[of.location[i]])}
        for i in np.flatnonzero(called).tolist()
    )
    return PartIndels(len(every), len(found), calls, groups)
