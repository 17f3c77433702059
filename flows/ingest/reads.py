"""Base counts of regions from BAM or CRAM files, as `samtools mpileup` would see them."""

from __future__ import annotations

import numpy as np
import pysam
from numpy.typing import NDArray

from flows.ingest.alignments import local_fasta, open_alignment, quiet
from flows.ingest.regions import Region, in_file
from flows.settings import VariantSettings
from vbmodels.variants.batch import BASES

_NO_CAP = 2**31 - 1


def reference(path: str, region: Region) -> NDArray[np.int8]:
    """Return the reference bases as indices in ACGT, -1 where there is none (N)."""
    with quiet(), pysam.FastaFile(local_fasta(path)) as fasta:
        text = fasta.fetch(region.contig, region.start, region.stop).upper()
    codes = np.full(256, -1, np.int8)
    codes[[ord(b) for b in BASES]] = range(4)
    return codes[np.frombuffer(text.encode(), np.uint8)]


def count_region(path: str, region: Region, settings: VariantSettings) -> NDArray[np.int32]:
    """Count the bases of one file's reads over a region: [length, 2, 4], forward and reverse.

    Reads that are unmapped, secondary, duplicates or failed quality control are left out, as
    `samtools mpileup` does; where mates overlap, one base counts.
    """
    counts = np.zeros((region.length, 2, 4), np.int32)
    with quiet(), open_alignment(path, settings) as file:
        name = in_file(region.contig, file.references, settings.chr_names)
        columns = file.pileup(
            name,
            region.start,
            region.stop,
            truncate=True,
            stepper="samtools",
            max_depth=settings.max_depth or _NO_CAP,
            min_base_quality=settings.min_base_quality,
            min_mapping_quality=settings.min_mapping_quality,
            ignore_overlaps=settings.overlaps == "once",
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
    if settings.strand == "forward":
        counts[:, 1] = 0
    elif settings.strand == "reverse":
        counts[:, 0] = 0
    return counts
