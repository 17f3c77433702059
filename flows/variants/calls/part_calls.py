"""What a partition adds to the VCF and the report, and what partitions have together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flows.variants.calls import detection, indel_clusters
from flows.variants.calls.samples import Mixed
from flows.variants.input.read_account import SampleReads
from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.core.state import FloatArray

MOST_MISSED = 10  # regions that are not callable
GOOD_R_HAT = 1.05
NO_STRANDS = "these counts do not have the strands of reads"
NO_READS = "these counts do not have the qualities of reads"
LACKING = (NO_STRANDS, NO_READS)


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
        known = [one.largest for one in parts if one.largest is not None]
        largest = max(known, default=None) if len(known) == len(parts) else None
        return cls(sum(one.locations for one in parts), largest)


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
    depth: tuple[tuple[str, int, float, float], ...] = field(default=())
    chains: Chains | None = None  # of draws
    strands: bool = True  # whether it is known on which strand a read lies
    reads: bool = True  # whether it is known what reads are like
    limits: detection.LimitCounts | None = None
    callable: bytes = b""  # BED of where the callable share would be called
    missed: tuple[detection.Missed, ...] = ()  # the first regions where it would not
    indels: indel_clusters.PartIndels | None = None
    indel_fit: indel_clusters.IndelFit | None = None  # the same of every partition
    no_indels: str | None = None  # why they were not called
    mixed: tuple[Mixed, ...] = ()
    disagreeing: tuple[Disagreeing, ...] = ()
    sample_reads: SampleReads | None = None  # what is known of the replicates' reads


def filters_not_run(parts: Sequence[PartCalls], settings: VariantSettings) -> dict[str, str]:
    """Return the filters that did not run on these partitions, and why."""
    found = {}
    if not all(part.strands for part in parts):
        found["strand_bias"] = NO_STRANDS
    if not all(part.reads for part in parts):
        found |= {name: NO_READS for name in READ_FILTERS if name != "strand_bias"}
    return found | {
        name: "skip_filters names it" for name in READ_FILTERS if name in settings.skipped_filters
    }


def positions_of(parts: Sequence[PartCalls]) -> int:
    """Return how many positions the regions have, those without reads included."""
    locations = sum(p.locations for p in parts)
    reads = parts[0].sample_reads if parts else None
    return locations if reads is None else max(reads.positions, locations)


def callable_of(parts: Sequence[PartCalls]) -> int:
    """Return at how many positions the callable share would be called."""
    return sum(detection.positions(part.callable) for part in parts)
