"""What a resumed run finds of its earlier attempt, and what it does with that."""

from __future__ import annotations

from typing import Any

from flows.data import storage
from flows.data.lock import claim
from flows.data.runs import (
    PublishError,
    RunPlace,
    later_than,
    name_latest,
    read_record,
    remove_work,
)
from flows.data.storage import StorageError
from flows.family import Family
from flows.faults import Fault, InputError
from flows.run import asked
from flows.run import since as incremental
from flows.run.events import Events, Line
from flows.run.outcome import outcome
from flows.settings import RunSettings


def is_complete(place: RunPlace) -> bool:
    """Whether a run has all it leaves and was stopped before it became the latest."""
    if not storage.exists(place.file("run.json")):
        return False
    return storage.exists(place.work) or not storage.exists(
        storage.join(place.target, "latest.json")
    )


def publish_again(family: Family, place: RunPlace) -> dict[str, Any]:
    """Do what is left of a complete run: name it the latest, unless a later one is.

    It may have been published before that one, and only its working files were left.
    """
    record = read_record(place)
    if record.pipeline != family.name:
        raise InputError(
            [
                Fault(
                    f"resume {place.run_id}",
                    f"the pipeline {record.pipeline} that the run began with",
                    family.name,
                )
            ]
        )
    storage.remove_debris(place.root)
    with claim(place.work, place.run_id):
        later = later_than(place)
        if later is None:
            name_latest(place, record)
        else:
            remove_work(place)
    became = (
        "it is published now" if later is None else f"run {later}, which is later, stays latest"
    )
    return outcome(place, record, f"The run was complete when it was stopped; {became}.")


def refuse_nothing(place: RunPlace) -> None:
    """Raise `PublishError` where there is no unfinished run of that name."""
    if storage.exists(place.work):
        return
    where = f"resume {place.run_id}"
    if storage.exists(place.file("run.json")):
        raise PublishError(
            where, "a run that was stopped", f"{place.root}, which is published: there is nothing "
            "to resume"
        )  # fmt: skip
    raise PublishError(
        where, f"a run that was stopped, below {place.target}", "none: there is nothing to resume",
        "give the target that it began with, or run the command without resume",
    )  # fmt: skip


def forget(place: RunPlace, events: Events) -> None:
    """Remove a run that cannot be gone on with."""
    try:
        with storage.impatient():
            storage.delete(place.root)
            storage.remove_empty(storage.join(place.target, "runs"))
    except StorageError as error:
        events.tell(Line(f"what is left of run {place.run_id} stays: {error}"))


def forget_kept(place: RunPlace, events: Events) -> None:
    """Have a resumed run do all stages again: a file that one of them has left is damaged."""
    try:
        storage.delete(storage.join(place.work, "kept"))
    except StorageError as error:
        events.tell(Line(f"what run {place.run_id} has kept stays: {error}"))


def earlier_of(
    family: Family, place: RunPlace, settings: RunSettings, since: str, resume: bool
) -> incremental.Since:
    """Find the earlier run; for a resumed one the one that was the latest when it began."""
    began = asked.read_asked(place) if resume and since == incremental.LATEST else None
    if began is None or began.since is None:
        return incremental.look_up(family, place.target, since, settings)
    if not began.since:
        return incremental.Since()
    return incremental.look_up(family, place.target, began.since, settings)


def since_whom(earlier: incremental.Since | None) -> str | None:
    """Name the run that one goes on from; empty where there is none yet, None without since."""
    if earlier is None:
        return None
    return earlier.earlier.run_id if earlier.earlier is not None else ""


def remove_results(place: RunPlace) -> None:
    """Remove what an earlier attempt published in part: this one may write fewer files."""
    storage.remove_debris(place.root)
    for name in storage.names(place.root):
        if name not in ("work", "kept"):
            storage.delete(storage.join(place.root, name))
