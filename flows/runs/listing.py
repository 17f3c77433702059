"""The runs below a target: what there is, and what may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import RUN, PublishError, RunPaths, RunRecord, is_latest, read_record
from flows.data.storage import StorageError
from flows.faults import InputError, did_you_mean
from flows.runs.incremental import runs_needed_by
from flows.runs.resume import names_of_runs, read_request

LATEST, FINISHED, UNFINISHED, REMAINS = "latest", "finished", "unfinished", "remains"


@dataclass(frozen=True)
class Listed:
    """A run below a target."""

    run_id: str
    state: str  # latest, finished, unfinished (it goes on, or can be resumed), remains of one
    pipeline: str = ""
    started: str = ""
    seconds: float | None = None
    rows: int | None = None
    iterations: int | None = None
    converged: bool | None = None
    elbo: float | None = None
    warnings: int = 0
    since: str | None = None
    changed: dict[str, Any] = field(default_factory=dict)  # settings that differ from the defaults
    results: dict[str, Any] = field(default_factory=dict)


def runs_of(target: str) -> list[Listed]:
    """List the runs below a target, the newest first; raise `InputError` if there are none."""
    url = storage.absolute(target)
    try:
        found = [_listed(RunPaths(url, name)) for name in sorted(names_of_runs(url), reverse=True)]
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        expected = "a target that can be listed"
        raise InputError.of(storage.shown(target), expected, str(error)) from error
    if not found:
        raise InputError.of(storage.shown(target), "a target with runs", "none below it")
    return found


def as_json(target: str, runs: Sequence[Listed]) -> dict[str, Any]:
    """Return runs as plain values."""
    latest = next((run.run_id for run in runs if run.state == LATEST), None)
    return {
        "target": storage.absolute(target),
        "latest": latest,
        "runs": [asdict(run) for run in runs],
    }


def prune(target: str, keep: int) -> list[str]:
    """Remove all but the newest finished runs; return the names of those that went.

    What stays, in addition to the ``keep`` newest: the latest, every run that is not finished, what
    one of these takes from an earlier run by since, and whatever has not the mark of a run.
    """
    runs = runs_of(target)
    url = storage.absolute(target)
    finished = [run.run_id for run in runs if run.state in (LATEST, FINISHED)]
    stay = set(finished[:keep])
    stay |= {run.run_id for run in runs if run.state in (LATEST, UNFINISHED)}
    latest = next((run.run_id for run in runs if run.state == LATEST), None)
    for run_id in sorted(stay):
        stay |= _needed(RunPaths(url, run_id))
    gone = [
        run.run_id
        for run in reversed(runs)
        if run.run_id not in stay
        # Remains that are newer than the latest run may be of one that begins just now.
        and (run.state != REMAINS or (latest is not None and run.run_id < latest))
    ]
    for run_id in gone:
        _remove(RunPaths(url, run_id))
    return gone


def _needed(paths: RunPaths) -> set[str]:
    """Return the runs of the target that a run takes something from."""
    request = read_request(paths)
    needed = {request.since} if request is not None and request.since else set()
    for run_id in {paths.run_id, *needed}:
        needed |= runs_needed_by(RunPaths(paths.target, run_id))
    return needed


def _remove(paths: RunPaths) -> None:
    """Remove a run: first its record, so that nobody opens what is half gone."""
    if storage.is_own(paths.root, RUN):
        storage.delete(paths.file("run.json"))
        storage.remove_own(paths.root, RUN)


def _listed(paths: RunPaths) -> Listed:
    if storage.exists(paths.work):
        request = read_request(paths)
        return Listed(paths.run_id, UNFINISHED, "" if request is None else request.pipeline)
    if not storage.exists(paths.file("run.json")):
        return Listed(paths.run_id, REMAINS)
    try:
        record = read_record(paths)
    except PublishError:
        return Listed(paths.run_id, LATEST if is_latest(paths) else FINISHED, "unreadable")
    return Listed(
        run_id=paths.run_id,
        state=LATEST if is_latest(paths) else FINISHED,
        pipeline=record.pipeline,
        started=record.started.isoformat(timespec="seconds"),
        seconds=record.seconds,
        rows=record.rows_kept,
        iterations=record.iterations,
        converged=record.converged,
        elbo=record.elbo,
        warnings=len(record.warnings),
        since=record.since,
        changed=changed_settings(record),
        results=record.results,
    )


def changed_settings(record: RunRecord) -> dict[str, Any]:
    """Return the settings of a run that differ from the defaults of today."""
    kind = PIPELINES.get(record.pipeline)
    if kind is None:
        return dict(record.settings)
    defaults = kind().model_dump()
    return {
        name: value
        for name, value in record.settings.items()
        if name not in defaults or plain(value) != plain(defaults[name])
    }


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def tables_of(paths: RunPaths) -> list[str]:
    """Return the names of a run's tables."""
    return [
        name
        for name in storage.names(paths.root)
        if name not in ("posterior", "work", "kept") and "." not in name and parts_of(paths, name)
    ]


def rows_of(paths: RunPaths, name: str, by: str, most: int, columns: str = "") -> pa.Table:
    """Return at most so many rows of a table, of the columns named with commas between them.

    They are the first, or those with the largest of the column ``by`` (``-by``: the smallest).
    Raises `InputError` if there is no such table or column.
    """
    known = tables_of(paths)
    if name not in known:
        expected = f"one of its tables {', '.join(known) or '(it has none)'}"
        raise InputError.of(f"run {paths.run_id}", expected, name, remedy=did_you_mean(name, known))
    column = by.removeprefix("-")
    first, *parts = (storage.join(paths.table(name), part) for part in parts_of(paths, name))
    kept = storage.read_table(first)
    sortable = [f.name for f in kept.schema if not pa.types.is_nested(f.type)]
    if by and column not in sortable:
        columns = f"one of the columns of single values {', '.join(sortable)}"
        raise InputError.of(f"table {name}", columns, column, remedy=did_you_mean(column, sortable))
    wanted = [one.strip() for one in columns.split(",")] if columns else kept.schema.names
    for one in wanted:
        if one not in kept.schema.names:
            every = f"one of its columns {', '.join(kept.schema.names)}"
            remedy = did_you_mean(one, kept.schema.names)
            raise InputError.of(f"table {name}", every, one, remedy=remedy)
    for part in ["", *parts]:
        if part:
            kept = pa.concat_tables([kept, storage.read_table(part)])
        if by:
            order = "ascending" if by.startswith("-") else "descending"
            kept = kept.take(pc.sort_indices(kept, [(column, order)])[:most])
        elif len(kept) >= most:
            break
    return kept.slice(0, most).select(wanted)


def parts_of(paths: RunPaths, name: str) -> list[str]:
    """Return the names of the files of a table."""
    return [part for part in storage.names(paths.table(name)) if part.endswith(".parquet")]


def cell(value: Any) -> str:
    """Return a cell in few characters.

    >>> cell(0.123456), cell(None), cell(["a", "b"]), cell(True)
    ('0.1235', '', 'a, b', 'yes')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(cell(one) for one in value)
    return str(value)
