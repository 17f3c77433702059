"""Opening BAM, CRAM and FASTA files through htslib, quietly, from copies where they are remote.

An index that is missing is made among this machine's copies, never next to the user's file.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pysam

from flows import storage
from flows.variants.reads.bam_index import refuse_damaged
from flows.variants.settings import VariantSettings

_one_at_a_time = threading.Lock()
_GZIP, _WITH_FIELDS, _BGZF = b"\x1f\x8b", 4, b"BC"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep htslib from writing to the terminal; its failures still raise."""
    before = pysam.set_verbosity(0)
    try:
        yield
    finally:
        pysam.set_verbosity(before)


def open_alignment(
    path: str, settings: VariantSettings, indexed: bool = True
) -> pysam.AlignmentFile:
    """Open a BAM, or a CRAM with the FASTA of the settings.

    Raises `OSError` if it cannot be read, or has no index where one is wanted and none can be made.
    """
    reference = None if settings.fasta is None else local_fasta(settings.fasta)
    return _opened(indexed_alignment(path) if indexed else local_alignment(path), reference)


def _opened(path: str, reference: str | None) -> pysam.AlignmentFile:
    """Open a file; of one that is damaged pysam's half-made object goes without a word.

    It complains on the terminal when it is collected, so that is done here. htslib loads an index
    with the file, so that is looked at before.
    """
    if (index := own_index(path)) is not None:
        refuse_damaged(index, path)
    with _one_at_a_time:
        before = sys.excepthook, sys.unraisablehook
        sys.excepthook = sys.unraisablehook = _say_nothing
        try:
            return pysam.AlignmentFile(path, reference_filename=reference)
        except (OSError, ValueError) as error:
            failed = OSError(described(error))
        finally:
            sys.excepthook, sys.unraisablehook = before
    raise failed


def _say_nothing(*_: object) -> None:
    """Take the place of what prints an error that nobody can catch."""


def local_alignment(path: str) -> str:
    """Return a local path of a BAM or CRAM, with its index next to it where there is one."""
    return storage.local_copy(path, ".bai", ".csi", ".crai")


def indexed_alignment(path: str) -> str:
    """Return a local path of a BAM or CRAM with an index next to it."""
    local = local_alignment(path)
    return local if own_index(local) else _with_index(path, local, pysam.index)


def own_index(local: str) -> str | None:
    """Return the index next to a local BAM or CRAM, if there is one."""
    stem = os.path.splitext(local)[0]
    ends = (".crai",) if local.endswith(".cram") else (".csi", ".bai")
    names = (base + end for end in ends for base in (local, stem))
    return next((name for name in names if os.path.isfile(name)), None)


def local_fasta(path: str) -> str:
    """Return a local path of a FASTA with its index next to it.

    Raises `OSError` if it has no index and none can be made.
    """
    local = storage.local_copy(path, ".fai", ".gzi")
    packed = os.path.isfile(local) and is_gzip(local)
    if all(os.path.isfile(local + end) for end in ((".fai", ".gzi") if packed else (".fai",))):
        return local
    return _with_index(path, local, pysam.faidx)


FASTA = (".fa", ".fasta", ".fna", ".fa.gz", ".fasta.gz", ".fna.gz")


def fasta_files(folder: str) -> list[str]:
    """Return the FASTA files directly below a folder."""
    names = [name for name in storage.names(folder) if name.lower().endswith(FASTA)]
    return [storage.join(folder, name) for name in names]


def _with_index(path: str, local: str, make: Callable[[str], object]) -> str:
    def made(name: str) -> None:
        try:
            with quiet():
                make(name)
        except pysam.SamtoolsError as error:
            raise OSError(f"no index of {path} can be made") from error

    if storage.is_local(path):
        return storage.with_index(local, made)
    made(local)  # next to this machine's own copy
    return local


def is_gzip(path: str) -> bool:
    """Whether a local file is packed with gzip, or with bgzip, whose blocks can be found."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def is_bgzf(path: str) -> bool:
    """Whether a local file is packed with bgzip."""
    with open(path, "rb") as file:
        head = file.read(14)
    return (
        head[:2] == _GZIP
        and len(head) == 14
        and bool(head[3] & _WITH_FIELDS)
        and (head[12:14] == _BGZF)
    )


def is_out_of_order(path: str, settings: VariantSettings) -> bool:
    """Whether a read of a BAM or CRAM stands before one of an earlier position."""
    last = (0, 0)
    with quiet(), open_alignment(path, settings, indexed=False) as file:
        for read in file.fetch(until_eof=True):
            contig = read.reference_id if read.reference_id >= 0 else file.nreferences
            if (contig, read.reference_start) < last:
                return True
            last = (contig, read.reference_start)
    return False


def described(error: BaseException) -> str:
    """Return the first line of an error's message.

    A file that is damaged cannot be closed without an error, which says less than the one before.
    """
    if isinstance(error, OSError) and "Closing failed" in str(error):
        return (
            "a block or a read is damaged"
            if error.__context__ is None
            else described(error.__context__)
        )
    return (str(error) or type(error).__name__).splitlines()[0]
