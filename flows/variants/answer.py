"""What variants answers: the calls, what would have been called, and how the samples differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest

import numpy as np

from flows import storage
from flows.evaluate.estimate import Estimate
from flows.family import Finished
from flows.variants.calls import detection, part_calls
from flows.variants.calls.calls import ALPHA
from flows.variants.calls.part_calls import PartCalls
from flows.variants.calls.samples import Range
from flows.variants.case_answer import (
    Call,
    Case,
    call_of,
    case_of,
    in_percent,
)
from flows.variants.case_files import CaseFound
from flows.variants.input import read_account
from flows.variants.input.read_account import SampleReads
from flows.variants.reads import bam_kernels
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.cases import Several

MOST_CALLS = 200
MOST_PLOTTED = 30
CALLABLE = 0.9
"""Share of the positions that are callable from which on that is no reservation."""
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Limits of detection by which positions are counted."""


@dataclass(frozen=True)
class Member:
    """A sample of the panel, with the factor of its errors by substitution."""

    name: str
    factors: tuple[float, ...]


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
    results: list[CaseFound] = list(finished.summaries)
    of_one, converged = model, [True] * len(results)
    if isinstance(model, Several):
        of_one = model.model
        if finished.q.converged.any():  # else it is said of the run
            converged = finished.q.converged.tolist()
    parts = [part for case in results for part in case.parts]
    asked = _asked(parts, settings)
    every = ((case.name, call) for case in results for part in case.parts for call in part.calls)
    calls = nlargest(MOST_CALLS, every, key=lambda pair: pair[1]["qual"])
    limits = [part.limits for part in parts if part.limits is not None]
    samples = [case.parts[0].sample_reads for case in results]
    reads = [s for s in samples if s is not None]
    alone = results[0].parts if len(results) == 1 else []
    missed = detection.join_missed([part.missed for part in alone])
    members = []
    if settings.members and len(results) == 1 and isinstance(of_one, BatchNull):
        factors = np.exp(results[0].q.member_shift).tolist()
        members = list(map(Member, settings.controls, map(tuple, factors)))
    cases = [case_of(c, of_one, ok, settings) for c, ok in zip(results, converged, strict=True)]
    return Answer(
        asked=asked,
        passed=sum(case.passed for case in cases),
        filtered=sum(case.filtered for case in cases),
        cases=tuple(cases),
        calls=tuple(call_of(call, settings.of_case(name), asked.not_run) for name, call in calls),
        limits=_limits(limits) if limits else None,
        missed=tuple(missed[: part_calls.MOST_MISSED]),
        panel=tuple(members),
        replicates=_replicates(reads),
        thin=tuple(dict.fromkeys(name for s in reads for name in s.thin)),
        reads={name: row for s in reads for name, row in read_account.as_rows(s, settings).items()},
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
        lacking=tuple(name for name in not_run if name not in settings.skipped_filters),
    )


def _limits(parts: Sequence[detection.LimitCounts]) -> tuple[int, ...]:
    every = detection.LimitCounts.merge(parts)
    bins = np.searchsorted(SHARES, every.share)  # no limit, which is NaN, comes last
    return tuple(np.bincount(bins, every.count, len(SHARES) + 1).astype(int).tolist())


def _replicates(samples: Sequence[SampleReads]) -> tuple[Replicate, ...]:
    """Return every replicate once: a control is one of every case."""
    by_name: dict[tuple[str, str], Replicate] = {}
    for reads in samples:
        for r, (sample, replicate) in enumerate(reads.columns):
            counted = left_out = None
            if reads.account is not None:
                counted = int(read_account.kept_reads(reads.account[r]))
                left_out = int(reads.account[r, bam_kernels.REACHED]) - counted
            depth = float(reads.depth[r, 0]) / max(reads.positions, 1)
            file = storage.shown(reads.files[r]) if reads.files else ""
            row = Replicate(sample, replicate, file, counted, left_out, depth)
            by_name.setdefault((sample, replicate), row)
    return tuple(by_name.values())


def _ends(share: Estimate) -> tuple[float | None, ...]:
    percent = in_percent(share)
    return percent.value, percent.low, percent.high
