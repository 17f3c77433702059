"""What is answered of one case: its calls, its indels, and how its errors differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Literal

import numpy as np

from flows.evaluate.estimate import Estimate
from flows.variants.calls import detection, part_calls
from flows.variants.calls.alleles import Compared, compared, is_mnv, untested
from flows.variants.calls.part_calls import Chains, Cluster, Disagreeing, IndelFit, PartCalls
from flows.variants.calls.samples import Mixed, Reads, mixed_in
from flows.variants.case_files import CaseFound
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.core.state import FloatArray
from vbmodels.variants.panel.model import PanelGlobal
from vbmodels.variants.rvd2.model import Pair
from vbmodels.variants.two_groups.batch_null import BatchGlobal, BatchNull, names_of_types
from vbmodels.variants.two_groups.contexts import names_of_contexts

MOST_PLACES = 50
MOST_DISAGREEING = 10
DELETED = 0.05
"""Share of the depth at a call from which on its deletions are said."""


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
        return in_percent(self.share)

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
        known = [reads for reads in (self.control, self.panel) if reads is not None]
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


def case_of(case: CaseFound, model: Any, converged: bool, settings: VariantSettings) -> Case:
    """Return what was found in a case."""
    parts, q = case.parts, case.q
    calls = [call for part in parts for call in part.calls]
    filtered = sum(bool(call["filters"]) for call in calls)
    known = [c for call in calls if (c := compared(call, settings.skipped_filters))]
    disagreeing = [d for part in parts for d in part.disagreeing]
    limits = [part.limits for part in parts if part.limits is not None]
    callable_regions = [part.callable for part in parts if part.callable is not None]
    chains = Chains.merge([p.chains for p in parts if p.chains is not None])
    return Case(
        name=case.name,
        passed=len(calls) - filtered,
        filtered=filtered,
        positions=part_calls.positions_of(parts),
        locations=sum(part.locations for part in parts),
        callable=sum(region.positions for region in callable_regions) if limits else None,
        limit=detection.LimitCounts.merge(limits).quantile(0.5) if limits else None,
        differences=differences_of(q) if isinstance(model, BatchNull) else None,
        indels=_indels(parts),
        no_indels=parts[0].no_indels or "",
        converged=converged,
        all_alike=isinstance(model, Pair) and model.is_all_alike(q),
        chains=chains if chains.locations else None,
        mixed=mixed_in([part.mixed for part in parts]),
        disagreeing=tuple(nlargest(MOST_DISAGREEING, disagreeing, key=lambda d: d.prob)),
        alike=tuple(name for name in READ_FILTERS if _is_alike(name, known)),
        known=len(known),
    )


def call_of(call: dict[str, Any], settings: VariantSettings, not_run: dict[str, str]) -> Call:
    """Return a call as it is shown; ``not_run`` says why filters did not run."""
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
            for role, of_role in by_role.items()
            for k, reads in enumerate(of_role)
        ),
        tested=tuple(Tested(c, _result(c, call["filters"], not_run)) for c in compared(call)),
    )


def _result(
    comparison: Compared, removed_by: Sequence[str], not_run: dict[str, str]
) -> Literal["passed", "removed", "not run", "too few reads", "all alike"]:
    if comparison.filter in not_run:
        return "not run"
    if comparison.filter in removed_by:
        return "removed"
    if comparison.is_testable:
        return "passed"
    return "all alike" if comparison.is_alike else "too few reads"


def _is_alike(name: str, calls: Sequence[Sequence[Compared]]) -> bool:
    """Whether the reads of every call are all alike to a filter."""
    by_filter = [c for call in calls for c in call if c.filter == name]
    return bool(by_filter) and all(c.is_alike for c in by_filter)


def _indels(parts: Sequence[PartCalls]) -> IndelsFound | None:
    fit = parts[0].indel_fit
    if fit is None:
        return None
    indels = [part.indels for part in parts if part.indels is not None]
    places = sorted((c for part in indels for c in part.clusters), key=lambda c: c.p)
    return IndelsFound(
        called=sum(not call["filters"] for part in indels for call in part.calls),
        tested=sum(part.units for part in indels),
        shown=sum(part.alleles for part in indels),
        fit=fit,
        places=tuple(places[:MOST_PLACES]),
    )


def in_percent(share: Estimate) -> Estimate:
    """Return a share in per cent."""
    low, high = (None if end is None else 100.0 * end for end in (share.low, share.high))
    return Estimate(100.0 * share.value, low, high)


LEAST_SHIFT, LEAST_Z = 0.4, 4.0  # of a logarithm of a factor that is marked, and its z
LEAST_CONTEXT_Z = 5.0  # of 192, whose errors are given b_t and some 1.3 times too small
MOST_TAU, MOST_V = 0.5, 0.02  # between replicates


@dataclass(frozen=True)
class Factor:
    """Errors of a substitution: the case's rate over that of what it is compared with.

    Attributes
    ----------
    name
        Of the substitution.
    factor
        With its 95 % interval.
    rate
        The rate of what the case is compared with.
    """

    name: str
    factor: Estimate
    rate: float

    @property
    def is_apart(self) -> bool:
        """Whether the interval does not include 1."""
        low, high = self.factor.low, self.factor.high
        return low is not None and high is not None and not low <= 1.0 <= high


@dataclass(frozen=True)
class Marked:
    """A substitution, or its context, whose factor is large and sure."""

    name: str
    factor: float


@dataclass(frozen=True)
class Differences:
    """The differences between a case's errors and those of what it is compared with.

    Attributes
    ----------
    factors
        By substitution.
    overall
        The mean factor, where all are far from 1; else None.
    marked
        Substitutions that are far from 1; where all are, from their mean.
    contexts
        Contexts that are far from their substitution's factor, the furthest first.
    site_sd, outlying
        How far sites differ beyond that (sd of the logit), and the share that are far off.
    sites_differ
        Whether that is more than between replicates.
    """

    factors: tuple[Factor, ...]
    overall: float | None
    marked: tuple[Marked, ...]
    contexts: tuple[Marked, ...]
    site_sd: float
    outlying: float
    sites_differ: bool

    @property
    def largest(self) -> Factor:
        """The factor that is furthest from 1."""
        return max(self.factors, key=lambda f: abs(np.log(f.factor.value)))


def differences_of(q: BatchGlobal) -> Differences:
    """Return the differences that a fit of the batch-aware null found."""
    assert q.errors is not None
    half = 1.96 * q.errors.of_type
    rate, factor = q.a / (q.a + q.b), np.exp(q.shift)
    ends = np.exp(q.shift - half), np.exp(q.shift + half)
    estimates = map(Estimate, factor.tolist(), *(end.tolist() for end in ends))
    overall = abs(q.shift_mean) > max(LEAST_SHIFT, LEAST_Z * q.errors.of_mean) and bool(
        np.all(np.abs(q.shift) > 0.5 * LEAST_SHIFT)
    )
    off = q.shift - q.shift_mean if overall else q.shift
    return Differences(
        factors=tuple(map(Factor, names_of_types(), estimates, rate.tolist())),
        overall=float(np.exp(q.shift_mean)) if overall else None,
        marked=_marked(names_of_types(), factor, off, LEAST_Z * q.errors.of_type),
        contexts=_contexts(q),
        site_sd=float(q.tau),
        outlying=float(q.v),
        # What is usual between samples a panel shows, and tau has learned it.
        sites_differ=bool((q.tau > MOST_TAU and not isinstance(q, PanelGlobal)) or q.v > MOST_V),
    )


def _contexts(q: BatchGlobal) -> tuple[Marked, ...]:
    if q.of_context is None or q.errors is None or q.errors.of_context is None:
        return ()
    off = q.of_context - q.shift[:, None]
    off[:, -1] = 0.0  # of unknown neighbours
    order = np.argsort(-np.abs(off), axis=None, kind="stable")
    flat = (np.exp(q.of_context), off, LEAST_CONTEXT_Z * q.errors.of_context)
    names = np.array(names_of_contexts())[order].tolist()
    return _marked(names, *(values.ravel()[order] for values in flat))


def _marked(
    names: list[str], factor: FloatArray, off: FloatArray, least: FloatArray
) -> tuple[Marked, ...]:
    """Return those whose logarithm is off by more than chance and by an effect that matters."""
    sure = np.flatnonzero((np.abs(off) > LEAST_SHIFT) & (np.abs(off) > least))
    return tuple(Marked(names[i], float(factor[i])) for i in sure.tolist())
