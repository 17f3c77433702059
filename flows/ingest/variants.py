"""From a sample sheet of BAM or CRAM files to base counts, region by region, through htslib."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pysam
from numpy.typing import NDArray

from flows import storage
from flows.faults import Fault, InputError
from flows.settings import VariantSettings

BASES = "ACGT"
_NO_CAP = 2**31 - 1


@dataclass(frozen=True)
class Alignment:
    """One line of the sample sheet."""

    sample: str
    replicate: str
    path: str
    row: int


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
        return _NO_CAP

    def __contains__(self, name: object) -> bool:
        return True


def read_sheet(url: str) -> list[Alignment]:
    """Read a sample sheet: CSV with the columns sample, replicate and path.

    Relative paths start at the sheet's folder.

    Raises
    ------
    InputError
        With every fault of the sheet.
    """
    text = storage.read_bytes(url).decode("utf-8-sig", errors="replace")
    reader = csv.DictReader(io.StringIO(text))
    names = [name.strip() for name in reader.fieldnames or []]
    missing = [name for name in ("sample", "replicate", "path") if name not in names]
    if missing:
        raise InputError(
            [
                Fault(file=url, column=name, expected="this column",
                      found=f"the columns {', '.join(names) or 'none'}",
                      remedy="write a first line sample,replicate,path")
                for name in missing
            ]
        )  # fmt: skip
    folder, lines, faults = os.path.dirname(url), [], []
    seen: dict[tuple[str, str], int] = {}
    for row, line in enumerate(reader, start=2):
        cells = {str(k).strip(): str(v or "").strip() for k, v in line.items()}
        for name in ("sample", "replicate", "path"):
            if not cells[name]:
                faults.append(
                    Fault(file=url, column=name, row=row, expected="a value", found="nothing")
                )
        key = cells["sample"], cells["replicate"]
        if key in seen:
            found = f"{key[0]} {key[1]} again, first in row {seen[key]}"
            faults.append(
                Fault(file=url, row=row, expected="each sample's replicates once", found=found)
            )
        seen.setdefault(key, row)
        path = cells["path"]
        if "://" not in path and not os.path.isabs(path):
            path = storage.join(folder, path) if ".." not in path else os.path.join(folder, path)
        lines.append(Alignment(*key, path, row))
    if not lines:
        faults.append(Fault(file=url, expected="at least one line", found="none"))
    if faults:
        raise InputError(faults)
    return lines


@contextmanager
def quiet() -> Iterator[None]:
    """Keep htslib from writing to the terminal; its failures still raise."""
    before = pysam.set_verbosity(0)
    try:
        yield
    finally:
        pysam.set_verbosity(before)


def check_sheet(url: str, settings: VariantSettings) -> list[Fault]:
    """List every fault of a sample sheet and of the files that it names."""
    try:
        lines = read_sheet(url)
    except InputError as error:
        return list(error.faults)
    samples = {line.sample for line in lines}
    faults = check_samples(url, samples, settings)
    if settings.fasta is None:
        faults.append(
            Fault(
                file="settings", column="fasta", expected="the reference FASTA", found="nothing",
                remedy="give --set fasta=FILE: a sample sheet needs it",
            )
        )  # fmt: skip
        return faults
    try:
        contigs = fasta_contigs(settings.fasta)
        regions(settings, contigs)
    except InputError as error:
        return faults + list(error.faults)
    for line in lines:
        faults += _check_alignment(line, url, settings, contigs)
    return faults


def check_samples(url: str, samples: set[str], settings: VariantSettings) -> list[Fault]:
    """List samples that are asked for and not there."""
    wanted = [settings.case] + ([settings.control] if settings.control else [])
    return [
        Fault(
            file=url, column="sample", expected=f"a sample named {name!r}",
            found=f"only {', '.join(sorted(samples))}",
            remedy="name them with --set case=NAME and --set control=NAME; without a control, "
            "--set control= asks for the germline test",
        )
        for name in wanted if name not in samples
    ]  # fmt: skip


def fasta_contigs(path: str) -> dict[str, int]:
    """Return the contigs of a FASTA with their lengths; an index is made where there is none.

    Raises
    ------
    InputError
        If it cannot be read, or has no index and none can be made.
    """
    try:
        with quiet(), pysam.FastaFile(path) as fasta:
            return dict(zip(fasta.references, fasta.lengths, strict=True))
    except (OSError, ValueError) as error:
        found = "no such file" if not storage.exists(path) else _line(error)
        raise InputError(
            [
                Fault(
                    file=path, expected="a FASTA with an index (.fai) or in a folder where one "
                    "can be made", found=found, remedy=f"run: samtools faidx {path}",
                )
            ]
        ) from error  # fmt: skip


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
            faults.append(_other_names(file, row, name, list(contigs), str(settings.fasta)))
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
    for row, text in enumerate(storage.read_bytes(path).decode().splitlines(), start=1):
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


def _other_names(file: str, row: int | None, name: str, known: list[str], fasta: str) -> Fault:
    some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    return Fault(
        file=file or fasta, row=row, expected=f"a contig of {fasta} ({some})", found=repr(name),
        remedy="give files with the same contig names; --set chr_names=map takes 'chr1' for '1'",
    )  # fmt: skip


def _check_alignment(
    line: Alignment, sheet: str, settings: VariantSettings, contigs: dict[str, int]
) -> list[Fault]:
    where = {"file": sheet, "column": "path", "row": line.row}
    if storage.is_local(line.path) and not os.path.exists(line.path):
        return [Fault(**where, expected="a BAM or CRAM file", found=f"no file {line.path}")]
    try:
        with quiet(), _open(line.path, settings) as file:
            if not file.has_index():
                return [_no_index(line.path, where)] if not _make_index(line.path) else []
            truncated = not line.path.endswith(".cram") and file.check_truncation() is False
            names = list(file.references)
            lengths = dict(zip(file.references, file.lengths, strict=True))
    except (OSError, ValueError) as error:
        return [Fault(**where, expected="a whole BAM or CRAM file", found=_read_fault(line, error))]
    if truncated:
        return [Fault(**where, expected="a whole BAM file", found=f"{line.path} is truncated")]
    faults = []
    for region in regions(settings, contigs):
        name = in_file(region.contig, names, settings.chr_names)
        if name is None:
            fault = _other_names(line.path, None, region.contig, names, line.path)
            return [Fault(**{**vars(fault), "found": f"{region.contig!r} of {settings.fasta}"})]
        if lengths[name] != contigs[region.contig]:
            faults.append(
                Fault(
                    file=line.path, expected=f"{name} of {contigs[region.contig]:,} bases as in "
                    f"{settings.fasta}", found=f"{lengths[name]:,}",
                    remedy="give the FASTA that the reads were aligned to",
                )
            )  # fmt: skip
    return faults[:1]


def _read_fault(line: Alignment, error: Exception) -> str:
    return f"{line.path}, which cannot be read ({_line(error)})"


def _no_index(path: str, where: dict[str, object]) -> Fault:
    return Fault(
        file=str(where["file"]), column="path", row=where["row"],  # type: ignore[arg-type]
        expected=f"an index beside {path}", found="none, and none can be written there",
        remedy=f"run: samtools index {path}",
    )  # fmt: skip


def _make_index(path: str) -> bool:
    try:
        pysam.index(path)
    except (pysam.SamtoolsError, OSError):
        return False
    return True


def _open(path: str, settings: VariantSettings) -> pysam.AlignmentFile:
    return pysam.AlignmentFile(path, reference_filename=settings.fasta)


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def locate(found: Sequence[Region], start: int, stop: int) -> list[Region]:
    """Return what positions ``start`` to ``stop`` of the regions, laid end to end, are."""
    pieces, before = [], 0
    for region in found:
        low, high = max(start - before, 0), min(stop - before, region.length)
        if low < high:
            pieces.append(Region(region.contig, region.start + low, region.start + high))
        before += region.length
    return pieces


def reference(path: str, region: Region) -> NDArray[np.int8]:
    """Return the reference bases as indices in ACGT, -1 where there is none (N)."""
    with quiet(), pysam.FastaFile(path) as fasta:
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
    with quiet(), _open(path, settings) as file:
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
