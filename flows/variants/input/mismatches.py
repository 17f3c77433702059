"""Whether reads are of the FASTA that comes with them: a sample of their bases is compared.

Names and lengths of contigs are alike in assemblies that differ (a patched one, another
isolate of a virus, a shifted plasmid): then every difference would look like a variant. A CRAM
has digests of its contigs, and cannot be read with other ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pysam

from flows.faults import Fault
from flows.variants.reads.alignments import local_fasta
from flows.variants.reads.reads import base_codes
from flows.variants.reads.regions import Region, in_file, locate
from flows.variants.settings import VariantSettings

CONTIGS, PLACES, READS = 24, 4, 25  # looked at: contigs of a file, places of each, reads there
TRIED = 50  # regions of a place that are searched for reads
MOST = 0.25  # of the compared bases that may differ; beyond, the reads are of another sequence
MOST_HASHED = 2**26  # bases of the contigs of a CRAM whose digests are compared
ALIGNED_TO = "give the FASTA that the reads were aligned to"
LEAST = 500  # bases without which nothing is said
_LEFT_OUT = 0x4 | 0x100 | 0x200  # unmapped, secondary, failed
_ALIGNED, _SKIPS_READ, _SKIPS_REFERENCE = (0, 7, 8), (1, 4), (2, 3)  # operations of a CIGAR


def mismatch_faults(
    file: pysam.AlignmentFile, path: str, wanted: Sequence[Region], settings: VariantSettings
) -> list[Fault]:
    """Say that a file's reads are of another sequence than the FASTA.

    Parameters
    ----------
    file
        The BAM or CRAM, open and with an index.
    path
        Its name, for the message.
    wanted
        The regions that will be counted.
    settings
        Name the FASTA and the least qualities.
    """
    compared = different = 0
    with pysam.FastaFile(local_fasta(str(settings.fasta))) as fasta:
        for read, contig in _sample(file, wanted, settings):
            n, wrong = _compare(read, fasta, contig, settings.min_base_quality)
            compared, different = compared + n, different + wrong
    if compared < LEAST or different <= MOST * compared:
        return []
    return [
        Fault(
            file=path,
            expected=f"reads of {settings.fasta}, with at most {MOST:.0%} of other bases",
            found=f"{different / compared:.0%} of {compared:,} bases",
            remedy=ALIGNED_TO,
        )
    ]


def digest_fault(
    file: pysam.AlignmentFile, path: str, wanted: Sequence[Region], settings: VariantSettings,
    most: int = MOST_HASHED,
) -> Fault | None:  # fmt: skip
    """Say that a CRAM was written with another reference, by the digests of its contigs (M5).

    Parameters
    ----------
    file, path
        The CRAM, open, and its name.
    wanted
        The regions that will be counted; contigs are compared in their order.
    settings
        Name the FASTA.
    most
        Bases of contigs that are compared.
    """
    digests = {line["SN"]: line.get("M5", "") for line in file.header.to_dict().get("SQ", [])}
    with pysam.FastaFile(local_fasta(str(settings.fasta))) as fasta:
        for contig in dict.fromkeys(region.contig for region in wanted):
            most -= fasta.get_reference_length(contig)
            name = in_file(contig, file.references)
            expected = digests.get(str(name), "").lower()
            if most < 0 or not expected:
                continue
            bases = fasta.fetch(contig).upper().encode()
            if hashlib.md5(bases, usedforsecurity=False).hexdigest() != expected:
                return Fault(
                    file=path,
                    expected=f"reads of {settings.fasta}",
                    found=f"another reference: the MD5 of {name} in its header (M5 {expected}) is "
                    "not that of the FASTA",
                    remedy="give the FASTA that the CRAM was written with",
                )
    return None


def _sample(
    file: pysam.AlignmentFile, wanted: Sequence[Region], settings: VariantSettings
) -> Iterator[tuple[pysam.AlignedSegment, str]]:
    """Yield (read, contig of the FASTA) at places spread over the regions of some contigs."""
    contigs = list(dict.fromkeys(region.contig for region in wanted))
    step = max(1, -(-len(contigs) // CONTIGS))
    for contig in contigs[::step]:
        own = [region for region in wanted if region.contig == contig]
        total = sum(region.length for region in own)
        name = in_file(contig, file.references)
        for place in range(PLACES):
            start, stop = place * total // PLACES, (place + 1) * total // PLACES
            left = READS
            for region in locate(own, start, stop)[:TRIED]:
                for read in file.fetch(name, region.start, region.stop):
                    if read.flag & _LEFT_OUT or read.mapping_quality < settings.min_mapping_quality:
                        continue
                    yield read, contig
                    left -= 1
                    if not left:
                        break
                if not left:
                    break


def _compare(
    read: pysam.AlignedSegment, fasta: pysam.FastaFile, contig: str, least: int
) -> tuple[int, int]:
    """Return how many confident bases of a read were compared, and how many differ."""
    if not read.query_sequence or not read.cigartuples:
        return 0, 0
    bases = base_codes(read.query_sequence)
    there = base_codes(fasta.fetch(contig, read.reference_start, read.reference_end))
    sure = bases >= 0
    if read.query_qualities is not None:
        sure &= np.asarray(read.query_qualities) >= least
    compared = different = i = j = 0
    for operation, length in read.cigartuples:
        if operation in _ALIGNED:
            one, other = bases[i : i + length], there[j : j + length]
            both = sure[i : i + length] & (other >= 0)
            compared += int(both.sum())
            different += int((both & (one != other)).sum())
        if operation in (*_ALIGNED, *_SKIPS_READ):
            i += length
        if operation in (*_ALIGNED, *_SKIPS_REFERENCE):
            j += length
    return compared, different
