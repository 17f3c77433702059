"""Counts of a region, and those of htslib's pileup, with which ours are compared."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pysam
from numpy.typing import NDArray

from flows.variants.reads.alignments import open_alignment, quiet
from flows.variants.reads.bam_walk import Tally
from flows.variants.reads.contigs import in_file
from flows.variants.reads.reads import ReadCounter, least_quality
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from vbmodels.variants.counts import BASES


def count_region(path: str, region: Region, settings: VariantSettings, floor: int = 0) -> Tally:
    """Count one region of one file, as `ReadCounter.count` does."""
    with ReadCounter(settings) as reads:
        return reads.count(path, region, floor)


def pileup_region(path: str, region: Region, settings: VariantSettings) -> NDArray[np.int32]:
    """Return what `count_region` counts, [length, 2, 4], by htslib's pileup."""
    counts = np.zeros((region.length, 2, 4), np.int32)
    with quiet(), _for_pileup(path, region, settings) as file:
        name = in_file(region.contig, file.references)
        pileup: Any = file.pileup  # its stub does not know multiple_iterators
        columns = pileup(
            name,
            region.start,
            region.stop,
            truncate=True,
            stepper="samtools",
            max_depth=2**31 - 1,  # its cap depends on which reads came before
            min_base_quality=least_quality(settings),
            min_mapping_quality=settings.min_mapping_quality,
            ignore_overlaps=True,
            ignore_orphans=not settings.orphans,
            compute_baq=False,
            multiple_iterators=False,
        )
        for column in columns:
            shown = "".join(column.get_query_sequences())
            row = counts[column.reference_pos - region.start]
            for b, base in enumerate(BASES):
                row[0, b] = shown.count(base)
                row[1, b] = shown.count(base.lower())
    return counts


@contextmanager
def _for_pileup(
    path: str, region: Region, settings: VariantSettings
) -> Iterator[pysam.AlignmentFile]:
    """Open a file; where orphans count, a copy of its region with mates by name.

    htslib's pileup pairs mates that are flagged as a proper pair, and trusts where they say that
    the other is: in the copy every paired read is flagged so and says that it is where it is.
    """
    with open_alignment(path, settings) as file:
        if not settings.orphans:
            yield file
            return
        name = in_file(region.contig, file.references)
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "reads.bam")
            with pysam.AlignmentFile(copy, "wb", template=file) as written:
                for read in file.fetch(name, region.start, region.stop):
                    if read.is_paired:
                        read.is_proper_pair, read.mate_is_unmapped = True, False
                        read.next_reference_id = read.reference_id
                        read.next_reference_start = read.reference_start
                        read.template_length = 0
                    written.write(read)
            pysam.index(copy)
            with pysam.AlignmentFile(copy) as mated:
                yield mated
