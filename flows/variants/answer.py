"""What variants answers: the calls, what would have been called, and how the samples differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Literal

import numpy as np

from flows import storage
from flows.evaluate.estimate import Estimate
from flows.family import Finished
from flows.variants.calls import detection, part_calls
from flows.variants.calls.calls import ALPHA
from flows.variants.calls.compared import Compared, compared, is_mnv, untested
from flows.variants.calls.indel_clusters import Cluster, IndelFit
from flows.variants.calls.part_calls import Chains, Disagreeing, PartCalls
from flows.variants.calls.samples import Mixed, mixed_in
from flows.variants.calls.shares import Range, Reads
from flows.variants.case_files import CaseFound
from flows.variants.differences import Differences, differences_of
from flows.variants.input import read_account
from flows.variants.input.read_account import SampleReads
from flows.variants.reads import bam_kernels
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.variants.rvd2.model import Pair
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.cases import Several

MOST_CALLS = 200
MOST_PLOTTED = 30
MOST_PLACES = 50
MOST_DISAGREEING = 10
DELETED = 0.05
"""Share of the depth at a call from which on its deletions are said."""
CALLABLE = 0.9
"""Share of the positions that are callable from which on that is no reservation."""
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Limits of detection by which positions are counted."""


@dataclass(frozen=True)
class ReplicateReads:
    """The reads of one replicate at a call; of a panel's sample those of all its replicates."""

    sample: str
    replicate: str
    reads: Reads


@dataclass(frozen=True)
class Tested:
    """What a filter compared at a call, and what came of it."""

    compared: Compared
    result: Literal["passed", "removed", "not run", "too few reads", "all alike"]


@dataclass(frozen=True)
class Call:
    """An allele that is called.

    Attributes
    ----------
    case
        In which case.
    chrom, pos, ref, alt
        Where and what, as in the VCF.
    share, expected
        Of the case's reads, by the model; and of those of what it is compared with.
    reads, control, panel
        As counted, of all replicates.
    most_in, most
        The sample of the panel with the largest share, and its reads.
    qual, q_value
        As in the VCF: -10 log10 of the probability of an error, and the q-value.
    filters
        Those that removed it; none where it passed.
    untested
        Filters that its reads could not test.
    deleted
        Reads of the case with a deletion there, which are part of its depth.
    replicates, tested
        The reads of each replicate, and what each filter compared.
    """

    case: str
    chrom: str
    pos: int
    ref: str
    alt: str
    share: Estimate
    expected: Estimate | None
    reads: Reads
    control: Reads | None
    panel: Reads | None
    most_in: str
    most: Reads | None
    qual: float
    q_value: float
    filters: tuple[str, ...]
    untested: tuple[str, ...]
    deleted: int
    replicates: tuple[ReplicateReads, ...]
    tested: tuple[Tested, ...]

    @property
    def risk(self) -> float:
        """The probability that the call is an error."""
        return float(10.0 ** (-0.1 * self.qual))

    @property
    def percent(self) -> Estimate:
        """The share in per cent."""
        return _in_percent(self.share)

    @property
    def is_joined(self) -> bool:
        """Whether it is several bases on the same reads."""
        return is_mnv({"ref": self.ref, "alt": self.alt})

    @property
    def is_under_deletions(self) -> bool:
        """Whether many of the case's reads have a deletion there."""
        return self.deleted >= DELETED * max(self.reads.every, 1)

    @property
    def against(self) -> Reads | None:
        """The reads of all that the case is compared with."""
        known = [one for one in (self.control, self.panel) if one is not None]
        return Reads.sum(known) if known else None


@dataclass(frozen=True)
class IndelsFound:
    """Insertions and deletions of one case.

    Attributes
    ----------
    called
        How many pass all filters.
    tested, shown
        How many alleles were tested, and how many reads show.
    fit
        Of their errors.
    places
        Where none is called though reads gather, the surest first.
    """

    called: int
    tested: int
    shown: int
    fit: IndelFit
    places: tuple[Cluster, ...]


