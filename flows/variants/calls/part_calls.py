"""What a partition adds to the VCF and the report, and what partitions have together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.variants.calls import detection
from flows.variants.calls.samples import Mixed, Reads
from flows.variants.input.counts import Loci
from flows.variants.input.read_account import SampleReads
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.variants.counts import Units

MOST_MISSED = 10  # regions that are not callable
GOOD_R_HAT = 1.05
NO_STRANDS = "these counts do not have the strands of reads"
NO_READS = "these counts do not have the qualities of reads"


@dataclass(frozen=True)
class Chains:
    """Draws that disagree: at how many locations, and the largest R-hat; None for no limit."""

    locations: int
    largest: float | None

    @classmethod
    def of(cls, r_hat: FloatArray) -> Chains:
        """Return those of some locations [J]; where nothing varies there is no R-hat."""
        largest = float(np.fmax.reduce(r_hat, initial=1.0))
        locations = int((r_hat > GOOD_R_HAT).sum())
        return cls(locations, largest if np.isfinite(largest) else None)

    @classmethod
    def merge(cls, parts: Sequence[Chains]) -> Chains:
        """Return those of several partitions."""
        known = [part.largest for part in parts if part.largest is not None]
        largest = max(known, default=None) if len(known) == len(parts) else None
        return cls(sum(part.locations for part in parts), largest)


@dataclass(frozen=True)
class Disagreeing:
    """An allele that is not called though it is likely: the case's replicates differ.

    Attributes
    ----------
    chrom, pos, ref, alt
        Which.
    prob
        Probability of a variant.
    reads
        Reads of each replicate that show it.
    """

    chrom: str
    pos: int
    ref: str
    alt: str
    prob: float
    reads: tuple[int, ...]


@dataclass(frozen=True)
class PartCalls:
    """What one partition adds to the VCF and the report."""

    locations: int
    contigs: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]
    chains: Chains | None = None  # of draws
    strands: bool = True  # whether it is known on which strand a read lies
    reads: bool = True  # whether it is known what reads are like
    limits: detection.LimitCounts | None = None
    callable: detection.Intervals | None = None  # where the callable share would be called
    missed: tuple[detection.Missed, ...] = ()  # the first regions where it would not
    indels: PartIndels | None = None
    indel_fit: IndelFit | None = None  # the same of every partition
    no_indels: str | None = None  # why they were not called
    mixed: tuple[Mixed, ...] = ()
    disagreeing: tuple[Disagreeing, ...] = ()
    sample_reads: SampleReads | None = None  # what is known of the replicates' reads


def filters_not_run(parts: Sequence[PartCalls], settings: VariantSettings) -> dict[str, str]:
    """Return the filters that did not run on these partitions, and why."""
    reasons = {}
    if not all(part.strands for part in parts):
        reasons["strand_bias"] = NO_STRANDS
    if not all(part.reads for part in parts):
        reasons |= {name: NO_READS for name in READ_FILTERS if name != "strand_bias"}
    return reasons | {
        name: "skip_filters names it" for name in READ_FILTERS if name in settings.skipped_filters
    }


def positions_of(parts: Sequence[PartCalls]) -> int:
    """Return how many positions the regions have, those without reads included."""
    locations = sum(p.locations for p in parts)
    reads = parts[0].sample_reads if parts else None
    return locations if reads is None else max(reads.positions, locations)


# An aligner that cannot decide writes one event in many ways, or clips it; no single allele then
# has reads enough. Places where such reads gather are listed, for a look at them.
NEAR = 10  # bases between neighbouring anchors of a cluster
LEAST_CLUSTERED = 4
LEVEL = 1e-3
LEAST_RATIO = 2.0  # of the case's share to the control's
USUAL_SHARE = 0.005  # of reads with an indel, where there is no control
MOST_CLUSTERS = 50  # of a partition


@dataclass(frozen=True)
class PartIndels:
    """What one partition's insertions and deletions add to the VCF and the report.

    Attributes
    ----------
    units, alleles
        How many were tested; and different alleles that reads show.
    calls
        As `flows.variants.calls.vcf.write_vcf` takes them.
    clusters
        Where reads with indels gather of which none is called.
    """

    units: int
    alleles: int
    calls: tuple[dict[str, Any], ...]
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True)
class IndelRate:
    """Errors of one kind: the control's rate, and the factor of the case's, 1 without a shift."""

    kind: str
    rate: float
    factor: float


@dataclass(frozen=True)
class IndelFit:
    """What was fitted to the insertions and deletions.

    Attributes
    ----------
    rates
        By kind; none where no allele has two reads.
    converged
        Whether the fit had.
    iterations
        Its sweeps.
    """

    rates: tuple[IndelRate, ...]
    converged: bool
    iterations: int


@dataclass(frozen=True)
class Cluster:
    """Anchors near each other whose reads with uncalled indels are more in the case.

    Attributes
    ----------
    contig, start, stop
        Where: positions from 1, both included.
    alleles
        How many different alleles the case's reads show.
    case, control
        Reads with one of them, and the largest depth.
    p
        Fisher's exact test, one-sided: the case's share against the control's; without a control
        against half a per cent of reads.
    """

    contig: str
    start: int
    stop: int
    alleles: int
    case: Reads
    control: Reads
    p: float

    @property
    def name(self) -> str:
        """Where, as people write it."""
        end = f"-{self.stop}" if self.stop > self.start else ""
        return f"{self.contig}:{self.start}{end}"


def clusters(alleles: Units, called: BoolArray, loci: Loci) -> tuple[Cluster, ...]:
    """Return the clusters of a partition, the surest first.

    A cluster with a called allele is left out, since its other alleles are mostly the same event.

    Parameters
    ----------
    alleles, called
        Units of the alleles that reads show, sorted by location, and which of them are called.
    loci
        Where the partition's locations are.
    """
    reads = alleles.alt_reads[:, alleles.case].sum(axis=1)
    rows = np.flatnonzero((reads > 0) | called)
    if not rows.size:
        return ()
    chrom, pos = loci.chrom[alleles.location[rows]], loci.pos[alleles.location[rows]]
    apart = (np.diff(pos) > NEAR) | (chrom[1:] != chrom[:-1])
    clustered = []
    for group in np.split(rows, np.flatnonzero(apart) + 1):
        if called[group].any() or reads[group].sum() < LEAST_CLUSTERED:
            continue
        case, control = (_share(alleles, group, m) for m in (alleles.case, ~alleles.case))
        p = _tail(case, control)
        enough = case.allele * control.every >= LEAST_RATIO * control.allele * case.every
        if p < LEVEL and enough:
            where = loci.pos[alleles.location[group]]
            contig = str(loci.chrom[alleles.location[group[0]]])
            clustered.append(
                Cluster(contig, int(where[0]), int(where[-1]), len(group), case, control, p)
            )
    return tuple(sorted(clustered, key=lambda c: (c.p, c.start))[:MOST_CLUSTERS])


def _tail(case: Reads, control: Reads) -> float:
    """Return the probability of as many reads in the case by chance."""
    from scipy.stats import binom, hypergeom

    if not control.every:
        return float(binom.sf(case.allele - 1, case.every, USUAL_SHARE))
    both = Reads.sum([case, control])
    return float(hypergeom.sf(case.allele - 1, both.every, both.allele, case.every))


def _share(alleles: Units, group: np.ndarray, member: BoolArray) -> Reads:
    """Return reads with an allele of the group, and depth; no more of the former."""
    if not member.any():
        return Reads(0, 0)
    reads = int(alleles.alt_reads[group][:, member].sum())
    depth = int(alleles.depth[group][:, member].sum(axis=1).max())
    return Reads(min(reads, depth), depth)
