"""What is wrong with an input: one sentence a fault, all faults at once."""

from __future__ import annotations

import difflib
import errno
import os
import re
import reprlib
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from flows.escape import escaped

_MOST = {"file": 300, "column": 100, "expected": 400, "found": 400, "remedy": 700}
"""Characters of the parts of a sentence: a longer one came from an input, and is cut."""

_MANY = 4
"""Equal faults from which on they share a line."""
_MANY_NAMED = 8

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _brief.maxlong = 100
_brief.maxlevel = 3

MEMORY_ADVICE = (
    "use fewer workers (--workers) or more memory, or more partitions (--partitions) in a new run"
)


def no_space(error: BaseException) -> str | None:
    """Return what to say of a library's temporary file that has no room; None of other errors."""
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
        return None
    return (
        f"no space is left for temporary files in {tempfile.gettempdir()}; free some, or set "
        "TMPDIR to another disk"
    )


def shown(value: object) -> str:
    """Return a value of an input as a message has it: its repr, the beginning of a long one.

    >>> shown("a"), shown([1] * 100)
    ("'a'", '[1, 1, 1, 1, 1, 1, ...]')
    """
    return _brief.repr(value)


def unclosed(text: str) -> str:
    """Say which quote at the beginning of a value has no partner; "" where none.

    >>> unclosed("'benign"), unclosed("'benign'")
    ("the quote ' before benign is not closed", '')
    """
    value = text.strip()
    if value[:1] not in ("'", '"') or (len(value) > 1 and value[0] == value[-1]):
        return ""
    return f"the quote {value[0]} before {value[1:]} is not closed"


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return what is spelt most like a name that is not known; None where nothing is.

    ``least``: how alike they must be, up to 1.

    >>> nearest("keyword_rat", ["fdr", "keyword_rate"]), nearest("fdr", ["window"])
    ('keyword_rate', None)
    >>> nearest("prob", ["doc_id", "probability"])
    'probability'
    """
    names = list(known)
    alike = next((other for other in names if _letters(other) == _letters(name)), None)
    near = [alike] if alike else difflib.get_close_matches(name, names, 1, least)
    if not near and len(name) > 2:
        near = [other for other in names if _letters(other).startswith(_letters(name))]
    return near[0] if near else None


def _letters(name: str) -> str:
    """Return a name without what people write in several ways."""
    return "".join(filter(str.isalnum, name.casefold())) or name


_EXTRAS = {
    "adlfs": "azure",
    "docx": "documents",
    "flowio": "cytometry",
    "gcsfs": "gcs",
    "h5py": "imaging",
    "pypdf": "documents",
    "pyreadstat": "tables",
    "pysam": "genomics",
    "python_calamine": "tables",
}
"""The extra that installs a module which the command runs without."""


def install_command(error: BaseException) -> str | None:
    """Return what installs the missing module of an extra that an error names; None of any other.

    >>> install_command(ModuleNotFoundError(name="pysam.libchtslib"))
    "pip install 'vbflows[genomics]'"
    """
    name = getattr(error, "name", None) or ""
    extra = _EXTRAS.get(name.partition(".")[0])
    return None if extra is None else f"pip install 'vbflows[{extra}]'"


def first_line(error: BaseException) -> str:
    """Return the first line of an error, or its name."""
    return (str(error) or type(error).__name__).splitlines()[0]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the question that is the remedy of a typo; None where nothing is spelt like it."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else None


_ALIKE = 0.8  # of names of files, and of columns that may be the same measurement


def missing_columns(
    pipeline: str, fitted: Sequence[str], given: Sequence[str]
) -> InputError | None:
    """Return the error of new data that lack columns of a fit; None where they have them all."""
    absent = [name for name in fitted if name not in given]
    if not absent:
        return None
    others = [name for name in given if name not in fitted]
    pairs = [(near, name) for name in absent if (near := nearest(name, others, _ALIKE))]
    which = "; ".join(f"if {near} is {name}, rename it" for near, name in pairs[:_MANY])
    found = (
        f"{len(absent)} of the {len(fitted)} columns of the fitted run of {pipeline} "
        f"{('is' if len(absent) == 1 else 'are')} missing: {_some(absent)}"
    )
    remedy = which or "give these columns, called as in the fit"
    return InputError.of("the new data", "", found, remedy=remedy)


def _cut(part: str, text: str) -> str:
    """Return a part of a sentence in one line: what cannot be printed is escaped."""
    text = escaped(text)
    return text if len(text) <= _MOST[part] else f"{text[: _MOST[part] - 4]} ..."


SETTINGS = "settings"  # in place of a file


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: where, what was expected, what was found, what to do.

    >>> print(Fault(file="a.parquet", column="doc_id", row=3, expected="a name", found="null",
    ...             remedy="give every document a name"))
    a.parquet, column doc_id, row 3: expected a name, found null; give every document a name
    >>> print(Fault(file="a.csv", expected="CSV", found="\\x00 and\\na line"))
    a.csv: expected CSV, found \\x00 and\\na line
    >>> print(Fault(file="a.csv", expected="", found="cannot be read as CSV: it is empty"))
    a.csv: cannot be read as CSV: it is empty
    >>> print(Fault(file="settings", column="fdr", expected="less than 1", found="7"))
    setting fdr: expected less than 1, found 7
    """

    file: str
    expected: str
    found: str
    column: str | None = None
    row: int | None = None  # counted from 1
    remedy: str | None = None
    is_absent: bool = False  # the file has no such column

    def __str__(self) -> str:
        where = _cut("file", self.file)
        if self.file == SETTINGS and self.column is not None:
            where = f"setting {_cut('column', self.column)}"
        elif self.column is not None:
            where += f", column {_cut('column', self.column)}"
        if self.row is not None:
            where += f", row {self.row}"
        expected, found = _cut("expected", self.expected), _cut("found", self.found)
        what = f"{where}: expected {expected}, found {found}" if expected else f"{where}: {found}"
        return f"{what}; {_cut('remedy', self.remedy)}" if self.remedy else what


