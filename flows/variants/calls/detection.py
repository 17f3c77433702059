"""The limit of detection of every location, and the regions where a share would be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from flows.variants.calls.calls import Decision
from flows.variants.calls.samples import Range
from flows.variants.input.counts import Loci
from flows.variants.schema import DETECTION
from flows.variants.settings import VariantSettings
from vbmodels.core.state import FloatArray, IntArray, State
from vbmodels.variants.counts import BASES, Counts, Units, units
from vbmodels.variants.two_groups.model import TwoGroups
from vbmodels.variants.two_groups.posterior import least_reads, share_called

PROBABILITY = 0.95
_PARTS = 2  # steps of a doubling, to which depths and errors are rounded


def threshold(decision: Decision, settings: VariantSettings) -> float:
    """Return the log Bayes factor from which one more allele would be called.

    That of the calls; and where the run called less, that at which the local false discovery rate
    is the level, since such an allele is called with any others.
    """
    if settings.e_bh:
        return decision.least
    alone = np.log1p(-settings.fdr) - np.log(settings.fdr)
    alone += np.log1p(-decision.pi) - np.log(decision.pi)
    return min(decision.least, float(alone))


@dataclass(frozen=True)
class Conditions:
    """What limits of detection depend on, over all locations of a case.

    Attributes
    ----------
    keys
        [K, 4] different rows, rising: a replicate's depth in the case and in the control, the
        control's reads of the allele and its substitution; [K, 5] with the bases next to it.
    replicates
        Number of the case's and of the control's.
    member
        [R] which of the control's samples each replicate is of, as `Units` has it.
    """

    keys: IntArray
    replicates: tuple[int, int]
    member: IntArray | None

    @classmethod
    def of(cls, batch: Counts, q: Any) -> Conditions:
        """Return those of a partition."""
        alleles = _hardest(units(batch), q)
        replicates = int(alleles.case.sum()), int((~alleles.case).sum())
        return cls(np.unique(_keys(alleles), axis=0), replicates, alleles.member)

    @classmethod
    def union(cls, parts: Sequence[Conditions]) -> Conditions:
        """Return those of several partitions, each once."""
        return replace(parts[0], keys=np.unique(np.vstack([part.keys for part in parts]), axis=0))

    def limits(self, model: TwoGroups, q: Any, least: float) -> Limits:
        """Return the share that is called with .95 probability, NaN for none.

        ``least`` is the log Bayes factor from which an allele is called.
        """
        if not np.isfinite(least):
            return Limits(self.keys, np.full(len(self.keys), np.nan))
        case, control, errors, kind, *context = self.keys.T
        reads = least_reads(
            model, q, case, control, errors, kind, self.replicates, least, self.member, *context
        )
        precision = float(np.exp(q.log_m_mean))
        share = share_called(reads, case, self.replicates[0], precision, PROBABILITY)
        return Limits(self.keys, share)


@dataclass(frozen=True)
class Limits(State, kind="flows/variants.Limits"):
    """The limit of detection under every condition that a case's locations have.

    Attributes
    ----------
    keys
        [K, 4] or [K, 5], as `Conditions` has them.
    share
        [K] the share that is called with .95 probability; NaN for none.
    """

    keys: IntArray
    share: FloatArray

    def at(self, batch: Counts, q: Any, settings: VariantSettings) -> FloatArray:
        """Return the limit of every location of a partition, [J]; NaN for none."""
        alleles = _hardest(units(batch), q)
        row = {tuple(key): i for i, key in enumerate(self.keys.tolist())}
        limits = np.full(len(batch), np.nan)
        limits[alleles.location] = self.share[[row[tuple(key)] for key in _keys(alleles).tolist()]]
        if settings.controls:  # where none has reads no allele passes
            limits[alleles.location[alleles.depth[:, ~alleles.case].sum(axis=1) == 0]] = np.nan
        return limits


def _keys(alleles: Units) -> IntArray:
    """Return what the limit of each location depends on, [J, 4] or [J, 5].

    Depths of a sample are its replicates' mean, rounded down to the next of two steps a doubling,
    and the control's reads of an allele above 4 are rounded up so: locations that differ by less
    share a limit, which is then rather too large.
    """
    case, control = alleles.case, ~alleles.case
    depth = _down(alleles.depth[:, case].mean(axis=1))
    control_depth = np.zeros(len(alleles), int)
    if control.any():
        control_depth = _down(alleles.depth[:, control].mean(axis=1))
    errors = _up(alleles.alt_reads[:, control].sum(axis=1))
    context = [] if alleles.context is None else [alleles.context]
    return np.column_stack([depth, control_depth, errors, alleles.kind, *context]).astype(np.int64)


def _hardest(alleles: Units, q: Any) -> Units:
    """Return of each location the allele of most errors, which is hardest to find.

    By its control's reads and the rate of its substitution.
    """
    a, b = q.a[alleles.kind], q.b[alleles.kind]
    reads = alleles.alt_reads[:, ~alleles.case].sum(axis=1)
    expected = (reads + a) / (alleles.depth[:, ~alleles.case].sum(axis=1) + a + b)
    most = expected.reshape(-1, 3).argmax(axis=1)
    return alleles.take(3 * np.arange(len(most)) + most)


def _down(depth: FloatArray) -> IntArray:
    steps = np.floor(_PARTS * np.log2(np.maximum(depth, 1.0)) + 1e-9)
    return np.where(depth < 1.0, 0, np.floor(2.0 ** (steps / _PARTS) + 1e-9)).astype(np.int64)


def _up(reads: IntArray) -> IntArray:
    steps = np.ceil(_PARTS * np.log2(np.maximum(reads, 1)) - 1e-9)
    return np.where(reads <= 4, reads, np.ceil(2.0 ** (steps / _PARTS) - 1e-9)).astype(np.int64)


def table(limit: FloatArray, batch: Counts, loci: Loci, case: str) -> pa.Table:
    """Return the rows of a partition's locations."""
    depth = batch.depth
    columns = [
        pa.array([case] * len(limit), pa.string()),
        pa.array(loci.chrom.tolist(), pa.string()),
        pa.array(loci.pos),
        pa.array(np.array(list(BASES))[batch.ref].tolist(), pa.string()),
        pa.array(depth[:, batch.case].sum(axis=1).astype(np.int64)),
        pa.array(depth[:, ~batch.case].sum(axis=1).astype(np.int64)),
        pa.array(limit, from_pandas=True),
    ]
    return pa.table(columns, schema=DETECTION.arrow)


