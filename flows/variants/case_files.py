"""The decision over all partitions of a case, and what is written: tables, VCF, BED."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from flows import storage
from flows.family import Each
from flows.records import json_files
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.variants.calls import calls as variant_calls
from flows.variants.calls import detection
from flows.variants.calls.alleles import untested
from flows.variants.calls.calls import Decision, Scored
from flows.variants.calls.indel_calls import call_indels, not_called
from flows.variants.calls.joint_alleles import join_alleles
from flows.variants.calls.loci import call_part
from flows.variants.calls.part_calls import MOST_MISSED, PartCalls, filters_not_run
from flows.variants.calls.vcf import named, null_of, sample_names, write_vcf
from flows.variants.input.locations import read_counts, read_loci, replicate_columns
from flows.variants.input.read_account import SampleReads
from flows.variants.reads.contigs import fasta_contigs, names_a_contig
from flows.variants.settings import VariantSettings
from vbmodels.core.state import to_bytes
from vbmodels.variants.two_groups.batch_errors import (
    Information,
    observed_information,
    standard_errors,
)
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.cases import Several
from vbmodels.variants.two_groups.model import TwoGroups

UNJOINED = "Bases on the same reads are records of their own: counts have no reads"
CASES = "cases"  # the folder with a folder of each of several cases


class KeptPartitions(json_files.Form):
    """The contents of ``kept/part-00000.json``.

    The partitions with locations, the replicates, the number of the case that each partition is of,
    what is known of the replicates' reads, as `SampleReads` has it, and each replicate's file of
    reads with what marks its version; no files where counts were given.
    """

    indices: list[int]
    columns: list[tuple[str, str]]
    cases: list[int]
    positions: int
    locations: int
    depth: list[list[int]]
    account: list[list[int]] | None
    files: list[tuple[str, str]]

    @property
    def reads(self) -> SampleReads:
        """What is known of the replicates' reads."""
        account = None if self.account is None else np.array(self.account, np.int64)
        depth = np.array(self.depth, np.int64)
        files = [url for url, _ in self.files]
        return SampleReads(self.columns, self.positions, self.locations, depth, account, files)


class CaseFit(NamedTuple):
    """One case's model and what was fitted; ``name`` of one of several, else empty."""

    name: str
    model: Any
    q: Any


def fits_of(model: Any, q: Any) -> list[CaseFit]:
    """Return the fit of each case."""
    if isinstance(model, Several):
        pairs = zip(model.names, q.of, strict=True)
        return [CaseFit(name, model.model, case_q) for name, case_q in pairs]
    return [CaseFit("", model, q)]


class Case(NamedTuple):
    """What is concluded at once.

    Attributes
    ----------
    number
        Of the case, from 0.
    fit
        Its name, model and hyperparameters.
    positions
        The number of each table's part, and the partition that it is of.
    summaries
        What the partitions scored.
    columns
        The replicates.
    reads
        What is known of the replicates' reads.
    files
        Each replicate's file of reads, and what marks its version; none of counts.
    """

    number: int
    fit: CaseFit
    positions: list[tuple[int, int]]
    summaries: list[Scored]
    columns: list[tuple[str, str]]
    reads: SampleReads
    files: list[tuple[str, str]]

    def url(self, paths: RunPaths, name: str) -> str:
        """Return where a file of it is: of one of several cases in a folder of its own."""
        return paths.file(storage.join(CASES, self.fit.name, name) if self.fit.name else name)


@dataclass(frozen=True)
class CaseFound:
    """What was found in a case, and its hyperparameters."""

    name: str
    parts: list[PartCalls]
    q: Any


def conclude(
    model: Any,
    q: Any,
    summaries: Sequence[Scored],
    about: KeptPartitions,
    settings: VariantSettings,
    paths: RunPaths,
    fitted: RunPaths | None,
    each: Each,
) -> tuple[list[CaseFound], Any]:
    """Decide over all partitions of each case, then write every location and the VCF.

    Several cases are concluded at once, each in one place; one by partitions.
    """
    items = []
    for number, fit in enumerate(fits_of(model, q)):
        alone = settings.of_case(settings.tested[number])
        columns = replicate_columns(about.columns, alone)
        positions = [i for i, case in enumerate(about.cases) if case == number]
        items.append(
            Case(
                number,
                fit,
                [(i, about.indices[i]) for i in positions],
                [summaries[i] for i in positions],
                columns,
                about.reads.of(columns),
                [about.files[about.columns.index(c)] for c in columns] if about.files else [],
            )
        )
    if isinstance(model, Several):
        concluded = each(_conclude_here, items, settings, paths, fitted)
        return concluded, replace(q, of=tuple(case.q for case in concluded))
    concluded = [_conclude_case(items[0], settings, paths, fitted, each)]
    return concluded, concluded[0].q


