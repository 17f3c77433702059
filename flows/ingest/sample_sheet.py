"""The sample sheet: which BAM or CRAM file holds which replicate, and what is wrong with them."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass

import pysam

from flows import storage
from flows.faults import Fault, InputError
from flows.ingest.alignments import local_alignment, open_alignment, quiet, told
from flows.ingest.regions import fasta_contigs, in_file, other_names, regions
from flows.settings import VariantSettings

MOST = 16 * 2**20  # bytes of a sample sheet
CRAM_END = 38  # bytes of the end-of-file container of CRAM 3; that of CRAM 2.1 has 30


@dataclass(frozen=True)
class Alignment:
    """One line of the sample sheet."""

    sample: str
    replicate: str
    path: str
    row: int


def read_sheet(url: str) -> list[Alignment]:
    """Read a sample sheet: CSV with the columns sample, replicate and path.

    Relative paths start at the sheet's folder.

    Raises
    ------
    InputError
        With every fault of the sheet.
    """
    text = storage.read_bytes(url, MOST).decode("utf-8-sig", errors="replace")
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
    read: dict[str, int] = {}
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
        # The same reads twice look like two replicates that agree, or like no difference.
        if cells["path"] and path in read:
            found = f"{cells['path']} again, first in row {read[path]}"
            faults.append(
                Fault(file=url, column="path", row=row, expected="a file of its own for each "
                      "replicate", found=found)
            )  # fmt: skip
        read.setdefault(path, row)
        lines.append(Alignment(*key, path, row))
    if not lines:
        faults.append(Fault(file=url, expected="at least one line", found="none"))
    if faults:
        raise InputError(faults)
    return lines


def check_sheet(url: str, settings: VariantSettings, compared: bool = True) -> list[Fault]:
    """List every fault of a sample sheet and of the files that it names.

    Parameters
    ----------
    url
        The sheet.
    settings
        How its files are read.
    compared
        Whether the settings' case and control must be among its samples.
    """
    try:
        lines = read_sheet(url)
    except InputError as error:
        return list(error.faults)
    samples = {line.sample for line in lines}
    faults = check_samples(url, samples, settings) if compared else []
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


def _check_alignment(
    line: Alignment, sheet: str, settings: VariantSettings, contigs: dict[str, int]
) -> list[Fault]:
    where = {"file": sheet, "column": "path", "row": line.row}
    if storage.is_local(line.path) and not os.path.exists(line.path):
        return [Fault(**where, expected="a BAM or CRAM file", found=f"no file {line.path}")]
    try:
        with quiet(), open_alignment(line.path, settings) as file:
            local = local_alignment(line.path)
            if not file.has_index():
                return [_no_index(line.path, where)] if not _make_index(local) else []
            truncated = _truncated(file, local)
            names = list(file.references)
            lengths = dict(zip(file.references, file.lengths, strict=True))
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        return [Fault(**where, expected="a whole BAM or CRAM file", found=_read_fault(line, error))]
    if truncated:
        return [
            Fault(**where, expected="a whole BAM or CRAM file", found=f"{line.path} is truncated")
        ]
    faults = []
    for region in regions(settings, contigs):
        name = in_file(region.contig, names, settings.chr_names)
        if name is None:
            fault = other_names(line.path, None, region.contig, names, line.path)
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


def _truncated(file: pysam.AlignmentFile, path: str) -> bool:
    if not file.is_cram:
        return file.check_truncation() is False
    # htslib looks at the end of a BAM only; a whole CRAM ends with a container that spells EOF.
    with open(path, "rb") as raw:
        raw.seek(max(os.path.getsize(path) - CRAM_END, 0))
        return b"\xe0EOF" not in raw.read()


def _read_fault(line: Alignment, error: Exception) -> str:
    return f"{line.path}, which cannot be read ({told(error)})"


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
