"""Opening BAM, CRAM and FASTA files through htslib, quietly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pysam

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
    return pysam.AlignmentFile(path, reference_filename=settings.fasta)


def told(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error) or type(error).__name__).splitlines()[0]
