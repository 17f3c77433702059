"""What a run was asked for, and what a resumed run finds of its earlier attempt."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from flows.data import json_files, storage
from flows.data.lock import claim
from flows.data.runs import (
    RUN,
    PublishError,
    RunPaths,
    later_than,
    name_latest,
    read_record,
    remove_work,
)
from flows.data.storage import InputFile, StorageError
from flows.family import Family
from flows.faults import Fault, InputError
from flows.run import since as incremental
from flows.run.events import Events, Line
from flows.run.memo import differing, that_matter
from flows.run.outcome import outcome
from flows.settings import RunSettings

_MOST = 20  # files that are named

log = logging.getLogger("vbflows.pipeline")


class Asked(json_files.Form):
    """The contents of ``work/asked.json``."""

    pipeline: str
    settings: dict[str, Any]
    since: str | None  # the earlier run; empty where there was none yet, None without since
    inputs: dict[str, str]  # URL and fingerprint


def asked_for(
    pipeline: str, settings: RunSettings, since: str | None, files: Sequence[InputFile]
) -> Asked:
    """Describe all that a run's results depend on, as it will be read again."""
    inputs = {file.url: file.fingerprint for file in files}
    return Asked(pipeline=pipeline, settings=that_matter(settings), since=since, inputs=inputs)


def read_asked(paths: RunPaths) -> Asked | None:
    """Return what a run was asked for; None where it does not say.

    What it left is then not mixed with anything: finished work is found by its own key.
    """
    url = _url(paths)
    if not storage.exists(url):
        return None
    try:
        return json_files.read(url, Asked)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        log.warning("%s; it is written anew", error)
        return None


def settle(paths: RunPaths, ours: Asked, resume: bool) -> None:
    """Write what a run is asked for, or compare it with what it began with.

    Raises
    ------
    InputError
        If a resumed run is asked for something else: every difference.
    """
    theirs = read_asked(paths) if resume else None
    if theirs is None:
        json_files.write(_url(paths), ours)
        return
    faults = _differences(paths.run_id, theirs, ours)
    if faults:
        raise InputError(faults)


def _differences(run_id: str, theirs: Asked, ours: Asked) -> list[Fault]:
    remedy = "resume with what the run began with, or start a new run without resume"

    def fault(expected: str, found: str, column: str | None = None) -> Fault:
        return Fault(f"resume {run_id}", expected, found, column, remedy=remedy)

    if theirs.pipeline != ours.pipeline:
        return [fault(f"the pipeline {theirs.pipeline} that the run began with", ours.pipeline)]
    faults = [
        fault(
            f"{_value(theirs.settings, name)}, with which the run began",
            _value(ours.settings, name),
            name,
        )
        for name in differing(theirs.settings, ours.settings)
    ]
    if theirs.since != ours.since:
        faults.append(fault(f"a run {_since(theirs)}, as it began", _since(ours), "since"))
    before, now = theirs.inputs, ours.inputs
    of_files = [
        *(fault(f"the file {url}, which the run began with", "none") for url in before
          if url not in now),
        *(fault("the files that the run began with", f"{url} as well") for url in now
          if url not in before),
        *(fault(f"{url} as it was when the run began", "another version of it") for url in now
          if url in before and before[url] != now[url]),
    ]  # fmt: skip
    if len(of_files) > _MOST:
        more = fault("the files that the run began with", f"{len(of_files) - _MOST} others more")
        of_files = [*of_files[:_MOST], more]
    return faults + of_files


