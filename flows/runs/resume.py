"""What a run was requested to do, and how a later attempt finds it and goes on with it.

``work/request.json`` holds all that a run's results depend on. An attempt that resumes it must
request the same; a scheduled one (``resume=auto``) looks for an unfinished run of its own request.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from pydantic_core import from_json

from flows import storage
from flows.events import Events, TakenOver
from flows.faults import Fault, InputError
from flows.prefect import flow_run_id
from flows.records import json_files
from flows.records.lock import claim
from flows.records.runs import (
    RUN,
    PublishError,
    RunPaths,
    later_than,
    mark_latest,
    read_record,
    remove_work,
)
from flows.runs.context import Run
from flows.settings import RunSettings
from flows.storage import StorageError

AUTO, LATEST = "auto", "latest"
NON_SEMANTIC = frozenset({"max_iter", "checkpoint_every"})  # settings that change no step
_MOST = 20  # files that are named

log = logging.getLogger("vbflows.pipeline")


class Request(json_files.Form):
    """The contents of ``work/request.json``."""

    pipeline: str
    settings: dict[str, Any]
    since: str | None  # the earlier run; empty where there was none yet, None without since
    inputs: dict[str, str]  # URL and fingerprint


def cache_relevant(settings: RunSettings, free: frozenset[str] = NON_SEMANTIC) -> dict[str, Any]:
    """Return the settings that results depend on, as they will be read again."""
    return dict(from_json(settings.model_dump_json(exclude=set(free))))


def changed_keys(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the settings that are not the same."""
    missing = object()
    names = {**before, **now}
    return [name for name in names if before.get(name, missing) != now.get(name, missing)]


CODE = metadata.version("vbflows")
"""The version of the code that makes the results."""


def key_of(*content: str) -> str:
    """Return the key of what this code makes of some content."""
    return hashlib.sha256("\0".join([CODE, *content]).encode()).hexdigest()[:32]


def request_of(run: Run) -> Request:
    """Describe all that a run's results depend on, as it will be read again."""
    return Request(
        pipeline=run.family.name,
        settings=cache_relevant(run.settings),
        since=None if run.earlier is None else run.earlier.run_id,
        inputs={file.url: file.fingerprint for file in run.files},
    )


def read_request(paths: RunPaths) -> Request | None:
    """Return what a run was requested to do; None where that is not known.

    What it left is then not mixed with anything: finished work is found by its own key.
    """
    url = _url(paths)
    if not storage.exists(url):
        return None
    try:
        return json_files.read(url, Request)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        log.warning("%s; it is written again", error)
        return None


def check_same_request(run: Run) -> None:
    """Write what a run is requested to do; refuse to resume one that began with something else."""
    ours = request_of(run)
    theirs = read_request(run.paths) if run.is_resume else None
    if theirs is None:
        json_files.write(_url(run.paths), ours)
    elif faults := _differences(run.paths.run_id, theirs, ours):
        raise InputError(faults)


@contextmanager
def turn(run: Run) -> Iterator[None]:
    """Let one run of a target at a time look for an unfinished one; raise `RunBusy` for another.

    Runs that a schedule missed meet the first of them, or what it has published.
    """
    if run.resume != AUTO:
        yield
        return
    made = storage.absent(run.paths.target)
    try:
        with claim(
            run.paths.target, run.paths.run_id, flow_run=flow_run_id(), alone=True
        ) as run.turn:
            if run.turn.dead is not None:
                run.events.emit(TakenOver(run.turn.dead.flow_run))
            yield
    finally:
        for folder in made:
            storage.remove_empty(folder)


def find(run: Run) -> None:
    """Let a run go on with the unfinished one that ``resume`` means.

    Without one it starts from the beginning; ``latest`` is refused where others have finished.
    """
    if run.resume is None:
        return
    runs = [RunPaths(run.paths.target, name) for name in names_of_runs(run.paths.target)]
    empty = [paths for paths in runs if storage.names(paths.root) == [storage.MARK]]
    for paths in empty:  # it was stopped before it wrote anything
        storage.remove_own(paths.root, RUN)
    if run.resume == AUTO:
        ours = request_of(run)
        for paths in unfinished(run.paths.target):
            theirs = read_request(paths)
            if theirs is not None and _same(theirs, ours, run.since):
                run.events.say(f"going on with run {paths.run_id}, which was stopped")
                return _take(run, paths)
    else:
        for paths in unfinished(run.paths.target):
            return _take(run, paths)
        if len(runs) > len(empty):
            raise _none(LATEST, run.paths.target)
    run.events.say("no unfinished run of this request: a new one begins")


def find_named(run: Run) -> None:
    """Let a run go on with the one whose id ``resume`` is; raise `PublishError` if it cannot."""
    paths = RunPaths(run.paths.target, str(run.resume))
    where = f"resume {paths.run_id}"
    if is_complete(paths) or _is_unfinished(paths):
        return _take(run, paths)
    if storage.exists(paths.work):
        raise PublishError(
            where,
            "a run that was stopped",
            f"{paths.root}, which no run made, or a link",
            "name a run that vbflows began; links are not followed",
        )
    if storage.exists(paths.file("run.json")):
        raise PublishError(where, "a run that was stopped", f"{paths.root}, which is published")
    raise _none(paths.run_id, paths.target)


