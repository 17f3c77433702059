"""What a run was asked for: written where it works when it begins, compared on a resume."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from flows.data import json_files, storage
from flows.data.runs import RunPlace
from flows.data.storage import InputFile, StorageError
from flows.faults import Fault, InputError
from flows.settings import RunSettings

FREE = frozenset({"max_iter", "checkpoint_every"})  # settings that a resumed run may change
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
    one = Asked(
        pipeline=pipeline,
        settings=settings.model_dump(mode="json", exclude=set(FREE)),
        since=since,
        inputs={file.url: file.fingerprint for file in files},
    )
    return Asked.model_validate_json(one.model_dump_json())


def read_asked(place: RunPlace) -> Asked | None:
    """Return what a run was asked for; None where it does not say.

    What it left is then not mixed with anything: finished work is found by its own key.
    """
    url = _url(place)
    if not storage.exists(url):
        return None
    try:
        return json_files.read(url, Asked)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        log.warning("%s; it is written anew", error)
        return None


def settle(place: RunPlace, ours: Asked, resume: bool) -> None:
    """Write what a run is asked for, or compare it with what it began with.

    Raises
    ------
    InputError
        If a resumed run is asked for something else: every difference.
    """
    theirs = read_asked(place) if resume else None
    if theirs is None:
        json_files.write(_url(place), ours)
        return
    faults = _differences(place.run_id, theirs, ours)
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
        for name in {**theirs.settings, **ours.settings}
        if _value(theirs.settings, name) != _value(ours.settings, name)
    ]
    if theirs.since != ours.since:
        faults.append(fault(f"a run {_since(theirs)}, as it began", _since(ours), "since"))
    before, now = theirs.inputs, ours.inputs
    told = [
        *(fault(f"the file {url}, which the run began with", "none") for url in before
          if url not in now),
        *(fault("the files that the run began with", f"{url} as well") for url in now
          if url not in before),
        *(fault(f"{url} as it was when the run began", "another version of it") for url in now
          if url in before and before[url] != now[url]),
    ]  # fmt: skip
    if len(told) > _MOST:
        more = len(told) - _MOST
        told = [*told[:_MOST], fault("the files that the run began with", f"{more} others more")]
    return faults + told


def _value(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "no such setting"


def _since(asked: Asked) -> str:
    if asked.since is None:
        return "without since"
    return f"since {asked.since}" if asked.since else "since latest, when there was none"


def _url(place: RunPlace) -> str:
    return storage.join(place.work, "asked.json")
