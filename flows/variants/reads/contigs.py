"""Contigs of a FASTA, and their names in other files."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Collection, Iterable
from functools import lru_cache

import pysam

from flows import storage
from flows.faults import Fault, InputError
from flows.variants.reads.alignments import described, is_bgzf, is_gzip, local_fasta, quiet
from flows.variants.settings import VariantSettings

Marks = tuple[tuple[str, str], ...]  # files, and what marks the version of each
UNKNOWN = 2**31 - 1
_MITOCHONDRIAL = ("MT", "M")
_MOST_TAKEN = 4  # contigs in a sentence
_HEADER = 2**12  # bytes of a FASTA's header line that are looked at
_SHOWN = 60  # characters of a name in a message
_one_at_a_time = threading.Lock()  # files are checked side by side; one of them makes the index
# What SAM and VCF 4.3 take for the name of a contig (section 1.4.7 of the latter).
_SPECIAL = r"!#$%&+./:;?@^_|~"
_CONTIG = re.compile(rf"[0-9A-Za-z{_SPECIAL}-][0-9A-Za-z{_SPECIAL}*=-]*")
RENAME = "rename it, or name the other contigs with --set bed="
CONTIG_RULE = "a name that a VCF can hold: letters, digits, most signs; no = or * first, no space"


class AnyContig(dict[str, int]):
    """Contigs of counts that come without a FASTA: every name, of unknown length."""

    def __missing__(self, name: str) -> int:
        return UNKNOWN

    def __contains__(self, name: object) -> bool:
        return True


def fasta_contigs(path: str) -> dict[str, int]:
    """Return the contigs of a FASTA with their lengths; an index is made where there is none.

    Raises `InputError` if it cannot be read, or has no index and none can be made.
    """
    try:
        local = local_fasta(path)
        with quiet(), pysam.FastaFile(local) as fasta:
            contigs = dict(zip(fasta.references, fasta.lengths, strict=True))
        wrong = None if is_gzip(local) else _misplaced_contig(local)
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        raise InputError([_no_fasta(path, error)]) from error
    if wrong is not None:
        raise InputError.of(
            file=path,
            expected="the FASTA that its index (.fai) was made of",
            found=f"contig {wrong} elsewhere, or more contigs",
            remedy=f"rebuild the index: samtools faidx {path}",
        )
    return contigs


def _misplaced_contig(local: str) -> str | None:
    """Return a contig that a plain FASTA does not have as its index says; None for none."""
    with open(f"{local}.fai", encoding="utf-8") as index:
        rows = [line.rstrip("\n").split("\t") for line in index]
    rows.sort(key=lambda row: int(row[2]))
    behind = b""
    with open(local, "rb") as fasta:
        for name, *numbers in rows:
            length, offset, bases, width = map(int, numbers[:4])
            fasta.seek(max(offset - _HEADER, 0))
            lines = fasta.read(min(offset, _HEADER)).splitlines(keepends=True)
            header = lines[-1] if lines else b""
            whole = header.startswith(b">") or len(header) < _HEADER
            if (length and bases < 1) or (whole and header[1:].split()[:1] != [name.encode()]):
                return name
            full = (length - 1) // bases if length else 0
            fasta.seek(offset + full * width + length - full * bases)
            behind = fasta.read(_HEADER).lstrip(b"\r\n")[:1]
            if not header.endswith(b"\n") or behind not in (b"", b">"):
                return name
    return rows[-1][0] if behind else None


def _no_fasta(path: str, error: Exception) -> Fault:
    expected = "a FASTA of which an index (.fai) can be made"
    if not storage.exists(path):
        return Fault(file=path, expected=expected, found="no such file")
    local = storage.local_copy(path)
    if os.path.isfile(local) and is_gzip(local) and not is_bgzf(local):
        plain = path.removesuffix(".gz")
        return Fault(
            file=path,
            expected="a FASTA, plain or packed with bgzip",
            found="gzip",
            remedy=f"run: gunzip {path} && bgzip {plain}, or give the unpacked file",
        )
    return Fault(
        file=path,
        expected=expected,
        found=described(error),
        remedy=f"see: samtools faidx {path}",
    )


def marks_of(settings: VariantSettings) -> Marks:
    """Return the files of the settings (FASTA, BED, primers), each with what marks its version.

    Raises `InputError` if one of them is not there or cannot be read.
    """
    marks, faults = [], []
    named = ("fasta", settings.fasta), ("bed", settings.bed), ("primers", settings.primers)
    for name, url in named:
        if url is None:
            continue
        try:
            marks.append((url, storage.fingerprint_of(url)))
        except storage.TransientStorageError:
            raise
        except storage.StorageError as error:
            gone = isinstance(error, storage.MissingError)
            found = "there is no such file" if gone else str(error)
            faults.append(Fault(file=url, expected="", found=f"{found} (setting {name})"))
    if faults:
        raise InputError(faults)
    return tuple(marks)


@lru_cache(maxsize=4)
def contigs_of(settings: VariantSettings, marks: Marks) -> dict[str, int]:
    """Return the contigs of the FASTA; any at all where there is none."""
    if settings.fasta is None:
        return AnyContig()
    with _one_at_a_time:
        contigs = fasta_contigs(settings.fasta)
    refuse_changed(marks)
    return contigs


def refuse_changed(marks: Marks) -> None:
    """Refuse files that are other versions now."""
    for url, mark in marks:
        storage.refuse_changed(url, mark)


def names_a_contig(name: str) -> bool:
    """Return whether a VCF can hold a contig of this name.

    >>> [names_a_contig(name) for name in ("chr1", "HLA*01:01", "=cmd", "a b", "c>1,x", "")]
    [True, True, False, False, False, False]
    """
    return _CONTIG.fullmatch(name) is not None


def unfit_name(name: str) -> str:
    """Return a contig's name with what a VCF cannot hold of it.

    >>> print(unfit_name("c>1,x"))
    'c>1,x', whose character 2 is '>'
    >>> print(unfit_name("=cmd"), unfit_name(""), sep="; ")
    '=cmd', whose character 1 is '='; an empty name
    """
    if not name:
        return "an empty name"
    # Names that begin as the whole does are names as far as it is one.
    first = next(i for i in range(1, len(name) + 1) if not names_a_contig(name[:i]))
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
    return f"{shown!r}, whose character {first} is {name[first - 1]!r}"


def in_file(contig: str, names: Collection[str]) -> str | None:
    """Return a contig's name in a file: its own, or that with or without ``chr``; M is MT.

    >>> in_file("chr1", ["1", "MT"]), in_file("chrM", ["1", "MT"]), in_file("2", ["chr1"])
    ('1', 'MT', None)
    """
    if contig in names:
        return contig
    base = contig.removeprefix("chr")
    bases = _MITOCHONDRIAL if base in _MITOCHONDRIAL else (base,)
    return next((n for b in bases for n in (b, f"chr{b}") if n in names), None)


def renamed(file: str, pairs: Iterable[tuple[str, str | None]]) -> list[str]:
    """Say which contigs of a file are taken for those of other names; nothing where none is.

    >>> renamed("a.bam", [("chr1", "1"), ("2", "2"), ("chrM", "MT")])
    ['Contigs of a.bam are taken for those of the reference: chr1 for 1, chrM for MT.']
    """
    other = [f"{its} for {name}" for its, name in pairs if name is not None and its != name]
    if not other:
        return []
    more = f", and {len(other) - _MOST_TAKEN} more" if len(other) > _MOST_TAKEN else ""
    first_ones = ", ".join(other[:_MOST_TAKEN])
    return [f"Contigs of {file} are taken for those of the reference: {first_ones}{more}."]


def other_names(file: str, row: int | None, name: str, known: Collection[str], fasta: str) -> Fault:
    """Return the fault of a contig that a file does not have, with those that it has."""
    examples = ", ".join(itertools.islice(known, 5)) + (", ..." if len(known) > 5 else "")
    return Fault(
        file=file,
        row=row,
        expected=f"a contig of {fasta} ({examples})",
        found=repr(name),
        remedy="give files of the same reference ('chr1' and '1', 'chrM' and 'MT' are the same)",
    )
