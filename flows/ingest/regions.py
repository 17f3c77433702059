"""Which positions are looked at: contigs of a FASTA, a region, the intervals of a BED file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pysam

from flows import storage
from flows.faults import Fault, InputError
from flows.ingest.alignments import local_fasta, quiet, told
from flows.settings import VariantSettings

MOST = 256 * 2**20  # bytes of a BED file
_UNKNOWN = 2**31 - 1
# What SAM and VCF 4.3 take for the name of a contig (section 1.4.7 of the latter).
_SPECIAL = r"!#$%&+./:;?@^_|~"
_CONTIG = re.compile(rf"[0-9A-Za-z{_SPECIAL}-][0-9A-Za-z{_SPECIAL}*=-]*")
CONTIG_RULE = "a name that a VCF can hold: letters, digits, most signs; no = or * first, no space"


@dataclass(frozen=True)
class Region:
    """Positions ``start`` to ``stop`` (from 0, not included) of a contig of the FASTA."""

    contig: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of positions."""
        return self.stop - self.start


class AnyContig(dict[str, int]):
    """Contigs of counts that come without a FASTA: every name, of unknown length."""

    def __missing__(self, name: str) -> int:
        return _UNKNOWN

    def __contains__(self, name: object) -> bool:
        return True


def fasta_contigs(path: str) -> dict[str, int]:
    """Return the contigs of a FASTA with their lengths; an index is made where there is none.

    Raises
    ------
    InputError
        If it cannot be read, or has no index and none can be made.
    """
    try:
        with quiet(), pysam.FastaFile(local_fasta(path)) as fasta:
            return dict(zip(fasta.references, fasta.lengths, strict=True))
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        found = "no such file" if not storage.exists(path) else told(error)
        raise InputError(
            [
                Fault(
                    file=path, expected="a FASTA with an index (.fai) or in a folder where one "
                    "can be made", found=found, remedy=f"run: samtools faidx {path}",
                )
            ]
        ) from error  # fmt: skip


def names_a_contig(name: str) -> bool:
    """Return whether a VCF can hold a contig of this name.

    >>> [names_a_contig(name) for name in ("chr1", "HLA*01:01", "=cmd", "a b", "c>1,x", "")]
    [True, True, False, False, False, False]
    """
    return _CONTIG.fullmatch(name) is not None


def in_file(contig: str, names: Sequence[str], chr_names: str) -> str | None:
    """Return a contig's name in a file: its own, or with or without ``chr`` where that is set."""
    if contig in names:
        return contig
    if chr_names == "map":
        other = contig[3:] if contig.startswith("chr") else f"chr{contig}"
        return other if other in names else None
    return None


def regions(settings: VariantSettings, contigs: dict[str, int]) -> list[Region]:
    """Return what is to be counted: the region, the BED file's intervals, or all contigs.

    Intervals are sorted and merged, so no position comes twice.

    Raises
    ------
    InputError
        If a region or a line of the BED lies outside the FASTA's contigs.
    """
    if settings.region is not None:
        name, _, span = settings.region.rpartition(":")
        if not name or not span.replace(",", "").replace("-", "").isdigit():
            name, span = settings.region, ""
        bounds = [int(v) for v in span.replace(",", "").split("-") if v]
        start = bounds[0] - 1 if bounds else 0
        wanted = [("settings", None, name, start, bounds[1] if len(bounds) > 1 else None)]
    elif settings.bed is not None:
        wanted = _bed(settings.bed)
    else:
        wanted = [("", None, name, 0, None) for name in contigs]
    found, faults = [], []
    for file, row, name, start, stop in wanted:
        any_name = isinstance(contigs, AnyContig)
        contig = name if any_name else in_file(name, list(contigs), settings.chr_names)
        if contig is None:
            faults.append(other_names(file, row, name, list(contigs), str(settings.fasta)))
            continue
        if not names_a_contig(contig):
            at = file or str(settings.fasta)
            faults.append(Fault(file=at, row=row, expected=CONTIG_RULE, found=repr(contig)))
            continue
        end = contigs[contig] if stop is None else stop
        if not 0 <= start < end <= contigs[contig]:
            faults.append(
                Fault(
                    file=file, row=row, expected=f"positions within {contig}:1-{contigs[contig]}",
                    found=f"{name}:{start + 1}-{end}",
                )
            )  # fmt: skip
            continue
        found.append(Region(contig, start, end))
    if faults:
        raise InputError(faults)
    order = {name: i for i, name in enumerate([*contigs, *sorted({r.contig for r in found})])}
    merged: list[Region] = []
    for region in sorted(found, key=lambda r: (order[r.contig], r.start)):
        last = merged[-1] if merged else None
        if last and last.contig == region.contig and region.start <= last.stop:
            merged[-1] = Region(last.contig, last.start, max(last.stop, region.stop))
        else:
            merged.append(region)
    return merged


def _bed(path: str) -> list[tuple[str, int | None, str, int, int | None]]:
    wanted: list[tuple[str, int | None, str, int, int | None]] = []
    faults = []
    for row, text in enumerate(storage.read_bytes(path, MOST).decode().splitlines(), start=1):
        if not text.strip() or text.startswith(("#", "track", "browser")):
            continue
        cells = text.split()
        if len(cells) < 3 or not (cells[1].isdigit() and cells[2].isdigit()):
            faults.append(
                Fault(file=path, row=row, expected="contig, start and end", found=repr(text[:60]))
            )
            continue
        wanted.append((path, row, cells[0], int(cells[1]), int(cells[2])))
    if not wanted and not faults:
        faults.append(Fault(file=path, expected="at least one interval", found="none"))
    if faults:
        raise InputError(faults)
    return wanted


def other_names(file: str, row: int | None, name: str, known: list[str], fasta: str) -> Fault:
    """Return the fault of a contig that a file does not have, with those that it has."""
    some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    return Fault(
        file=file or fasta, row=row, expected=f"a contig of {fasta} ({some})", found=repr(name),
        remedy="give files with the same contig names; --set chr_names=map takes 'chr1' for '1'",
    )  # fmt: skip


def locate(found: Sequence[Region], start: int, stop: int) -> list[Region]:
    """Return what positions ``start`` to ``stop`` of the regions, laid end to end, are."""
    pieces, before = [], 0
    for region in found:
        low, high = max(start - before, 0), min(stop - before, region.length)
        if low < high:
            pieces.append(Region(region.contig, region.start + low, region.start + high))
        before += region.length
    return pieces