@dataclass(frozen=True)
class Member:
    """A sample of the panel, with the factor of its errors by substitution."""

    name: str
    factors: tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """What was found in one case.

    Attributes
    ----------
    name
        Its name.
    passed, filtered
        Calls that pass all filters, and others.
    positions, locations
        Positions of the regions, and those with reads.
    callable
        Positions where the callable share would have been called; None where that is not known.
    limit
        The limit of detection that half of the locations do not exceed; None for none.
    differences
        Of its errors from those of what it is compared with; None where that was not fitted.
    indels, no_indels
        Insertions and deletions; and why they were not called.
    converged
        Whether its fit had.
    all_alike
        Whether no difference between locations was found in a sample's errors.
    chains
        Where draws disagree.
    mixed, disagreeing
        Samples of several people; alleles not called since replicates differ.
    alike
        Filters that no call could test, since its reads are all alike to them.
    known
        Calls of which it is known what their reads are like.
    """

    name: str
    passed: int
    filtered: int
    positions: int
    locations: int
    callable: int | None
    limit: float | None
    differences: Differences | None
    indels: IndelsFound | None
    no_indels: str
    converged: bool
    all_alike: bool
    chains: Chains | None
    mixed: tuple[Mixed, ...]
    disagreeing: tuple[Disagreeing, ...]
    alike: tuple[str, ...]
    known: int


@dataclass(frozen=True)
class Replicate:
    """A replicate: its file, reads that count and that do not, and its mean depth."""

    sample: str
    name: str
    file: str
    counted: int | None
    left_out: int | None
    depth: float


@dataclass(frozen=True)
class Asked:
    """What was asked: the test, its level, and what the case is compared with.

    Attributes
    ----------
    test, level
        The test, and the false discovery rate of two groups or the least probability of RVD2.
    tau, two_sided
        As in the settings.
    control, panel, against
        The samples that the case is compared with, and these in words; empty for none.
    callable_share, probability
        The share that is looked for at each position, and the probability with which it would be
        called where that is callable.
    filter_level
        Largest probability with which a filter removes a true variant.
    indels
        Whether indels are to be called.
    not_run
        By name of a filter why it did not run.
    lacking
        Those of them that lack what these counts do not have.
    """

    test: str
    level: float
    tau: float
    two_sided: bool
    control: str
    panel: tuple[str, ...]
    against: str
    callable_share: float
    probability: float
    filter_level: float
    indels: bool
    not_run: dict[str, str]
    lacking: tuple[str, ...]

    @property
    def ran(self) -> list[str]:
        """The filters of reads that ran."""
        return [name for name in READ_FILTERS if name not in self.not_run]


@dataclass(frozen=True)
class Answer:
    """What a run of variants found.

    Attributes
    ----------
    asked
        What was asked.
    passed, filtered
        Calls of all cases that pass all filters, and others.
    cases
        Each case.
    calls
        The surest calls of all cases, the best first.
    limits
        How many positions with reads have a limit of detection up to each of `SHARES`, and above
        the one before; the last number is of those without a limit. None where it is not known.
    missed, panel
        Of a run of one case: the first regions that are not callable, and the panel's samples.
    replicates, thin
        Each replicate, and the names of those with next to no reads.
    reads
        By replicate, how many reads and bases each rule left out.
    files, seen
        Input files, and how many of them the fit has read that is applied.
    """

    asked: Asked
    passed: int
    filtered: int
    cases: tuple[Case, ...]
    calls: tuple[Call, ...]
    limits: tuple[int, ...] | None
    missed: tuple[detection.Missed, ...]
    panel: tuple[Member, ...]
    replicates: tuple[Replicate, ...]
    thin: tuple[str, ...]
    reads: dict[str, dict[str, int]] = field(default_factory=dict)
    files: int = 0
    seen: int = 0

    @property
    def first(self) -> Case:
        """The case, where there is one."""
        return self.cases[0]

    @property
    def best(self) -> Call | None:
        """The surest call that passes all filters."""
        return next((call for call in self.calls if not call.filters), None)

    @property
    def with_some(self) -> int:
        """How many cases have a variant."""
        return sum(case.passed > 0 for case in self.cases)

    @property
    def callable(self) -> Range:
        """Positions of a case where the callable share would have been called."""
        return Range.of(case.callable for case in self.cases if case.callable is not None)

    @property
    def positions(self) -> int:
        """Positions of the regions."""
        return max(case.positions for case in self.cases)

    @property
    def is_hardly_callable(self) -> bool:
        """Whether at many positions of a case no allele of the callable share would be called."""
        low = self.callable.low
        return low is not None and low < CALLABLE * self.positions

    @property
    def median_limit(self) -> Range:
        """The limits of detection of the cases, in per cent."""
        return Range.of(100.0 * case.limit for case in self.cases if case.limit is not None)

    def shares(self) -> list[tuple[str, list[tuple[float | None, ...]]]]:
        """Return the shares of the first calls, in per cent, for a chart: of each sample."""
        shown = self.calls[:MOST_PLOTTED]
        name = self.first.name if len(self.cases) == 1 else "case"
        series = [(name, [_ends(call.share) for call in shown])]
        if self.asked.against:
            of_others = [_ends(call.expected) for call in shown if call.expected is not None]
            series.append((self.asked.against, of_others))
        return series


