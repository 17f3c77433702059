"""Whether the input is what its family declares: every fault of all files at once.

Every row is read once: footers say here how to cut the files, ingest checks the rows that it
stores, and what it found is added up afterwards (`accept`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from flows import storage
from flows.catalogue import table_read
from flows.family import Checked, CheckedPiece, Family, reading_of
from flows.faults import Fault, InputError, did_you_mean
from flows.fit.executor import in_threads
from flows.records.runs import (
    Dropped,
    PublishError,
    RunPaths,
    latest_of,
    read_record,
    total_dropped,
)
from flows.report.render import lines_of
from flows.runs.context import Run
from flows.settings import RunSettings
from flows.settings.base import FILE, FOLDER
from flows.settings.tables import FileTableSettings
from flows.storage import InputFile, Sources, StorageError
from flows.tables.file_table import unmatched, with_file_table, without_table
from flows.tables.names import listed, option
from flows.tables.partition import Part, files_in, unreadable
from flows.tables.roles import WEIGHT
from flows.tables.table import Table, matches

_LOOKED = 20  # files whose columns are compared with names in settings


def refuse_target_of_another(run: Run) -> None:
    """Refuse a target whose latest run is another pipeline's: readers of it expect that one's."""
    target = run.paths.target
    try:
        latest = latest_of(target)
        holds = read_record(RunPaths(target, latest)).pipeline
    except storage.TransientStorageError:
        raise
    except (StorageError, PublishError):  # there is none yet, or it cannot be read
        return
    if holds != run.family.name:
        raise InputError.of(
            storage.shown(target),
            f"a target without runs, or with runs of {run.family.name}",
            f"runs of {holds} (the latest is {latest})",
            remedy="give another target",
        )


def complete_settings(run: Run) -> None:
    """Complete the settings by what the input says."""
    settings = run.settings
    if isinstance(settings, FileTableSettings):
        with reading_of(run.family, settings):
            settings = with_file_table(run.source, run.family.suffixes, settings)
    run.settings = run.family.settings_from_input(run.source, settings)


def look_at_files(run: Run, rows: bool = False) -> None:
    """Read of every input file what says how to cut it; check all ``rows``, too.

    Where that has a fault, the rows are checked, and all faults are raised at once.
    """
    files = _expand(run.source, run.family.suffixes)
    run.files = without_table(files, run.settings)
    _refuse_unknown_names(run)
    run.checked = _headers(run)
    faults = _faults(run, run.checked, rows=False)
    if faults or rows:
        try:
            parts = run.family.plan(run.files, run.checked, run.settings)
        except InputError as error:
            parts, faults = [], faults or [*error.faults]
        calls = [partial(_check, part, run.family, run.settings) for part in parts]
        try:
            checked = in_threads(calls, storage.looks_at_once(run.files), run.on_progress("check"))
        finally:
            storage.release_decoded()
        run.checked = _add_up(run, [piece for pieces in checked for piece in pieces])
        _refuse(run, _faults(run, run.checked, rows=bool(parts)) or faults)


def _check(part: Part, family: Family, settings: RunSettings) -> tuple[CheckedPiece, ...]:
    with reading_of(family, settings), storage.sharing(files_in([part])):
        return family.check(part, settings)


def _refuse_unknown_names(run: Run) -> None:
    """Refuse settings that name columns which no file has; new data may lack some of a fit's."""
    settings = run.settings
    columns_of = {role: name for role, name in settings.columns.items() if role != FILE}
    named = [(name, f"for {role}") for role, name in columns_of.items()]
    for which in ("exclude", "include"):
        named += [(name, f"to {which}") for name in getattr(settings, which, ())]
    if not named or run.fitted is not None:
        return
    table = table_read(run.family.name)
    ours = [column.name for column in table.columns] if table else []
    if table:
        _raise(_unknown_columns(run.family, table, columns_of))
    columns: dict[str, None] = {}
    with reading_of(run.family, settings), storage.sharing(run.files), suppress(StorageError):
        for file in run.files[:_LOOKED]:
            columns |= dict.fromkeys(storage.parquet_file(file.url).schema_arrow.names)
    faults = []
    for name, why in named:
        if (
            not columns
            or name in (FILE, FOLDER)
            or any(matches(column, name) for column in columns)
        ):
            continue
        remedy = f"{did_you_mean(name, columns) or 'correct the name.'} The columns are "
        remedy += listed([*columns], 8)
        if (role := why.removeprefix("for ")) in columns and name in ours:
            remedy = f"did you mean --column {name}={role}? It is OURS=YOURS"
        where = storage.source_in_words(run.source)
        faults.append(Fault(where, "", f"no column {name} {why}", remedy=remedy))
    _raise(faults)


def _unknown_columns(family: Family, table: Table, named: Mapping[str, str]) -> list[Fault]:
    """List names on the left of ``--column`` that are none of a pipeline's columns.

    Of one that reads any columns, only settings, and what looks like a slip of the pen.
    """
    ours, faults, settings = [c.name for c in table.columns], [], family.settings.model_fields
    for name, theirs in named.items():
        meant = f"--set {name}={theirs}?" if name in settings else did_you_mean(name, ours)
        if name not in (*ours, WEIGHT) and (meant or not table.others):
            remedy = meant or f"write OURS=YOURS; ours are {listed(ours, 12)}"
            found = f"{family.name} has no column called {name}"
            faults.append(Fault("--column", "", found, remedy=remedy))
    return faults


