"""Whether the input is what its family declares: every fault of all files at once.

A family that checks as it reads (`flows.family.ChecksAsItReads`) has every row read once: footers
say here how to cut the files, ingest checks the rows that it stores, and what it found is put
together afterwards (`accept`). Only an input with a fault is read again, whole, file by file: so
the same sentences come in the same order, whoever met the first fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from flows.data import storage
from flows.data.partition import unreadable
from flows.data.storage import InputFile, Sources, StorageError
from flows.family import Checked, CheckedPiece, ChecksAsItReads, ChecksToFit, Family, Ingested
from flows.faults import Fault, InputError
from flows.run import tasks
from flows.run.events import Events
from flows.run.running import Run
from flows.settings import RunSettings

_SHOWN = 5  # names in a warning


def check_files(
    family: Family, events: Events, source: Sources, settings: RunSettings, to_fit: bool = True
) -> tuple[list[InputFile], list[Checked]]:
    """Read every input file whole, and raise all faults at once."""
    files = _chosen(family, source)
    return files, _checked(family, events, files, settings, to_fit)


def look_at_files(
    family: Family, events: Events, source: Sources, settings: RunSettings, to_fit: bool = True
) -> tuple[list[InputFile], list[Checked]]:
    """Read of every input file what says how to cut it, or all of it where it is checked first.

    Where that has a fault, the files are read whole, and all faults are raised at once.
    """
    files = _chosen(family, source)
    if not isinstance(family, ChecksAsItReads):
        return files, _checked(family, events, files, settings, to_fit)
    looked = _each(events, family.look, files, settings)
    if faults := _faults(family, files, looked, settings, to_fit, rows=False):
        _checked(family, events, files, settings, to_fit)
        raise InputError(faults)
    return files, looked


def _checked(
    family: Family, events: Events, files: Sequence[InputFile], settings: RunSettings, to_fit: bool
) -> list[Checked]:
    checked = _each(events, family.check, files, settings)
    _raise(_faults(family, files, checked, settings, to_fit))
    return checked


def header_warnings(files: Sequence[InputFile]) -> list[str]:
    """Say which columns of CSV files have no name, and what became of them."""
    found: dict[str, list[str]] = {}
    for file in files:
        unnamed = storage.Unnamed()
        with suppress(StorageError):  # a sample sheet is read by other rules than a table
            unnamed = storage.unnamed_columns(file.url)
        if n := len(unnamed.named):
            listed = ", ".join(unnamed.named[:_SHOWN]) + (", ..." if n > _SHOWN else "")
            said = (
                f"1 column has no name and is called {listed} here; name it in the first line, or "
                "remove it"
                if n == 1
                else f"{n:,} columns have no name and are called {listed} here; name them in the "
                "first line, or remove them"
            )
            found.setdefault(said, []).append(file.url)
        if n := unnamed.dropped:
            said = (
                "1 column without a name has no values and is not read"
                if n == 1
                else f"{n:,} columns without a name have no values and are not read"
            )
            found.setdefault(said, []).append(file.url)
    return [
        f"{storage.shown(urls[0])}{_more(len(urls) - 1)}: {said}." for said, urls in found.items()
    ]


def _more(files: int) -> str:
    return "" if not files else f" and {files:,} more file{'' if files == 1 else 's'}"


@contextmanager
def every_fault_told(run: Run) -> Iterator[None]:
    """Raise all faults of all files where one was met in some rows."""
    try:
        yield
    except InputError:
        if isinstance(run.family, ChecksAsItReads):
            _check_again(run)
        raise


def accept(run: Run, ingested: Sequence[Ingested]) -> None:
    """Put together what ingest found in the rows of each file; refuse what is wrong between them.

    What was only looked at in `Run.checked` is then checked.

    Raises
    ------
    InputError
        With every fault of all files.
    """
    if not isinstance(run.family, ChecksAsItReads):
        return
    pieces: dict[str, list[CheckedPiece]] = {}
    for piece in (piece for one in ingested for piece in one.checked):
        pieces.setdefault(piece.url, []).append(piece)
    run.checked = [
        run.family.joined(file, pieces[file.url], run.settings) if file.url in pieces else looked
        for file, looked in zip(run.files, run.checked, strict=True)
    ]
    to_fit = run.fitted is None
    if _faults(run.family, run.files, run.checked, run.settings, to_fit):
        _check_again(run)


def _check_again(run: Run) -> None:
    """Read every file whole; where that finds faults, nothing can go on with a run of it.

    Raises
    ------
    InputError
        With every fault of all files.
    StorageError
        If a file is no longer what ingest read: what is found in it says nothing of the run.
    """
    to_fit = run.fitted is None
    checked = _each(run.events, run.family.check, run.files, run.settings)
    for file in run.files:
        storage.refuse_changed(file.url, file.fingerprint)
    faults = _faults(run.family, run.files, checked, run.settings, to_fit)
    # A resumed run is held once its input is known to be what it began with.
    run.hopeless = bool(faults) and run.held is not None
    _raise(faults)


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise InputError(faults)


def _chosen(family: Family, source: Sources) -> list[InputFile]:
    try:
        return storage.expand(source, family.suffixes)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        raise InputError(
            [
                Fault(
                    file=storage.source_in_words(source),
                    expected="input that can be read",
                    found=str(error),
                )
            ]
        ) from error


def _each(
    events: Events,
    check: Callable[[InputFile, RunSettings], Checked],
    files: Sequence[InputFile],
    settings: RunSettings,
) -> list[Checked]:
    return tasks.each(events, "check", partial(_carefully, check), files, settings)


def _carefully(
    check: Callable[[InputFile, RunSettings], Checked], file: InputFile, settings: RunSettings
) -> Checked:
    try:
        return check(file, settings)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        return Checked(0, (unreadable(file.url, error),))


def _faults(
    family: Family,
    files: Sequence[InputFile],
    checked: Sequence[Checked],
    settings: RunSettings,
    to_fit: bool,
    rows: bool = True,
) -> list[Fault]:
    """List the faults of files, or else those between them, or else what a fit lacks.

    Parameters
    ----------
    rows
        Whether their rows were looked at.
    """
    # Once each: what the settings name is looked at with every file.
    faults = list(dict.fromkeys(fault for one in checked for fault in one.faults))
    faults = faults or family.check_together(files, checked)
    if to_fit and rows and isinstance(family, ChecksToFit):
        faults = faults or family.check_to_fit(files, checked)
    return faults