def answer(finished: Finished) -> Answer:
    """Return what was found in every case."""
    settings, model = finished.settings, finished.model
    found: list[CaseFound] = list(finished.summaries)
    of_one, converged = model, [True] * len(found)
    if isinstance(model, Several):
        of_one = model.model
        if finished.q.converged.any():  # else it is said of the run
            converged = finished.q.converged.tolist()
    parts = [part for one in found for part in one.parts]
    asked = _asked(parts, settings)
    every = ((one.name, call) for one in found for part in one.parts for call in part.calls)
    calls = nlargest(MOST_CALLS, every, key=lambda pair: pair[1]["qual"])
    limits = [part.limits for part in parts if part.limits is not None]
    samples = [one.parts[0].sample_reads for one in found]
    reads = [one for one in samples if one is not None]
    alone = found[0].parts if len(found) == 1 else []
    missed = detection.join_missed([part.missed for part in alone])
    members = []
    if settings.members and len(found) == 1 and isinstance(of_one, BatchNull):
        factors = np.exp(found[0].q.member_shift).tolist()
        members = list(map(Member, settings.controls, map(tuple, factors)))
    cases = [_case(one, of_one, own, settings) for one, own in zip(found, converged, strict=True)]
    return Answer(
        asked=asked,
        passed=sum(case.passed for case in cases),
        filtered=sum(case.filtered for case in cases),
        cases=tuple(cases),
        calls=tuple(_call(call, settings.of_case(name), asked) for name, call in calls),
        limits=_limits(limits) if limits else None,
        missed=tuple(missed[: part_calls.MOST_MISSED]),
        panel=tuple(members),
        replicates=_replicates(reads),
        thin=tuple(dict.fromkeys(name for one in reads for name in one.thin)),
        reads={
            name: row for one in reads for name, row in read_account.as_rows(one, settings).items()
        },
        files=finished.files,
        seen=finished.seen,
    )


def _asked(parts: Sequence[PartCalls], settings: VariantSettings) -> Asked:
    not_run = part_calls.filters_not_run(parts, settings)
    two_groups = settings.test == "two_groups"
    return Asked(
        test=settings.test,
        level=settings.fdr if two_groups else 1.0 - ALPHA,
        tau=settings.tau,
        two_sided=settings.two_sided,
        control=settings.control or "",
        panel=tuple(settings.members),
        against=settings.compared_with,
        callable_share=settings.callable_share,
        probability=detection.PROBABILITY,
        filter_level=settings.filter_level,
        indels=settings.indels,
        not_run=not_run,
        lacking=tuple(name for name, why in not_run.items() if why in part_calls.LACKING),
    )


def _case(found: CaseFound, model: Any, converged: bool, settings: VariantSettings) -> Case:
    parts, q = found.parts, found.q
    calls = [call for part in parts for call in part.calls]
    filtered = sum(bool(call["filters"]) for call in calls)
    known = [own for call in calls if (own := compared(call, settings.skipped_filters))]
    disagreeing = [one for part in parts for one in part.disagreeing]
    limits = [part.limits for part in parts if part.limits is not None]
    chains = Chains.merge([p.chains for p in parts if p.chains is not None])
    return Case(
        name=found.name,
        passed=len(calls) - filtered,
        filtered=filtered,
        positions=part_calls.positions_of(parts),
        locations=sum(part.locations for part in parts),
        callable=part_calls.callable_of(parts) if limits else None,
        limit=detection.LimitCounts.merge(limits).quantile(0.5) if limits else None,
        differences=differences_of(q) if isinstance(model, BatchNull) else None,
        indels=_indels(parts),
        no_indels=parts[0].no_indels or "",
        converged=converged,
        all_alike=isinstance(model, Pair) and model.is_all_alike(q),
        chains=chains if chains.locations else None,
        mixed=mixed_in([part.mixed for part in parts]),
        disagreeing=tuple(nlargest(MOST_DISAGREEING, disagreeing, key=lambda one: one.prob)),
        alike=tuple(name for name in READ_FILTERS if _is_alike(name, known)),
        known=len(known),
    )