def file_warnings(run: Run) -> list[str]:
    """Say what was found out of the files' form and is not plain: encodings, names, lines."""
    by_note: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    with reading_of(run.family, run.settings), storage.sharing(run.files):
        for file in run.files:
            with suppress(StorageError):  # a sample sheet is read by other rules than a table
                for note, counts in storage.file_notes(file.url):
                    by_note.setdefault(note, []).append((file.url, counts))
        of_files = unmatched(run.files, run.settings)
    warnings = [] if of_files is None else lines_of("input", "lines", of_files)
    for note, of_note in by_note.items():
        (first, *others), counts = zip(*of_note, strict=True)
        sentence = note.format(*map(sum, zip(*counts, strict=True))) if counts[0] else note
        more = f" and {len(others):,} more" if others else ""
        warnings.append(f"{storage.shown(first)}{more}: {sentence}.")
    return warnings


def accept(run: Run) -> None:
    """Put together what ingest found in the rows of each file; refuse what is wrong.

    What only has its header read in `Run.checked` is then checked.
    """
    run.checked = _add_up(run, [piece for part in run.ingested for piece in part.checked])
    refused = [fault for part in run.ingested for fault in part.faults]
    _refuse(run, _faults(run, run.checked, rows=not refused) or refused)


def _add_up(run: Run, checked: Sequence[CheckedPiece]) -> list[Checked]:
    """Return the checks of all files, of which some rows' are given."""
    pieces: dict[str, list[CheckedPiece]] = {}
    for piece in checked:
        pieces.setdefault(piece.url, []).append(piece)
    return [
        run.family.merge(file, header, pieces[file.url], run.settings)
        if file.url in pieces
        else header
        for file, header in zip(run.files, run.checked, strict=True)
    ]


def refuse_unused(run: Run) -> None:
    """Where settings are strict, refuse an input if something in it would not be used."""
    if not run.settings.strict:
        return
    where = storage.source_in_words(run.source)
    expected, remedy = (
        "every row and value to be used (strict)",
        "correct the input, or leave --strict out",
    )
    faults = [
        Fault(where, expected, f"{lost.reason}: {lost.count:,}", remedy=remedy)
        for lost in all_dropped(run)
    ]
    expected = "every column to be used (strict)"
    for c in run.prepared.columns:
        if c.left_out:
            remedy = f"exclude it ({option('--exclude', c.name)})"
            faults.append(Fault(where, expected, c.used, c.name, remedy=remedy))
    _raise(faults)


def loss_warnings(run: Run) -> list[str]:
    """Say of what more than a tenth was not used, and what is the likely cause."""
    return [
        f"{d.count:,} of {d.of:,} ({100 * d.count / d.of:.0f} %) not used: {d.reason}. {d.cause}."
        for d in all_dropped(run)
        if d.is_large and d.cause
    ]


def all_dropped(run: Run) -> list[Dropped]:
    """Return what ingest and prepare could not use, added up."""
    return total_dropped([*(d for p in run.ingested for d in p.dropped), *run.prepared.dropped])


def _refuse(run: Run, faults: Sequence[Fault]) -> None:
    """Raise faults, if there are any: nothing can go on with a run of such an input."""
    if not faults:
        return
    for file in run.files:  # what is found in another version of a file says nothing of the run
        storage.refuse_changed(file.url, file.fingerprint)
    # A resumed run is held once its input is known to be what it began with.
    run.is_refused = run.lock is not None
    raise InputError(faults)


def _raise(faults: Sequence[Fault]) -> None:
    if faults:
        raise InputError(faults)


def _expand(source: Sources, suffixes: Sequence[str]) -> list[InputFile]:
    try:
        return storage.expand(source, suffixes)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        where = storage.source_in_words(source)
        if isinstance(source, str):
            where = storage.absolute(where)  # as the error names it
        raise InputError([unreadable(where, error)]) from error


def _headers(run: Run) -> list[Checked]:
    """Look at every file, several at once: that is mostly waiting for storage."""
    calls = [partial(_look_at, file, run.family, run.settings) for file in run.files]
    return in_threads(calls, storage.looks_at_once(run.files), run.on_progress("check"))


def _look_at(file: InputFile, family: Family, settings: RunSettings) -> Checked:
    try:
        with reading_of(family, settings), storage.sharing([file]):
            return family.read_header(file, settings)
    except InputError as error:
        return Checked(0, error.faults)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        return Checked(0, (unreadable(file.url, error),))


def _faults(run: Run, checked: Sequence[Checked], rows: bool = True) -> list[Fault]:
    """List the faults of files, else those between them, else (of ``rows``) what a fit lacks."""
    # Once each: what the settings name is looked at with every file.
    faults = list(dict.fromkeys(fault for file in checked for fault in file.faults))
    faults = faults or run.family.validate_dataset(run.files, checked)
    if run.fitted is not None:
        faults = [_without_option(fault) for fault in faults]
    elif rows:
        faults = faults or run.family.require_labels(run.files, checked)
    return faults


def _without_option(fault: Fault) -> Fault:
    """Return the fault of a column that new data lack; a score has no option that names one."""
    if not (fault.column and fault.is_absent):
        return fault
    first, *more = fault.column.split(",")
    what = f"give {first} and {len(more):,} more" if more else f"rename the column to {first}"
    return replace(fault, column=first, remedy=f"{what}, as in the input of the fit")
