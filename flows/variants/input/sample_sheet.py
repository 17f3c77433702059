"""The sample sheet: which BAM or CRAM file holds which replicate, and the samples' roles."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows import storage
from flows.faults import Fault, InputError
from flows.storage.formats.encodings import text_from
from flows.tables.checks import FileFaults
from flows.variants.reads.alignments import fasta_files
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
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=separator)
    faults = FileFaults(url)
    lines: list[list[str]] = []
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                lines.append(cells)
    except csv.Error as error:
        faults.add_rows(
            [max(len(lines) - 1, 0)],
            None,
            "lines of CSV",
            f"what is none ({error})",
            "look for a quotation mark without its partner",
        )
        raise InputError(faults.listed()) from error
    names = _names(lines[0] if lines else [])
    _check_columns(names, faults)
    if faults:
        raise InputError(faults.listed())
    sheet = _Lines(faults, names)
    for row, cells in enumerate(lines[1:], 1):
        sheet.read(row, cells)
    _check_roles(sheet.alignments, faults)
    if len(lines) < 2:
        faults.add(Fault(file=url, expected="at least one line", found="none"))
    if faults:
        raise InputError(faults.listed())
    return sheet.alignments


def _check_columns(names: Sequence[str], faults: FileFaults) -> None:
    """Report base counts in place of a sheet, and columns that are not there once."""
    if {"chrom", "pos"} <= {*names}:
        faults.add(
            Fault(
                faults.file,
                "a sample sheet",
                "base counts, which are not read from CSV or TSV",
                remedy="write them as Parquet: "
                "pandas.read_csv('counts.csv').to_parquet('counts.parquet')",
            )
        )
        return
    there = f"the columns {', '.join(names) or 'none'}"
    remedy = "write a first line sample,replicate,path"
    for name in ("sample", "path", "replicate", "role"):
        if names.count(name) > 1 or (name in _COLUMNS and name not in names):
            faults.add(Fault(faults.file, "this column once", there, name, remedy=remedy))


class _Lines:
    """The lines of a sheet, as far as they are read, and what is wrong with them."""

    def __init__(self, faults: FileFaults, names: Sequence[str]) -> None:
        self.faults, self.names = faults, names
        self.alignments: list[Alignment] = []
        self._columns = [name for name in (*_COLUMNS, "replicate") if name in names]
        self._replicates: dict[tuple[str, str], int] = {}  # and the row of each
        self._files: dict[str, int] = {}
        self._of_sample: Counter[str] = Counter()
        self._roles: dict[str, str] = {}

    def read(self, row: int, line: Sequence[str]) -> None:
        """Add one line, if it has a file and a role."""
        cells = dict.fromkeys(self.names, "") | dict(zip(self.names, line, strict=False))
        cells = {name: cell.strip() for name, cell in cells.items()}
        if more := [cell for cell in line[len(self.names) :] if cell.strip()]:
            self._fault(row, None, f"{len(self.names)} cells", f"also {', '.join(more)}")
        sample = cells["sample"]
        if "replicate" not in cells:
            self._of_sample[sample] += 1
            cells["replicate"] = str(self._of_sample[sample])
        self._check_cells(row, cells)
        path, role = self._file(row, cells["path"]), None
        if path is not None:
            role = self._role(row, sample, cells.get("role", ""))
        if path is not None and role is not None:
            self.alignments.append(Alignment(sample, cells["replicate"], path, row, role))

    def _fault(self, row: int, column: str | None, expected: str, found: str) -> None:
        self.faults.add_rows([row - 1], column, expected, found)

    def _check_cells(self, row: int, cells: Mapping[str, str]) -> None:
        for name in self._columns:
            if not cells[name]:
                self._fault(row, name, "a value", "nothing")
            elif name != "path" and not cells[name].isprintable():
                self._fault(row, name, "text without control characters", repr(cells[name]))
        key = cells["sample"], cells["replicate"]
        first = self._replicates.setdefault(key, row)
        if first != row:
            again = f"{key[0]} {key[1]} again, first in row {first}"
            self._fault(row, None, "each sample's replicates once", again)

    def _file(self, row: int, cell: str) -> str | None:
        """Return a path as one that means the same from anywhere; None of none."""
        if not cell:
            return None
        try:
            path = _from_sheet(self.faults.file, cell)
            same = _one_name(path)
        except storage.StorageError as error:
            self._fault(row, "path", "a path or URL", str(error))
            return None
        # The same reads twice look like two replicates that agree, or like no difference.
        first = self._files.setdefault(same, row)
        if first != row:
            again = f"{cell} again, first in row {first}"
            self._fault(row, "path", "a file of its own for each replicate", again)
        return path

    def _role(self, row: int, sample: str, cell: str) -> str | None:
        """Return the role that a line says, empty for none; None where that is no role."""
        role = cell.lower() if cell.lower() in ROLES else role_of_name(cell)
        if role is None:
            self._fault(row, "role", f"nothing or one of {', '.join(ROLES[1:])}", repr(cell))
            return None
        first = self._roles.setdefault(sample, role)
        if role != first:
            expected = f"one role for all replicates of {sample}"
            self._fault(row, "role", expected, f"{role or 'none'} after {first or 'none'}")
        if role == "panel" and "," in sample:
            self._fault(row, "sample", "a name without a comma", sample)
        return role


def _check_roles(lines: Sequence[Alignment], faults: FileFaults) -> None:
    """Report several controls, and names of several cases that a list cannot hold."""
    roles: dict[str, str] = {}
    for line in lines:
        roles.setdefault(line.sample, line.role)
    controls = [sample for sample, role in roles.items() if role == "control"]
    if len(controls) > 1:
        faults.add(
            Fault(
                file=faults.file,
                column="role",
                expected="one control: a sample of the case's own person",
                found=", ".join(controls),
                remedy="give samples of other people the role panel, and replicates one name",
            )
        )
    several = [line for line in lines if line.role == "case"]
    if len({line.sample for line in several}) > 1:
        rows = [line.row - 1 for line in several if "," in line.sample]
        names = {line.row - 1: line.sample for line in several}
        faults.add_rows(rows, "sample", "a name without a comma", names.__getitem__)


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
    of_sheet = {}
    if settings.fasta is None and (fasta := only_fasta(os.path.dirname(sheet))):
        of_sheet["fasta"] = fasta
    samples = {line.sample: line.role for line in lines}
    if any(samples.values()):
        return of_sheet | _by_roles(samples, settings)
    fields = type(settings).model_fields
    named = ("case", "cases", "control", "panel")
    is_named = any(getattr(settings, name) != fields[name].default for name in named)
    if is_named or settings.case in samples:
        alone = list(samples) == [settings.case] and settings.control == fields["control"].default
        return of_sheet | ({"control": ""} if alone and not is_named else {})
    if len(samples) == 1:
        return of_sheet | {"case": next(iter(samples)), "control": ""}
    return of_sheet | _by_roles(roles_by_name(list(samples)), settings)


def _by_roles(samples: dict[str, str], settings: VariantSettings) -> dict[str, str]:
    roles = {role: [s for s, r in samples.items() if r == role] for role in ROLES[1:]}
    chosen: dict[str, str] = {}
    if roles["case"] and settings.case not in roles["case"] and not settings.several:
        if len(roles["case"]) > 1:
            if settings.case != type(settings).model_fields["case"].default:
                raise InputError.of(
                    file="settings",
                    column="case",
                    expected="the name of one of the sheet's cases",
                    found=f"{settings.case!r}, and the role case of {', '.join(roles['case'])}",
                    remedy="name one of them, or leave case out for a run of all",
                )
            chosen["cases"] = ",".join(roles["case"])
        else:
            chosen["case"] = roles["case"][0]
    if roles["control"] and settings.control not in roles["control"]:
        chosen["control"] = roles["control"][0]
    elif (roles["panel"] or list(samples) == roles["case"][:1]) and settings.control not in samples:
        chosen["control"] = ""
    if roles["panel"] and not settings.members:
        chosen["panel"] = ",".join(roles["panel"])
    return chosen


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
    files = fasta_files(folder)
    return files[0] if len(files) == 1 else None


def inferred(folder: str, lines: Sequence[Alignment], settings: VariantSettings) -> list[str]:
    """Say which of the settings were taken from the sheet's folder and its samples' names."""
    notes = []
    if settings.fasta is not None and settings.fasta == only_fasta(folder):
        name = storage.shown(settings.fasta).rpartition("/")[2]
        notes.append(
            f"The reference is {name}, the only FASTA in the sheet's folder; --set fasta= names "
            "another."
        )
    names = [line.sample for line in lines]
    roles = {} if any(line.role for line in lines) else roles_by_name(list(dict.fromkeys(names)))
    tested = [name for name, role in roles.items() if role == "case"]
    by_name = tested == settings.tested and roles.get(settings.control or "") == "control"
    if roles and by_name and not {"case", "control"} >= set(roles):
        are = "is the case" if len(tested) == 1 else "are cases"
        notes.append(
            f"By their names {', '.join(tested)} {are} and {settings.control} the control; a "
            "column role (case, control, panel) says otherwise."
        )
    return notes