@dataclass(frozen=True)
class Intervals:
    """Positions ``start`` to ``stop`` (from 0, not included) of contigs, [N] each."""

    contig: np.ndarray
    start: IntArray
    stop: IntArray

    @classmethod
    def union(cls, parts: Sequence[Intervals]) -> Self:
        """Return those of several in order; where one begins as the one before ends, both as one.

        >>> one = Intervals(np.array(["1", "1"]), np.array([0, 5]), np.array([5, 7]))
        >>> Intervals.union([one, Intervals(np.array(["2"]), np.array([7]), np.array([9]))]).bed
        b'1\\t0\\t7\\n2\\t7\\t9\\n'
        """
        contig = np.concatenate([part.contig for part in parts])
        start = np.concatenate([part.start for part in parts])
        stop = np.concatenate([part.stop for part in parts])
        begins = np.ones(len(start), bool)
        begins[1:] = (contig[1:] != contig[:-1]) | (start[1:] != stop[:-1])
        ends = np.append(begins[1:], True)[: len(start)]
        return cls(contig[begins], start[begins], stop[ends])

    @property
    def positions(self) -> int:
        """How many positions they have."""
        return int((self.stop - self.start).sum())

    @property
    def bed(self) -> bytes:
        """Their BED file."""
        rows = zip(self.contig.tolist(), self.start.tolist(), self.stop.tolist(), strict=True)
        return "".join(f"{contig}\t{start}\t{stop}\n" for contig, start, stop in rows).encode()


def callable_regions(limit: FloatArray, loci: Loci, share: float) -> Intervals:
    """Return runs of neighbouring locations where a share would be called."""
    with np.errstate(invalid="ignore"):
        within = limit <= share
    return Intervals.union([Intervals(loci.chrom[within], loci.pos[within] - 1, loci.pos[within])])


