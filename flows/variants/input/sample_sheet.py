"""The sample sheet: which BAM or CRAM file holds which replicate, and the samples' roles."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from flows import storage
from flows.faults import Fault, InputError
from flows.storage.formats.encodings import text_from
from flows.tables.checks import Found
from flows.variants.reads.alignments import (
    fasta_files,
)
from flows.variants.settings import VariantSettings

MOST = 16 * 2**20  # bytes of a sample sheet
ALIGNMENTS = (".bam", ".cram", ".sam")  # what a sheet names, and is no input alone
SHEETS = (".csv", ".tsv", ".txt")
_SEPARATORS = ",;\t"
_COLUMNS = ("sample", "path")
ROLES = ("", "case", "control", "panel")
_CASE = {"case", "cases", "tumour", "tumor", "cancer", "treated", "mutant", "mut", "diseased"}
_CONTROL = {
    "control",
    "ctrl",
    "ctl",
    "normal",
    "untreated",
    "wildtype",
    "wt",
    "healthy",
    "germline",
    "mock",
}
_ALSO = {
    "bam": "path",
    "cram": "path",
    "file": "path",
    "sample_id": "sample",
    "sample_name": "sample",
}


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
        found.rows(
            [max(reader.line_num - 1, 0)],
            None,
            "lines of CSV",
            f"what is none ({error})",
            "look for a quotation mark without its partner",
        )
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
            Fault(
                url,
                "this column once",
                listed,
                name,
                remedy="write a first line sample,replicate,path",
            )
            for name in (*wanted, *(["role"] if "role" in names else []))
            if names.count(name) != 1
        )
    )
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
            found.rows(
                at,
                "role",
                f"one role for all replicates of {key[0]}",
                f"{role or 'none'} after {roles[key[0]] or 'none'}",
            )
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


def settings_of_sheet(
    sheet: str, lines: Sequence[Alignment], settings: VariantSettings
) -> dict[str, str]:
    """Return the settings that a sheet says; none where it says none.

    The samples of each role by the column ``role``; without one by their names; a sample that is
    alone in the sheet is the case, without a control. The reference is the only FASTA in the
    sheet's folder. What a setting names stays: of several cases, say, the one named. Where none is
    named, all of them are cases of one run.

    Raises `InputError` if several samples are cases, and a setting names another one.
    """
    said = {}
    if settings.fasta is None and (fasta := only_fasta(os.path.dirname(sheet))):
        said["fasta"] = fasta
    samples = {line.sample: line.role for line in lines}
    if any(samples.values()):
        return said | _by_roles(samples, settings)
    fields = type(settings).model_fields
    named = ("case", "cases", "control", "panel")
    given = any(getattr(settings, name) != fields[name].default for name in named)
    if given or settings.case in samples:
        alone = list(samples) == [settings.case] and settings.control == fields["control"].default
        return said | ({"control": ""} if alone and not given else {})
    if len(samples) == 1:
        return said | {"case": next(iter(samples)), "control": ""}
    return said | _by_roles(roles_by_name(list(samples)), settings)


def _by_roles(samples: dict[str, str], settings: VariantSettings) -> dict[str, str]:
    of = {role: [s for s, own in samples.items() if own == role] for role in ROLES[1:]}
    said: dict[str, str] = {}
    if of["case"] and settings.case not in of["case"] and not settings.several:
        if len(of["case"]) > 1:
            if settings.case != type(settings).model_fields["case"].default:
                raise InputError.of(
                    file="settings",
                    column="case",
                    expected="the name of one of the sheet's cases",
                    found=f"{settings.case!r}, and the role case of {', '.join(of['case'])}",
                    remedy="name one of them, or leave case out for a run of all",
                )
            said["cases"] = ",".join(of["case"])
        else:
            said["case"] = of["case"][0]
    if of["control"] and settings.control not in of["control"]:
        said["control"] = of["control"][0]
    elif (of["panel"] or list(samples) == of["case"][:1]) and settings.control not in samples:
        said["control"] = ""
    if of["panel"] and not settings.members:
        said["panel"] = ",".join(of["panel"])
    return said


def roles_by_name(samples: Sequence[str]) -> dict[str, str]:
    """Return the role of every sample by the words in its name; empty where any is unclear.

    >>> roles_by_name(["patient7_tumour", "patient7_normal"])
    {'patient7_tumour': 'case', 'patient7_normal': 'control'}
    >>> roles_by_name(["ann", "bob_normal"])
    {}
    """
    roles = {}
    for sample in samples:
        role = role_of_name(sample)
        if role is None or (role == "case" and "," in sample):
            return {}
        roles[sample] = role
    return roles if list(roles.values()).count("control") == 1 < len(roles) else {}


def only_fasta(folder: str) -> str | None:
    """Return the FASTA of a folder; None where there is none, or more than one."""
    found = fasta_files(folder)
    return found[0] if len(found) == 1 else None


def inferred(folder: str, lines: Sequence[Alignment], settings: VariantSettings) -> list[str]:
    """Say which of the settings were taken from the sheet's folder and its samples' names."""
    said = []
    if settings.fasta is not None and settings.fasta == only_fasta(folder):
        name = storage.shown(settings.fasta).rpartition("/")[2]
        said.append(
            f"The reference is {name}, the only FASTA in the sheet's folder; --set fasta= names "
            "another."
        )
    names = [line.sample for line in lines]
    roles = {} if any(line.role for line in lines) else roles_by_name(list(dict.fromkeys(names)))
    tested = [name for name, role in roles.items() if role == "case"]
    by_name = tested == settings.tested and roles.get(settings.control or "") == "control"
    if roles and by_name and not {"case", "control"} >= set(roles):
        are = "is the case" if len(tested) == 1 else "are cases"
        said.append(
            f"By their names {', '.join(tested)} {are} and {settings.control} the control; a "
            "column role (case, control, panel) says otherwise."
        )
    return said
