"""Opening BAM, CRAM and FASTA files through htslib, quietly, from copies where they are remote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pysam

from flows import storage
from flows.settings import VariantSettings


@contextmanager
def quiet() -> Iterator[None]:
    """Keep htslib from writing to the terminal; its failures still raise."""
    before = pysam.set_verbosity(0)
    try:
        yield
    finally:
        pysam.set_verbosity(before)


def open_alignment(path: str, settings: VariantSettings) -> pysam.AlignmentFile:
    """Open a BAM, or a CRAM with the FASTA of the settings."""
    reference = None if settings.fasta is None else local_fasta(settings.fasta)
    return pysam.AlignmentFile(local_alignment(path), reference_filename=reference)


def local_alignment(path: str) -> str:
    """Return a local path of a BAM or CRAM, with its index beside it where there is one."""
    return storage.as_local(path, ".bai", ".csi", ".crai")


def local_fasta(path: str) -> str:
    """Return a local path of a FASTA, with its index beside it where there is one."""
    return storage.as_local(path, ".fai", ".gzi")


def told(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error) or type(error).__name__).splitlines()[0]
