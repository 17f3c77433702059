"""The bases before and behind locations, by the FASTA."""

from __future__ import annotations

import numpy as np
import pysam

from flows.data import storage
from flows.variants.against_fasta import bases_at
from flows.variants.alignments import described, local_fasta, quiet
from flows.variants.counts import Loci
from flows.variants.regions import fasta_contigs, in_file
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray
from vbmodels.variants import contexts


def contexts_of(loci: Loci, settings: VariantSettings) -> IntArray | None:
    """Return the context of each location, [J]; None where no shift differs by them."""
    if settings.types != "trinucleotide":
        return None
    try:
        return contexts.contexts(*_beside(loci, settings))
    except (OSError, ValueError, IndexError) as error:
        raise storage.StorageError(
            f"the bases beside locations cannot be read from {settings.fasta}: "
            f"{described(error)}; run: samtools faidx {settings.fasta}"
        ) from error


def _beside(loci: Loci, settings: VariantSettings) -> IntArray:
    """Return the bases before and behind locations as indices in ACGT, [2, J], -1 for none."""
    path = str(settings.fasta)
    lengths = fasta_contigs(path)
    beside = np.full((2, len(loci.pos)), -1)
    names, code = np.unique(loci.chrom, return_inverse=True)
    with quiet(), pysam.FastaFile(local_fasta(path)) as file:
        for number, name in enumerate(names.tolist()):
            contig = in_file(name, lengths, settings.chr_names)
            if contig is None:
                continue
            for side, step in enumerate((-1, 1)):
                pos = loci.pos + step
                there = np.flatnonzero(
                    (code.ravel() == number) & (pos >= 1) & (pos <= lengths[contig])
                )
                beside[side, there] = bases_at(file, contig, pos[there])
    return beside
