"""Reads with insertions and deletions as BAM files, their sheet, their FASTA and the truth."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pysam

from tests.flows.variants.bams import CONTIG, write_files
from tests.flows.variants.slippage import (
    Indel,
    Read,
    draw_indels,
    draw_reads,
    draw_reference,
    runs_of,
    slip_rates,
)
from vbmodels.core.state import IntArray
from vbmodels.variants.counts import BASES


@dataclass(frozen=True)
class ReadScenario:
    """What is drawn; see `tests.flows.variants.slippage`.

    Attributes
    ----------
    meaning
        What it stands for.
    share, every
        Share of an allele among the case's molecules, and one allele in how many bases.
    factor
        By how much the case's polymerase slips more.
    depth, replicates
        Mean reads of a position, and replicates of each sample.
    """

    meaning: str
    share: float = 0.05
    every: int = 0
    factor: float = 1.0
    depth: int = 1000
    replicates: int = 2


def write_reads(target: str, length: int, seed: int, what: ReadScenario) -> list[str]:
    """Write reads over a reference of ``length`` bases; return the URLs.

    The truth is ``indels``; see `tests.flows.variants.bams.write_files`.
    """
    rng = np.random.default_rng(seed)
    reference = draw_reference(rng, length)
    slips = slip_rates(rng, runs_of(reference))
    n = length // what.every if what.every else 0
    indels = draw_indels(rng, reference, n, what.share)
    letters = "".join(BASES[b] for b in reference)

    def reads(sample: str, header: pysam.AlignmentHeader) -> Iterator[pysam.AlignedSegment]:
        case = sample == "case"
        return _aligned(
            rng,
            draw_reads(
                rng, reference, slips, indels if case else [], what.depth,
                factor=what.factor if case else 1.0,
            ),
            header,
        )  # fmt: skip

    truth = _truth(indels, reference)
    return write_files(target, letters, what.replicates, reads, "indels", truth)


def _truth(indels: Sequence[Indel], reference: IntArray) -> pa.Table:
    pairs = [indel.alleles(reference) for indel in indels]
    return pa.table(
        {
            "chrom": pa.array([CONTIG] * len(indels), pa.string()),
            "pos": pa.array([indel.anchor + 1 for indel in indels], pa.int64()),
            "ref": pa.array([ref for ref, _ in pairs], pa.string()),
            "alt": pa.array([alt for _, alt in pairs], pa.string()),
            "share": pa.array([indel.share for indel in indels], pa.float64()),
        }
    )


def _aligned(
    rng: np.random.Generator, reads: Iterable[Read], header: pysam.AlignmentHeader
) -> Iterator[pysam.AlignedSegment]:
    letters = np.array(list(BASES))
    for i, drawn in enumerate(reads):
        read = pysam.AlignedSegment(header)
        read.query_name, read.flag = f"read{i}", 16 if drawn.reverse else 0
        read.query_sequence = "".join(letters[drawn.bases])
        read.reference_id, read.reference_start = 0, drawn.start
        read.mapping_quality, read.cigartuples = 60, drawn.cigar
        quality = rng.choice([25, 37, 37, 37], len(drawn.bases))
        read.query_qualities = pysam.qualitystring_to_array("".join(map(chr, quality + 33)))
        yield read