def _value(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "no such setting"


def _since(asked: Asked) -> str:
    if asked.since is None:
        return "without since"
    return f"since {asked.since}" if asked.since else "since latest, when there was none"


def _url(paths: RunPaths) -> str:
    return storage.join(paths.work, "asked.json")


def is_complete(paths: RunPaths) -> bool:
    """Whether a run has all it leaves and was stopped before it became the latest."""
    if not storage.is_own(paths.root, RUN) or not storage.exists(paths.file("run.json")):
        return False
    return storage.exists(paths.work) or not storage.exists(
        storage.join(paths.target, "latest.json")
    )


def publish_again(family: Family, paths: RunPaths) -> dict[str, Any]:
    """Do what is left of a complete run: name it the latest, unless a later one is.

    It may have been published before that one, and only its working files were left.
    """
    record = read_record(paths)
    if record.pipeline != family.name:
        raise InputError(
            [
                Fault(
                    f"resume {paths.run_id}",
                    f"the pipeline {record.pipeline} that the run began with",
                    family.name,
                )
            ]
        )
    with claim(paths.work, paths.run_id):
        storage.remove_debris(paths.root, "work")  # where the heartbeat is written
        later = later_than(paths)
        if later is None:
            name_latest(paths, record)
        else:
            remove_work(paths)
    became = (
        "it is published now" if later is None else f"run {later}, which is later, stays latest"
    )
    return outcome(paths, record, f"The run was complete when it was stopped; {became}.")


def refuse_nothing(paths: RunPaths) -> None:
    """Raise `PublishError` where there is no unfinished run of that name."""
    where = f"resume {paths.run_id}"
    if storage.exists(paths.work):
        if storage.is_own(paths.root, RUN) and not storage.is_link(paths.work):
            return
        raise PublishError(
            where, "a run that was stopped", f"{paths.root}, which no run made, or a link",
            "name a run that vbflows began; links are not followed",
        )  # fmt: skip
    if storage.exists(paths.file("run.json")):
        raise PublishError(
            where, "a run that was stopped", f"{paths.root}, which is published: there is nothing "
            "to resume"
        )  # fmt: skip
    raise PublishError(
        where, f"a run that was stopped, below {paths.target}", "none: there is nothing to resume",
        "give the target that it began with, or run the command without resume",
    )  # fmt: skip


def forget(paths: RunPaths, events: Events, made: Sequence[str] = ()) -> None:
    """Remove a run that cannot be gone on with, and those folders that it made for its target."""
    try:
        with storage.impatient():
            if storage.is_own(paths.root, RUN):
                storage.remove_own(paths.root, RUN)
            storage.remove_empty(paths.work)
            storage.remove_empty(paths.root)
            storage.remove_empty(storage.join(paths.target, "runs"))
            for folder in made:
                storage.remove_empty(folder)
    except StorageError as error:
        events.tell(Line(f"what is left of run {paths.run_id} stays: {error}"))


def forget_kept(paths: RunPaths, events: Events) -> None:
    """Have a resumed run do all stages again: a file that one of them has left is damaged."""
    try:
        storage.delete(storage.join(paths.work, "kept"))
    except StorageError as error:
        events.tell(Line(f"what run {paths.run_id} has kept stays: {error}"))


def earlier_of(
    family: Family, paths: RunPaths, settings: RunSettings, since: str, resume: bool
) -> incremental.Since:
    """Find the earlier run; for a resumed one the one that was the latest when it began."""
    whom = _whom(paths, since, resume)
    return (
        incremental.look_up(family, paths.target, whom, settings) if whom else incremental.Since()
    )


def refuse_empty(since: str | None) -> None:
    """Refuse an empty ``since``, as of a shell variable that is not set."""
    if since is not None and not since:
        raise InputError([Fault("since", "latest, or the id of a run that finished", "nothing")])


def _whom(paths: RunPaths, since: str, resume: bool) -> str:
    """Return the run that is meant; empty where a resumed one began when there was none."""
    began = read_asked(paths) if resume and since == incremental.LATEST else None
    return since if began is None or began.since is None else began.since


def since_whom(earlier: incremental.Since | None) -> str | None:
    """Name the run that one goes on from; empty where there is none yet, None without since."""
    if earlier is None:
        return None
    return earlier.earlier.run_id if earlier.earlier is not None else ""


def remove_results(paths: RunPaths) -> None:
    """Remove what an earlier attempt published in part: this one may write fewer files."""
    storage.remove_debris(paths.root, "work")
    for name in storage.names(paths.root):
        if name not in ("work", "kept", storage.MARK):
            storage.delete(storage.join(paths.root, name))
