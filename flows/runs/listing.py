"""The runs below a target: what there is, and what may go."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import RUN, PublishError, RunPaths, RunRecord, latest_of, read_record
from flows.data.storage import StorageError
from flows.faults import Fault, InputError, did_you_mean
from flows.runs.incremental import runs_needed_by
from flows.runs.resume import names_of_runs, read_request

LATEST, FINISHED, UNFINISHED, REMAINS = "latest", "finished", "unfinished", "remains"


@dataclass(frozen=True)
class Listed:
    """A run below a target.

    Attributes
    ----------
    state
        latest, finished, unfinished (it goes on, or can be resumed), or remains of one that was
        removed.
    changed
        Settings that differ from their defaults.
    """

    run_id: str
    state: str
    pipeline: str = ""
    started: str = ""
    seconds: float | None = None
    rows: int | None = None
    iterations: int | None = None
    converged: bool | None = None
    elbo: float | None = None
    warnings: int = 0
    since: str | None = None
    changed: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)


ORDERS: dict[str, Callable[[Listed], Any]] = {
    "started": lambda run: run.run_id,
    "pipeline": lambda run: run.pipeline,
    "seconds": lambda run: run.seconds,
    "rows": lambda run: run.rows,
    "sweeps": lambda run: run.iterations,
    "bound": lambda run: run.elbo,
    "warnings": lambda run: run.warnings,
}
"""What runs can be sorted by, beside their results."""


def runs_of(target: str, by: str = "started") -> list[Listed]:
    """List the runs below a target, the newest first, or sorted by a figure, the largest first.

    Parameters
    ----------
    target
        The target.
    by
        A name of `ORDERS`, or of a result such as ``precision``; runs without it come last.

    Raises
    ------
    InputError
        If there are no runs, or none has such a figure.
    """
    url = storage.absolute(target)
    try:
        found = [_listed(RunPaths(url, name)) for name in names_of_runs(url)]
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        fault = Fault(storage.shown(target), "a target that can be listed", str(error))
        raise InputError([fault]) from error
    if not found:
        fault = Fault(storage.shown(target), "a target with runs", "none below it")
        raise InputError([fault])
    try:
        latest = latest_of(url)
    except StorageError:
        latest = ""
    found = [_named_latest(run) if run.run_id == latest else run for run in found]
    found.sort(key=ORDERS["started"], reverse=True)
    figure = ORDERS.get(by) or (lambda run: run.results.get(by))
    values = {run.run_id: figure(run) for run in found}
    told = {key: v for key, v in values.items() if _in_order(v)}
    if not told:
        results = {name for run in found for name, v in run.results.items() if _in_order(v)}
        known = {*ORDERS, *results}
        remedy = did_you_mean(by, known)
        raise InputError([Fault("--sort", f"one of {', '.join(sorted(known))}", by, remedy=remedy)])

    def place(run: Listed) -> tuple[bool, Any]:
        # Pipelines may tell by a word what others tell by a number.
        return isinstance(told[run.run_id], str), told[run.run_id]

    with_it = sorted((r for r in found if r.run_id in told), key=place, reverse=by != "pipeline")
    return [*with_it, *(run for run in found if run.run_id not in told)]


def _in_order(value: Any) -> bool:
    """Whether a figure is one that runs can be sorted by."""
    return isinstance(value, int | float | str)


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

    What stays, beside the ``keep`` newest: the latest, every run that is not finished, what
    one of these takes from an earlier run by since, and whatever has not the mark of a run.

    Raises
    ------
    InputError
        If there are no runs.
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
        return Listed(paths.run_id, FINISHED, "unreadable")
    return Listed(
        run_id=paths.run_id,
        state=FINISHED,
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


def _named_latest(run: Listed) -> Listed:
    return Listed(**{**vars(run), "state": LATEST})


_PART = ".parquet"


def tables_of(paths: RunPaths) -> list[str]:
    """Return the names of a run's tables."""
    return [
        name
        for name in storage.names(paths.root)
        if name not in ("posterior", "work", "kept") and "." not in name and parts_of(paths, name)
    ]


def rows_of(paths: RunPaths, name: str, by: str, most: int) -> pa.Table:
    """Return rows of a table: the first, or those with the largest (``-``: smallest) of a column.

    Parameters
    ----------
    paths
        The run.
    name
        The table.
    by
        A column, with a ``-`` before it for the smallest first; empty for the order of the table.
    most
        Most rows.

    Raises
    ------
    InputError
        If there is no such table or column.
    """
    known = tables_of(paths)
    if name not in known:
        remedy = did_you_mean(name, known)
        expected = f"one of its tables {', '.join(known) or '(it has none)'}"
        raise InputError([Fault(f"run {paths.run_id}", expected, name, remedy=remedy)])
    column = by.removeprefix("-")
    parts = _read(paths, name)
    first = next(parts)
    sortable = [f.name for f in first.schema if not pa.types.is_nested(f.type)]
    if by and column not in sortable:
        remedy = did_you_mean(column, sortable)
        columns = f"one of the columns of single values {', '.join(sortable)}"
        raise InputError([Fault(f"table {name}", columns, column, remedy=remedy)])
    kept = first.slice(0, 0)
    for part in itertools.chain([first], parts):
        kept = pa.concat_tables([kept, part])
        kept = _top(kept, column, by, most) if by else kept.slice(0, most)
        if not by and len(kept) == most:
            break
    return kept


def _read(paths: RunPaths, name: str) -> Iterator[pa.Table]:
    for part in parts_of(paths, name):
        yield storage.read_table(storage.join(paths.table(name), part))


def _top(rows: pa.Table, column: str, by: str, most: int) -> pa.Table:
    order = "ascending" if by.startswith("-") else "descending"
    return rows.take(pc.sort_indices(rows, [(column, order)])[:most])


def parts_of(paths: RunPaths, name: str) -> list[str]:
    """Return the names of the files of a table."""
    return [part for part in storage.names(paths.table(name)) if part.endswith(_PART)]


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