def is_named(resume: str | None) -> bool:
    """Whether a resume names its run by its id."""
    return resume is not None and resume not in (AUTO, LATEST)


def _take(run: Run, paths: RunPaths) -> None:
    run.paths, run.is_resume, run.can_resume = paths, True, True
    run.complete = is_complete(paths)
    if run.turn is not None:
        run.turn.rename(paths.run_id)


def _none(resume: str, target: str) -> PublishError:
    return PublishError(
        f"resume {resume}",
        f"a run that was stopped, below {target}",
        "none",
        "give its target, or leave resume out",
    )


def _same(theirs: Request, ours: Request, since: str | None) -> bool:
    """Whether two requests are the same; ``latest`` meant the run that was it at that time."""
    either = since == LATEST and theirs.since is not None
    return theirs.model_copy(update={"since": since if either else theirs.since}) == (
        ours.model_copy(update={"since": since})
    )


def names_of_runs(target: str) -> list[str]:
    """Return the runs below a target; files, links and folders that no run made are left out."""
    names = []
    for name in storage.names(storage.join(target, "runs")):
        try:
            root = RunPaths(target, name).root
        except PublishError:
            continue
        if storage.is_own(root, RUN):
            names.append(name)
    return names


def unfinished(target: str) -> Iterator[RunPaths]:
    """Yield the runs below a target that can be gone on with, the newest first."""
    for name in sorted(names_of_runs(target), reverse=True):
        paths = RunPaths(target, name)
        if _is_unfinished(paths):
            yield paths


def _is_unfinished(paths: RunPaths) -> bool:
    ours = storage.is_own(paths.root, RUN) and not storage.is_link(paths.work)
    return ours and storage.exists(paths.work)


def is_complete(paths: RunPaths) -> bool:
    """Whether a run has all it leaves and was stopped before it became the latest."""
    if not storage.is_own(paths.root, RUN) or not storage.exists(paths.file("run.json")):
        return False
    return storage.exists(paths.work) or not storage.exists(
        storage.join(paths.target, "latest.json")
    )


def publish_complete(run: Run) -> str:
    """Do what is left of a complete run: name it the latest, unless a later one is; say which.

    It may have been published before that one, and only its working files were left.
    """
    paths, record = run.paths, read_record(run.paths)
    if record.pipeline != run.family.name:
        raise InputError.of(
            f"resume {paths.run_id}", f"the run's pipeline {record.pipeline}", run.family.name
        )
    with claim(paths.work, paths.run_id):
        storage.remove_debris(paths.root, "work")  # where the heartbeat is written
        later = later_than(paths)
        if later is None:
            mark_latest(paths, record)
        else:
            remove_work(paths)
    became = (
        "it is published now" if later is None else f"run {later}, which is later, stays latest"
    )
    return f"The run was complete when it was stopped; {became}."


def forget(paths: RunPaths, events: Events, made: Sequence[str] = ()) -> None:
    """Remove a run that cannot be gone on with, and those folders that it made for its target."""
    try:
        with storage.no_retry():
            if storage.is_own(paths.root, RUN):
                storage.remove_own(paths.root, RUN)
            storage.remove_empty(paths.work)
            storage.remove_empty(paths.root)
            storage.remove_empty(storage.join(paths.target, "runs"))
            for folder in made:
                storage.remove_empty(folder)
    except StorageError as error:
        events.say(f"what is left of run {paths.run_id} stays: {error}")


def remove_results(paths: RunPaths) -> None:
    """Remove what an earlier attempt published in part: this one may write fewer files."""
    storage.remove_debris(paths.root, "work")
    for name in storage.names(paths.root):
        if name not in ("work", "kept", storage.MARK):
            storage.delete(storage.join(paths.root, name))


def _differences(run_id: str, theirs: Request, ours: Request) -> list[Fault]:
    remedy = "resume with that, or start a new run"

    def fault(expected: str, found: str, what: str = "") -> Fault:
        return Fault(f"resume {run_id}{what}", expected, found, remedy=remedy)

    if theirs.pipeline != ours.pipeline:
        return [fault(f"the run's pipeline {theirs.pipeline}", ours.pipeline)]
    faults = [
        fault(
            f"the run's {_value(theirs.settings, name)}",
            _value(ours.settings, name),
            f", setting {name}",
        )
        for name in changed_keys(theirs.settings, ours.settings)
    ]
    if theirs.since != ours.since:
        faults.append(fault(f"a run {_since(theirs)}, as it began", _since(ours), ", since"))
    before, now = theirs.inputs, ours.inputs
    of_files = [
        *(fault(f"the run's file {url}", "none") for url in before if url not in now),
        *(fault("the run's files", f"{url} as well") for url in now if url not in before),
        *(
            fault(f"{url} as it was when the run began", "another version of it")
            for url in now
            if url in before and before[url] != now[url]
        ),
    ]
    if len(of_files) > _MOST:
        more = fault("the run's files", f"{len(of_files) - _MOST} others more")
        of_files = [*of_files[:_MOST], more]
    return faults + of_files


def _value(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "no such setting"


def _since(request: Request) -> str:
    if request.since is None:
        return "without since"
    return f"since {request.since}" if request.since else "since latest, when there was none"


def _url(paths: RunPaths) -> str:
    return storage.join(paths.work, "request.json")
