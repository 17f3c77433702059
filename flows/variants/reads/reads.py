"""Base counts of regions from BAM or CRAM files, as `samtools mpileup` would see them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import numpy as np
import pysam
from numpy.typing import NDArray

from flows.variants.reads.alignments import local_fasta, open_alignment, quiet
from flows.variants.reads.bam_walk import Reading, Tally, tally, templates
from flows.variants.reads.contigs import in_file
from flows.variants.reads.regions import Region, primers_of
from flows.variants.settings import VariantSettings
from vbmodels.variants.counts import BASES

MOST_OPEN = 32
"""Files of a partition that stay open, with their indices in memory."""


def base_codes(text: str) -> NDArray[np.int8]:
    """Return the bases of a text as indices in ACGT, -1 for what is none of them (N)."""
    codes = np.full(256, -1, np.int8)
    codes[[ord(b) for b in BASES]] = range(4)
    return codes[np.frombuffer(text.upper().encode(), np.uint8)]


def reference(path: str, region: Region, ahead: int = 0) -> NDArray[np.int8]:
    """Return the reference bases of a region, and some behind it, as `base_codes`."""
    with quiet(), pysam.FastaFile(local_fasta(path)) as fasta:
        return base_codes(fasta.fetch(region.contig, region.start, region.stop + ahead))


class ReadCounter:
    """Counts of regions from files that are opened once, and closed together."""

    def __init__(self, settings: VariantSettings) -> None:
        self.settings = settings
        self._files: dict[str, tuple[pysam.AlignmentFile, Sequence[str]]] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._primers = primers_of(self.settings)
        fasta = local_fasta(str(self.settings.fasta))
        with quiet():
            self._fasta = self._open.enter_context(pysam.FastaFile(fasta))
        return self

    def __exit__(self, *raised: Any) -> None:
        with quiet():
            self._open.__exit__(*raised)

    def count(self, path: str, region: Region, floor: int = 0) -> Tally:
        """Count the bases of one file's reads over a region, by strand, and sum what is known.

        Reads that are unmapped, secondary, duplicates or failed quality control are left out, as
        `samtools mpileup` does; where mates overlap, one base counts. What is counted at a position
        does not depend on where the region starts. Reads that begin before ``floor`` are in the
        account of another region.
        """

        with quiet(), ExitStack() as once:
            file, names = self._opened(path, once)
            name = in_file(region.contig, names)
            reading = self._reading(region.contig)
            bases = partial(self._bases, region.contig)
            return tally(file, str(name), region.start, region.stop, reading, bases, floor)

    def templates(
        self, path: str, contig: str, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """Return which bases each template of a file shows; see `bam_walk.templates`."""
        with quiet(), ExitStack() as once:
            file, names = self._opened(path, once)
            name = str(in_file(contig, names))
            bases = partial(self._bases, contig)
            return templates(file, name, positions, self._reading(contig), bases)

    def _bases(self, contig: str, start: int, stop: int) -> NDArray[np.int8]:
        return base_codes(self._fasta.fetch(contig, start, stop))

    def _reading(self, contig: str) -> Reading:
        settings = self.settings
        return Reading(
            least_quality(settings),
            settings.min_mapping_quality,
            settings.orphans,
            settings.duplicates == "keep",
            self._primers.get(contig),
            settings.primer_offset,
        )

    def _opened(self, path: str, once: ExitStack) -> tuple[pysam.AlignmentFile, Sequence[str]]:
        """Return a file and its contigs, open for the partition or, of many files, for once."""
        if path not in self._files:
            stays = len(self._files) < MOST_OPEN
            file = (self._open if stays else once).enter_context(
                open_alignment(path, self.settings)
            )
            if not stays:
                return file, file.references
            self._files[path] = file, file.references
        return self._files[path]


def least_quality(settings: VariantSettings) -> int:
    """Return the least quality of a base: of two mates one is left in place with quality 0."""
    return max(settings.min_base_quality, 1)