def _call(call: dict[str, Any], settings: VariantSettings, asked: Asked) -> Call:
    expected = None
    if settings.controls:
        expected = Estimate(float(call["CMU"]), *map(float, call["CMUCI"]))
    by_role = {
        role: [Reads(int(reads), int(every)) for reads, every in pairs]
        for role, pairs in call["replicates"].items()
    }
    panel = by_role.get("panel", [])
    most = max(range(len(panel)), key=lambda k: panel[k].share) if len(panel) > 1 else 0
    is_carried = len(panel) > 1 and panel[most].allele > 0
    names = {"case": settings.case, "control": str(settings.control)}
    return Call(
        case=settings.case,
        chrom=call["chrom"],
        pos=call["pos"],
        ref=call["ref"],
        alt=call["alt"],
        share=Estimate(float(call["MU"]), *map(float, call["MUCI"])),
        expected=expected,
        reads=Reads.sum(by_role["case"]),
        control=Reads.sum(by_role["control"]) if "control" in by_role else None,
        panel=Reads.sum(panel) if panel else None,
        most_in=settings.members[most] if is_carried else "",
        most=panel[most] if is_carried else None,
        qual=float(call["qual"]),
        q_value=float(call["QV"]),
        filters=tuple(call["filters"]),
        untested=tuple(untested(call, settings)),
        deleted=int(call.get("deleted", 0)),
        replicates=tuple(
            ReplicateReads(names[role], str(k + 1), reads)
            if role in names
            else ReplicateReads(settings.members[k], "all", reads)
            for role, own in by_role.items()
            for k, reads in enumerate(own)
        ),
        tested=tuple(
            Tested(one, _result(one, call["filters"], asked.not_run)) for one in compared(call)
        ),
    )


def _result(
    one: Compared, removed_by: Sequence[str], not_run: dict[str, str]
) -> Literal["passed", "removed", "not run", "too few reads", "all alike"]:
    if one.filter in not_run:
        return "not run"
    if one.filter in removed_by:
        return "removed"
    if one.is_testable:
        return "passed"
    return "all alike" if one.is_alike else "too few reads"


def _is_alike(name: str, calls: Sequence[Sequence[Compared]]) -> bool:
    """Whether the reads of every call are all alike to a filter."""
    own = [one for call in calls for one in call if one.filter == name]
    return bool(own) and all(one.is_alike for one in own)


def _indels(parts: Sequence[PartCalls]) -> IndelsFound | None:
    fit = parts[0].indel_fit
    if fit is None:
        return None
    found = [part.indels for part in parts if part.indels is not None]
    places = sorted((one for part in found for one in part.clusters), key=lambda one: one.p)
    return IndelsFound(
        called=sum(not call["filters"] for part in found for call in part.calls),
        tested=sum(part.units for part in found),
        shown=sum(part.alleles for part in found),
        fit=fit,
        places=tuple(places[:MOST_PLACES]),
    )


def _limits(parts: Sequence[detection.LimitCounts]) -> tuple[int, ...]:
    every = detection.LimitCounts.merge(parts)
    at = np.searchsorted(SHARES, every.share)  # no limit, which is NaN, comes last
    return tuple(np.bincount(at, every.count, len(SHARES) + 1).astype(int).tolist())


def _replicates(samples: Sequence[SampleReads]) -> tuple[Replicate, ...]:
    """Return every replicate once: a control is one of every case."""
    found: dict[tuple[str, str], Replicate] = {}
    for reads in samples:
        for r, (sample, replicate) in enumerate(reads.columns):
            counted = left_out = None
            if reads.account is not None:
                counted = int(read_account.kept_reads(reads.account[r]))
                left_out = int(reads.account[r, bam_kernels.REACHED]) - counted
            depth = float(reads.depth[r, 0]) / max(reads.positions, 1)
            file = storage.shown(reads.files[r]) if reads.files else ""
            one = Replicate(sample, replicate, file, counted, left_out, depth)
            found.setdefault((sample, replicate), one)
    return tuple(found.values())


def _in_percent(one: Estimate) -> Estimate:
    low, high = (None if end is None else 100.0 * end for end in (one.low, one.high))
    return Estimate(100.0 * one.value, low, high)


def _ends(one: Estimate) -> tuple[float | None, ...]:
    percent = _in_percent(one)
    return percent.value, percent.low, percent.high
