"""The sample sheet: which BAM or CRAM file holds which replicate, and what is wrong with them."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows import storage
from flows.faults import Fault, InputError
from flows.storage.formats.encodings import text_from
from flows.tables.checks import Found
from flows.variants.input.mismatches import ALIGNED_TO, digest_fault, mismatch_faults
from flows.variants.reads.alignments import (
    described,
    fasta_files,
    indexed_alignment,
    is_out_of_order,
    local_alignment,
    open_alignment,
    quiet,
)
from flows.variants.reads.index_damage import DamagedIndex, is_cut
from flows.variants.reads.primers import primers_of
from flows.variants.reads.regions import (
    Region,
    contigs_of,
    in_file,
    marks_of,
    other_names,
    regions_of,
)
from flows.variants.settings import VariantSettings

MOST = 16 * 2**20  # bytes of a sample sheet
ALIGNMENTS = (".bam", ".cram", ".sam")  # what a sheet names, and is no input alone
SHEETS = (".csv", ".tsv", ".txt")
_SEPARATORS = ",;\t"
_COLUMNS = ("sample", "path")
_WHOLE = "a whole BAM or CRAM file"
_AGAIN = "copy it again, or take its row out of the sheet"
_NAME = "correct the path (relative to the sheet), or take the row out"
ROLES = ("", "case", "control", "panel")
_CASE = {"case", "cases", "tumour", "tumor", "cancer", "treated", "mutant", "mut", "diseased"}
_CONTROL = {
    "control", "ctrl", "ctl", "normal", "untreated", "wildtype", "wt", "healthy", "germline",
    "mock",
}  # fmt: skip
_ALSO = {"bam": "path", "cram": "path", "file": "path", "sample_id": "sample",
         "sample_name": "sample"}  # fmt: skip


@dataclass(frozen=True)
class Alignment:
    """One line of the sample sheet."""

    sample: str
    replicate: str
    path: str
    row: int
    role: str = ""


def role_of_name(sample: str) -> str | None:
    """Return the role that a sample's name says; None where it says none or two.

    >>> role_of_name("p7_Tumour"), role_of_name("wt-2"), role_of_name("ann")
    ('case', 'control', None)
    """
    words = set(re.split(r"[^a-z]+", sample.lower()))
    of_case, of_control = bool(words & _CASE), bool(words & _CONTROL)
    if of_case == of_control:
        return None
    return "case" if of_case else "control"


def needs_a_sheet(url: str) -> Fault:
    """Return the fault of reads given in place of a sheet."""
    return Fault(
        file=url,
        expected="a sample sheet or counts in Parquet",
        found="the reads of one replicate",
        remedy="write a CSV file with lines sample,replicate,path and "
        f"case,1,{url.rpartition('/')[2]}, one for every replicate",
    )


def read_sheet(url: str) -> list[Alignment]:
    """Read a sample sheet: the columns sample, path and, if given, replicate and role.

    Columns are separated by commas, semicolons or tabs. Relative paths start at the sheet's folder.
    Without the column replicate the files of a sample are numbered in their order.

    Raises `InputError` with every fault of the sheet.
    """
    text = _text(storage.read_bytes(url, MOST))
    first = text.lstrip().partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    reader = csv.DictReader(io.StringIO(text, newline=None), delimiter=separator)
    found = Found(url)
    try:
        lines = [*enumerate(reader, 1)]
    except csv.Error as error:
        found.rows([max(reader.line_num - 1, 0)], None, "lines of CSV", f"what is none ({error})",
                   "look for a quotation mark without its partner")  # fmt: skip
        raise InputError(found.faults()) from error
    names = _names(reader.fieldnames or [])
    if {"chrom", "pos"} <= {*names}:
        found.add(
            Fault(
                url,
                "a sample sheet",
                "base counts, which are not read from CSV or TSV",
                remedy="write them as Parquet: "
                "pandas.read_csv('counts.csv').to_parquet('counts.parquet')",
            )
        )
        raise InputError(found.faults())
    listed = f"the columns {', '.join(names) or 'none'}"
    wanted = (*_COLUMNS, *(["replicate"] if "replicate" in names else []))
    found.add(
        *(
            Fault(url, "this column once", listed, name,
                  remedy="write a first line sample,replicate,path")
            for name in (*wanted, *(["role"] if "role" in names else []))
            if names.count(name) != 1
        )
    )  # fmt: skip
    if found:
        raise InputError(found.faults())
    alignments: list[Alignment] = []
    seen: dict[tuple[str, str], int] = {}
    read: dict[str, int] = {}
    roles: dict[str, str] = {}
    of_sample: dict[str, int] = {}
    for row, cells_read in lines:
        at = [row - 1]
        cells = dict(zip(names, (str(v or "").strip() for v in cells_read.values()), strict=False))
        if more := [cell for cell in cells_read.get(None) or () if str(cell).strip()]:
            found.rows(at, None, f"{len(names)} cells", f"also {', '.join(map(str, more))}")
        if "replicate" not in wanted:
            of_sample[cells["sample"]] = of_sample.get(cells["sample"], 0) + 1
            cells["replicate"] = str(of_sample[cells["sample"]])
        for name in wanted:
            if not cells[name]:
                found.rows(at, name, "a value", "nothing")
            elif name != "path" and not cells[name].isprintable():
                found.rows(at, name, "text without control characters", repr(cells[name]))
        key = cells["sample"], cells["replicate"]
        if key in seen:
            again = f"{key[0]} {key[1]} again, first in row {seen[key]}"
            found.rows(at, None, "each sample's replicates once", again)
        seen.setdefault(key, row)
        if not cells["path"]:
            continue
        try:
            path = _from_sheet(url, cells["path"])
            same = _one_name(path)
        except storage.StorageError as error:
            found.rows(at, "path", "a path or URL", str(error))
            continue
        # The same reads twice look like two replicates that agree, or like no difference.
        if same in read:
            again = f"{cells['path']} again, first in row {read[same]}"
            found.rows(at, "path", "a file of its own for each replicate", again)
        read.setdefault(same, row)
        given = cells.get("role", "")
        role = given.lower() if given.lower() in ROLES else role_of_name(given)
        if role is None:
            found.rows(at, "role", f"nothing or one of {', '.join(ROLES[1:])}", repr(given))
            continue
        if role != roles.setdefault(key[0], role):
            found.rows(at, "role", f"one role for all replicates of {key[0]}",
                       f"{role or 'none'} after {roles[key[0]] or 'none'}")  # fmt: skip
        if role == "panel" and "," in key[0]:
            found.rows(at, "sample", "a name without a comma", key[0])
        alignments.append(Alignment(*key, path, row, role))
    if list(roles.values()).count("control") > 1:
        of_control = ", ".join(sample for sample, role in roles.items() if role == "control")
        found.add(
            Fault(
                file=url,
                column="role",
                expected="one control: a sample of the case's own person",
                found=of_control,
                remedy="give samples of other people the role panel, and replicates one name",
            )
        )
    several = [line for line in alignments if line.role == "case"]
    if len({line.sample for line in several}) > 1:
        for line in several:
            if "," in line.sample:
                found.rows([line.row - 1], "sample", "a name without a comma", line.sample)
    if not lines:
        found.add(Fault(file=url, expected="at least one line", found="none"))
    if found:
        raise InputError(found.faults())
    return alignments


def _names(first: Sequence[str]) -> list[str]:
    """Return the names of the columns; bam, cram and file are the path, sample_id the sample."""
    names = [name.strip().lower() for name in first]
    return [_ALSO[n] if n in _ALSO and _ALSO[n] not in names else n for n in names]


def is_sheet(url: str) -> bool:
    """Whether a file is a sample sheet, by its name."""
    return url.lower().endswith(SHEETS)


def _text(data: bytes) -> str:
    try:
        return text_from(data)
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace")  # its signs are faults of their cells


def _from_sheet(sheet: str, path: str) -> str:
    """Return a path of a sheet as one that means the same from anywhere."""
    if "://" in path or os.path.isabs(path):
        return path
    folder = os.path.dirname(sheet)
    return storage.join(folder, path) if ".." not in path else os.path.join(folder, path)


def _one_name(path: str) -> str:
    """Return one name of a file that may have several: links and dots are followed."""
    if storage.is_local(path):
        return os.path.realpath(storage.absolute(path))
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{os.path.normpath(rest)}"


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
        gone = [fault for line in lines if (fault := _absent(line, url))]
        return [*faults, *gone, _no_fasta(url)]
    try:
        marks = marks_of(settings)
        contigs, wanted = contigs_of(settings, marks), regions_of(settings, marks)
        primers_of(settings)
    except InputError as error:
        return faults + list(error.faults)
    for line in lines:
        faults += _check_alignment(line, url, settings, contigs, wanted)
    return faults


def _no_fasta(sheet: str) -> Fault:
    names = [os.path.basename(path) for path in fasta_files(os.path.dirname(sheet))]
    return Fault(
        file="settings", column="fasta", expected="the reference FASTA",
        found=f"{' and '.join(names)} in the sheet's folder" if names else "nothing",
        remedy="give --set fasta=FILE: a sample sheet needs it",
    )  # fmt: skip


def check_samples(url: str, samples: set[str], settings: VariantSettings) -> list[Fault]:
    """List the samples of the settings that are not there."""
    wanted = [*settings.tested, *settings.controls]
    return [
        Fault(
            file=url,
            column="sample",
            expected=f"a sample named {name!r}",
            found=f"only {', '.join(sorted(samples))}",
            remedy="give the sheet a column role (case, control, panel), or --set case=NAME, "
            "cases=NAME,NAME, control=NAME or panel=NAME,NAME; --set control= calls "
            "without a control",
        )
        for name in wanted
        if name not in samples
    ]


def _check_alignment(
    line: Alignment, sheet: str, settings: VariantSettings, contigs: dict[str, int],
    wanted: Sequence[Region],
) -> list[Fault]:  # fmt: skip
    where: dict[str, Any] = {"file": sheet, "column": "path", "row": line.row}
    if absent := _absent(line, sheet):
        return [absent]
    try:
        with quiet(), open_alignment(line.path, settings, indexed=False) as file:
            # Before an index is made: of a part of a file there is none to be made.
            # htslib looks at the end of a BAM only.
            if file.is_cram and is_cut(local_alignment(line.path)):
                found = f"{line.path} is truncated"
                return [Fault(**where, expected=_WHOLE, found=found, remedy=_AGAIN)]
            lengths = dict(zip(file.references, file.lengths, strict=True))
        unfit = _without_index(line.path, where, settings)
        if unfit is not None:
            return [unfit]
    except DamagedIndex as error:
        return [_damaged_index(line.path, error)]
    except storage.TransientStorageError:
        raise
    except (OSError, ValueError, storage.StorageError) as error:
        return [_unreadable(line, where, error)]
    for contig in dict.fromkeys(region.contig for region in wanted):
        name = in_file(contig, lengths)
        if name is None:
            fault = other_names(line.path, None, contig, lengths, line.path)
            return [Fault(**{**vars(fault), "found": f"{contig!r} of {settings.fasta}"})]
        if lengths[name] != contigs[contig]:
            return [
                Fault(
                    file=line.path,
                    expected=f"{name} of {contigs[contig]:,} bases as in {settings.fasta}",
                    found=f"{lengths[name]:,}",
                    remedy=ALIGNED_TO,
                )
            ]
    try:
        with quiet(), open_alignment(line.path, settings) as file:
            other = digest_fault(file, line.path, wanted, settings) if file.is_cram else None
            return [other] if other else mismatch_faults(file, line.path, wanted, settings)
    except (OSError, ValueError) as error:
        if (other := _of_another_reference(line, wanted, settings)) is not None:
            return [other]
        return [_unreadable(line, where, error)]


def _absent(line: Alignment, sheet: str) -> Fault | None:
    """Return the fault of a line whose file is not there; None of any other."""
    if not storage.is_local(line.path) or os.path.exists(line.path):
        return None
    return Fault(sheet, "a BAM or CRAM file", f"no file {line.path}", "path", line.row, _NAME)


def _of_another_reference(
    line: Alignment, wanted: Sequence[Region], settings: VariantSettings
) -> Fault | None:
    """Say that a CRAM that cannot be decoded is of another reference, however large that is."""
    try:
        with quiet(), open_alignment(line.path, settings, indexed=False) as file:
            return digest_fault(file, line.path, wanted, settings, 2**40) if file.is_cram else None
    except (OSError, ValueError):
        return None


def _unreadable(line: Alignment, where: Mapping[str, Any], error: Exception) -> Fault:
    found = f"{line.path}, which cannot be read ({described(error)})"
    if storage.is_local(line.path) and not os.path.getsize(line.path):
        found = f"{line.path}, which is empty"
    return Fault(**where, expected=_WHOLE, found=found, remedy=_AGAIN)


def _damaged_index(path: str, error: DamagedIndex) -> Fault:
    return Fault(
        file=os.path.join(os.path.dirname(path), os.path.basename(error.index)),
        expected=f"a whole index of {path}",
        found=error.damage,
        remedy=f"remove it, or run: samtools index {path}",
    )


def _without_index(path: str, where: dict[str, Any], settings: VariantSettings) -> Fault | None:
    """Say why a file has no index and none can be made; None where there is one."""
    try:
        indexed_alignment(path)
    except OSError:
        if is_out_of_order(path, settings):
            return Fault(
                **where,
                expected="reads in order of their positions",
                found=f"{path} in another order",
                remedy=f"run: samtools sort -o sorted.bam {path}, and name that",
            )
        return Fault(
            **where,
            expected=f"an index of {path}",
            found="none, and none can be made",
            remedy=f"see: samtools index {path}",
        )
    return None