@dataclass(frozen=True)
class Missed:
    """Neighbouring locations with reads where an allele of a given share would not be called.

    Attributes
    ----------
    contig, start, stop
        Where they are, both ends included, from 1.
    case, control
        Numbers of reads at one of them, in the case and in what it is compared with.
    limit
        Limits of detection; without a largest one where a location has no limit.
    errors, base
        The largest number of the control's reads with one other base at one of them, and the base.
    """

    contig: str
    start: int
    stop: int
    case: Range
    control: Range
    limit: Range
    errors: int = 0
    base: str = ""

    @property
    def name(self) -> str:
        """The region as people write it."""
        end = f"-{self.stop:,}" if self.stop > self.start else ""
        return f"{self.contig}:{self.start:,}{end}"

    def joins(self, other: Missed) -> bool:
        """Whether another one begins where this one ends."""
        return self.contig == other.contig and self.stop + 1 == other.start

    def joined(self, other: Missed) -> Missed:
        """Return both as one."""
        return replace(
            max(self, other, key=lambda region: (region.errors, region.base)),
            start=self.start,
            stop=other.stop,
            case=self.case.joined(other.case),
            control=self.control.joined(other.control),
            limit=self.limit.joined(other.limit),
        )


def _limits(values: FloatArray) -> Range:
    """Return the least limit, and the largest: none if a location has none."""
    known = Range.of(values[~np.isnan(values)].tolist())
    return replace(known, high=None) if np.isnan(values).any() else known


def missed_regions(
    limit: FloatArray, batch: Counts, loci: Loci, share: float, most: int
) -> tuple[Missed, ...]:
    """Return the first runs of neighbouring locations where a share would be missed."""
    with np.errstate(invalid="ignore"):
        places = np.flatnonzero(~(limit <= share))
    if not places.size:
        return ()
    begins = np.flatnonzero(
        (np.diff(loci.pos[places], prepend=-1) != 1)
        | (loci.chrom[places] != np.concatenate([[""], loci.chrom[places][:-1]]))
    )
    regions = []
    for run in np.split(places, begins[1 : most + 1])[:most]:
        depth = batch.depth[run]
        errors = batch.counts[run][:, ~batch.case].sum(axis=1)
        errors[np.arange(len(run)), batch.ref[run]] = 0
        regions.append(
            Missed(
                str(loci.chrom[run[0]]),
                int(loci.pos[run[0]]),
                int(loci.pos[run[-1]]),
                Range.of(depth[:, batch.case].sum(axis=1).tolist()),
                Range.of(depth[:, ~batch.case].sum(axis=1).tolist()),
                _limits(limit[run]),
                int(errors.max()),
                BASES[int(errors.argmax()) % len(BASES)],
            )
        )
    return tuple(regions)


def join_missed(parts: Sequence[Sequence[Missed]]) -> list[Missed]:
    """Return the regions of partitions in order; where one goes on in the next, as one."""
    whole: list[Missed] = []
    for region in (region for part in parts for region in part):
        if whole and whole[-1].joins(region):
            whole[-1] = whole[-1].joined(region)
        else:
            whole.append(region)
    return whole


@dataclass(frozen=True)
class LimitCounts:
    """How many locations have each limit of detection.

    Attributes
    ----------
    share
        [U] different limits, rising; NaN comes last, of locations where no share would be called.
    count
        [U] locations with that limit.
    """

    share: FloatArray
    count: IntArray

    @classmethod
    def of(cls, limit: FloatArray) -> LimitCounts:
        """Count the limits of a partition's locations."""
        return cls(*np.unique(limit, return_counts=True))

    @classmethod
    def merge(cls, parts: Sequence[LimitCounts]) -> LimitCounts:
        """Return the counts of several partitions."""
        share, index = np.unique(np.concatenate([p.share for p in parts]), return_inverse=True)
        count = np.zeros(len(share), np.int64)
        np.add.at(count, index, np.concatenate([p.count for p in parts]))
        return cls(share, count)

    @property
    def locations(self) -> int:
        """How many locations were counted."""
        return int(self.count.sum())

    def below(self) -> FloatArray:
        """Return the share of the locations whose limit is at most each of ``share``, [U]."""
        return np.asarray(np.cumsum(self.count) / max(self.locations, 1))

    def quantile(self, level: float) -> float | None:
        """Return the least limit that a share of the locations do not exceed; None for none.

        >>> LimitCounts.of(np.array([0.02, 0.01, 0.01, np.nan])).quantile(0.5)
        0.01
        """
        index = int(np.searchsorted(self.below(), level - 1e-12))
        if index >= len(self.share) or np.isnan(self.share[index]):
            return None
        return float(self.share[index])
