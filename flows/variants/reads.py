"""Base counts of regions from BAM or CRAM files, as `samtools mpileup` would see them."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pysam
from numpy.typing import NDArray

from flows.variants.alignments import local_fasta, open_alignment, quiet
from flows.variants.bam_walk import Reading, Tally, tally
from flows.variants.regions import Region, in_file
from flows.variants.settings import VariantSettings
from vbmodels.variants.bases import BASES

_NO_CAP = 2**31 - 1


def base_codes(text: str) -> NDArray[np.int8]:
    """Return the bases of a text as indices in ACGT, -1 for what is none of them (N)."""
    codes = np.full(256, -1, np.int8)
    codes[[ord(b) for b in BASES]] = range(4)
    return codes[np.frombuffer(text.upper().encode(), np.uint8)]


def reference(path: str, region: Region, ahead: int = 0) -> NDArray[np.int8]:
    """Return the reference bases of a region, and some behind it, as `base_codes`."""
    with quiet(), pysam.FastaFile(local_fasta(path)) as fasta:
        return base_codes(fasta.fetch(region.contig, region.start, region.stop + ahead))


def count_region(path: str, region: Region, settings: VariantSettings) -> Tally:
    """Count the bases of one file's reads over a region, by strand, and sum what is known of them.

    Reads that are unmapped, secondary, duplicates or failed quality control are left out, as
    `samtools mpileup` does; where mates overlap, one base counts. What is counted at a position
    does not depend on where the region starts.

    With a cap on the depth htslib's pileup counts, and nothing else of the reads is known.
    """
    if settings.max_depth:
        return Tally(pileup_region(path, region, settings), None)
    reading = Reading(
        _least(settings), settings.min_mapping_quality, settings.overlaps == "once",
        settings.orphans, {"forward": 1, "reverse": 2, "both": 3}[settings.strand],
    )  # fmt: skip
    with quiet(), open_alignment(path, settings) as file, _fasta(settings) as fasta:
        name = in_file(region.contig, file.references, settings.chr_names)

        def bases(start: int, stop: int) -> NDArray[np.int8]:
            return base_codes(fasta.fetch(region.contig, start, stop))

        return tally(file, str(name), region.start, region.stop, reading, bases)


def _fasta(settings: VariantSettings) -> pysam.FastaFile:
    return pysam.FastaFile(local_fasta(str(settings.fasta)))


def _least(settings: VariantSettings) -> int:
    """Return the least quality of a base: of two mates one is left in place with quality 0."""
    least = settings.min_base_quality
    return max(least, 1) if settings.overlaps == "once" else least


def pileup_region(path: str, region: Region, settings: VariantSettings) -> NDArray[np.int32]:
    """Return what `count_region` counts, [length, 2, 4], by htslib's pileup, up to a depth."""
    counts = np.zeros((region.length, 2, 4), np.int32)
    with quiet(), _for_pileup(path, region, settings) as file:
        name = in_file(region.contig, file.references, settings.chr_names)
        pileup: Any = file.pileup  # its stub does not know multiple_iterators
        columns = pileup(
            name,
            region.start,
            region.stop,
            truncate=True,
            stepper="samtools",
            max_depth=_NO_CAP,  # its cap depends on which reads came before
            min_base_quality=_least(settings),
            min_mapping_quality=settings.min_mapping_quality,
            ignore_overlaps=settings.overlaps == "once",
            ignore_orphans=not settings.orphans,
            compute_baq=False,
            multiple_iterators=False,
        )
        for column in columns:
            bases = column.get_query_sequences()
            if settings.max_depth and len(bases) > settings.max_depth:
                bases = _drawn(bases, column.get_query_names(), settings.max_depth)
            shown = "".join(bases)
            row = counts[column.reference_pos - region.start]
            for b, base in enumerate(BASES):
                row[0, b] = shown.count(base)
                row[1, b] = shown.count(base.lower())
    if settings.strand == "forward":
        counts[:, 1] = 0
    elif settings.strand == "reverse":
        counts[:, 0] = 0
    return counts


@contextmanager
def _for_pileup(
    path: str, region: Region, settings: VariantSettings
) -> Iterator[pysam.AlignmentFile]:
    """Open a file; where orphans count and mates once, a copy of its region with mates by name.

    htslib's pileup pairs mates that are flagged as a proper pair, and trusts where they say that
    the other is: in the copy every paired read is flagged so and says that it is where it is.
    """
    with open_alignment(path, settings) as file:
        if not (settings.orphans and settings.overlaps == "once"):
            yield file
            return
        name = in_file(region.contig, file.references, settings.chr_names)
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


def _drawn(bases: Sequence[str], names: Sequence[str], most: int) -> list[str]:
    """Return the bases of the reads whose names have the least hashes, if they show any.

    So the reads are a random sample, and the same ones at neighbouring positions.
    """
    showing = [i for i, base in enumerate(bases) if base]
    hashes = np.array([zlib.crc32(names[i].encode()) for i in showing], np.uint64)
    # A CRC is linear in the bits of a name, and names are often numbers: mixed as by SplitMix64.
    hashes = (hashes + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return [bases[showing[i]] for i in np.argsort(hashes ^ (hashes >> np.uint64(27)),
                                                  kind="stable")[:most]]  # fmt: skip