def _conclude_here(
    case: Case, settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None
) -> CaseFound:
    def each(function: Callable[..., Any], items: Sequence[Any], *args: Any) -> list[Any]:
        return [function(item, *args) for item in items]

    return _conclude_case(case, settings.of_case(case.fit.name), paths, fitted, each)


def _conclude_case(
    case: Case, settings: VariantSettings, paths: RunPaths, fitted: RunPaths | None, each: Each
) -> CaseFound:
    """Write the files of a case, and return what was found in it.

    P(H1) over all units replaces the fit's, which is of a sample.
    """
    _, model, q = case.fit
    decision = variant_calls.decide(
        case.summaries, getattr(q, "pi", 0.5), settings, refit=fitted is None
    )
    indices = [index for _, index in case.positions]
    if isinstance(model, TwoGroups):
        q = replace(q, pi=decision.pi)
    if isinstance(model, BatchNull) and fitted is None:
        information = each(_information, indices, model, q, paths)
        q = replace(q, errors=standard_errors(reduce(add, information)))
    # Through storage, as it is too large to travel with every task.
    storage.write_bytes(paths.part("decision", case.number, "npz"), to_bytes(decision))
    if isinstance(model, TwoGroups):
        # Locations under the same conditions share a limit, in whatever partition they are.
        conditions = each(_conditions, indices, q, paths)
        least = detection.threshold(decision, settings)
        limits = detection.Conditions.union(conditions).limits(model, q, least)
        storage.write_bytes(paths.part("limits", case.number, "npz"), to_bytes(limits))
    parts = each(_write_loci, case.positions, model, q, settings, paths, case.number)
    parts = join_alleles(parts, case.columns, case.files, settings, each)
    why_not = not_called(indices, settings, paths, fitted, each, case.number)
    if why_not is None:
        indels = call_indels(case.positions, model, settings, paths, fitted, each, case.number)
        parts = [
            replace(part, calls=part.calls + in_part.calls, indels=in_part, indel_fit=indels.fit)
            for part, in_part in zip(parts, indels.parts, strict=True)
        ]
    parts = [replace(part, no_indels=why_not, sample_reads=case.reads) for part in parts]
    _write_calls(case, parts, null_of(model, q), settings, paths)
    if isinstance(model, TwoGroups):
        regions = [part.callable for part in parts if part.callable is not None]
        bed = detection.Intervals.union(regions).bed
        storage.write_bytes(case.url(paths, "callable.bed"), bed)
    return CaseFound(settings.case, parts, q)


def _write_calls(
    case: Case, parts: Sequence[PartCalls], null: str, settings: VariantSettings, paths: RunPaths
) -> None:
    """Write the VCF of a case."""
    names = sample_names(case.columns, settings)
    records = [
        {
            **call,
            "samples": named(call["samples"], names),
            "UNTESTED": untested(call, settings) or None,
        }
        for part in parts
        for call in part.calls
    ]
    write_vcf(
        case.url(paths, "variants.vcf.gz"),
        records,
        _contigs(settings, parts),
        [name for of_role in names.values() for name in of_role],
        f"vbflows variants, test {settings.test}",
        filters_not_run(parts, settings),
        null,
        parts[0].no_indels,
        case.reads.thin,
        None if case.files else UNJOINED,
    )


def _information(index: int, model: BatchNull, q: Any, paths: RunPaths) -> Information:
    return observed_information(model, q, read_counts(paths, index))


def _conditions(index: int, q: Any, paths: RunPaths) -> detection.Conditions:
    return detection.Conditions.of(read_counts(paths, index), q)


def _write_loci(
    where: tuple[int, int],
    model: Any,
    q: Any,
    settings: VariantSettings,
    paths: RunPaths,
    number: int,
) -> PartCalls:
    index, partition = where
    decision = read_state(paths.part("decision", number, "npz"), Decision)
    url = paths.part("evidence", index, "npz")
    evidence = read_state(url, variant_calls.Evidence)
    counts, loci = read_counts(paths, partition), read_loci(paths, partition)
    table, calls = call_part(model, q, counts, loci, evidence, decision, settings)
    storage.write_table(paths.table("loci", index), table)
    if not isinstance(model, TwoGroups):
        return calls
    limits = read_state(paths.part("limits", number, "npz"), detection.Limits)
    limit = limits.at(counts, q, settings)
    rows = detection.table(limit, counts, loci, settings.case)
    storage.write_table(paths.table("detection", index), rows)
    share = settings.callable_share
    regions = detection.callable_regions(limit, loci, share)
    missed = detection.missed_regions(limit, counts, loci, share, MOST_MISSED + 1)
    counted = detection.LimitCounts.of(limit)
    return replace(calls, limits=counted, callable=regions, missed=missed)


def _contigs(settings: VariantSettings, parts: Sequence[PartCalls]) -> dict[str, int | None]:
    if settings.fasta is not None:
        known = fasta_contigs(settings.fasta)
        return {name: length for name, length in known.items() if names_a_contig(name)}
    return {name: None for name in sorted({c for part in parts for c in part.contigs})}
