"""The runs below a target: what there is, and what may go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from flows import storage
from flows.catalogue import PIPELINES
from flows.faults import InputError
from flows.records.runs import RUN, PublishError, RunPaths, is_latest, read_record
from flows.runs.incremental import runs_needed_by
from flows.runs.resume import Request, names_of_runs, read_request
from flows.storage import StorageError

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
    changed: dict[str, Any] = field(default_factory=dict)  # settings that the user gave
    results: dict[str, Any] = field(default_factory=dict)


def runs_of(target: str) -> list[Listed]:
    """List the runs below a target, the newest first; raise `InputError` if there are none."""
    url = storage.absolute(target)
    try:
        runs = [_listed(RunPaths(url, name)) for name in sorted(names_of_runs(url), reverse=True)]
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        raise InputError.of(
            storage.shown(target), "a target that can be listed", str(error)
        ) from error
    if not runs:
        what, remedy = "a folder without runs", None
        above, _, run_id = url.rpartition("/")
        if above.endswith("/runs"):
            what = f"the run {run_id}"
            remedy = f"give its target: {storage.shown(above.removesuffix('/runs'))}"
        elif not storage.exists(url):
            what = "no such folder"
        raise InputError.of(storage.shown(target), "a target with runs", what, remedy=remedy)
    return runs


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
    removed = [
        run.run_id
        for run in reversed(runs)
        if run.run_id not in stay
        # Remains that are newer than the latest run may be of one that begins just now.
        and (run.state != REMAINS or (latest is not None and run.run_id < latest))
    ]
    for run_id in removed:
        paths = RunPaths(url, run_id)
        if storage.is_own(paths.root, RUN):
            storage.delete(paths.file("run.json"))  # first: nobody opens what is half removed
            storage.remove_own(paths.root, RUN)
    return removed


def _needed(paths: RunPaths) -> set[str]:
    """Return the runs of the target that a run takes something from."""
    request = read_request(paths)
    needed = {request.since} if request is not None and request.since else set()
    for run_id in {paths.run_id, *needed}:
        needed |= runs_needed_by(RunPaths(paths.target, run_id))
    return needed


def _listed(paths: RunPaths) -> Listed:
    if storage.exists(paths.work):
        request = read_request(paths)
        if request is None:
            return Listed(paths.run_id, UNFINISHED)
        return Listed(paths.run_id, UNFINISHED, request.pipeline, changed=_given(request))
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
        changed=record.changed,
        results=record.results,
    )


def _given(request: Request) -> dict[str, Any]:
    """Return the settings that are no defaults; none where this version has others."""
    kind = PIPELINES.get(request.pipeline)
    try:
        return {} if kind is None else kind(**request.settings).changed()
    except ValidationError:
        return {}