def sentences(faults: Sequence[Fault]) -> list[str]:
    """Return a line for each fault; those that differ by their place alone share one.

    >>> from dataclasses import replace
    >>> one = Fault("a.csv", "a number", "'x'", "age", 2)
    >>> for line in sentences([replace(one, row=row) for row in range(2, 8)]): print(line)
    a.csv, column age, row 2: expected a number, found 'x' (6 times: rows 2, 3, 4, 5, 6, 7)
    """
    alike: dict[tuple[object, ...], list[Fault]] = {}
    for fault in faults:
        what = (fault.column, fault.expected, fault.found, fault.remedy)
        alike.setdefault(what, []).append(fault)
    return [line for group in alike.values() for line in _grouped(group)]


def _grouped(group: Sequence[Fault]) -> list[str]:
    if len(group) < _MANY:
        return [str(fault) for fault in group]
    files = list(dict.fromkeys(_cut("file", fault.file) for fault in group))
    rows = [str(fault.row) for fault in group if fault.row is not None]
    if len(files) > 1:
        where = f"in {len(files)} files: {_some(files)}"
    else:
        where = f"rows {_some(rows)}" if rows else ""
    return [f"{group[0]} ({len(group)} times{': ' if where[:1] == 'r' else ' '}{where})"]


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:_MANY_NAMED]) + (", ..." if len(words) > _MANY_NAMED else "")


class RunError(Exception):
    """A run failed; the message is one sentence for the user."""


class ComputeError(RunError):
    """What computes was lost or is too small; the run can be resumed."""


class Interrupted(KeyboardInterrupt):
    """A run was stopped by hand; the message says how to go on."""


class InputError(Exception):
    """The input or the settings are wrong; nothing was computed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(sentences(self.faults)))

    @classmethod
    def of(
        cls,
        file: str,
        expected: str,
        found: str,
        column: str | None = None,
        row: int | None = None,
        remedy: str | None = None,
    ) -> InputError:
        """Return the error of one fault."""
        return cls([Fault(file, expected, found, column, row, remedy)])

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Fault, ...]]]:
        """Travel from a worker with the faults, not with their text."""
        return InputError, (self.faults,)


_GLOB = re.compile(r"[*?\[]")


def refuse_missing(source: str | Sequence[str]) -> None:
    """Raise `InputError` for local files and folders that are not there.

    Needs no library that reads anything, so that a typo is reported at once.
    """
    faults = [] if len(source) else [Fault("SOURCE", "input", "none")]
    for given in [source] if isinstance(source, str) else source:
        path = os.path.expanduser(given.removeprefix("file://"))
        if "://" in path or _GLOB.search(path) or not _is_missing(path):
            continue
        folder = os.path.dirname(path)
        names = []
        with suppress(OSError):
            names = os.listdir(folder or ".")
        near = nearest(os.path.basename(path), names, _ALIKE)
        remedy = f"did you mean {os.path.join(folder, near)}?" if near else None
        found = "there is no such file or folder"
        found += "" if os.path.isabs(path) else f" in {os.path.abspath(folder)}"
        faults.append(Fault(given, "", found, remedy=remedy))
    if faults:
        raise InputError(faults)


def _is_missing(path: str) -> bool:
    """Whether there is nothing of that name; what cannot be looked at is left to its reader."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return False
