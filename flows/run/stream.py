"""Runs that learn from new files alone: what the runs before left them, and what they leave.

A run with ``forgetting_factor`` goes on from the posterior and the statistics of the one before
(`vbmodels.core.streaming`). Files that were learnt from are not read again, whether they are still
there or not. What stands under ``runs/RUN/kept/`` is all that the next run needs: ``stream.npz``
(posterior and statistics), ``reference.npz`` (what nights are told by) and ``stream.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from flows.data import json_files, storage
from flows.data.runs import PublishError, RunPaths, RunRecord, is_latest, latest_of, open_run
from flows.data.states import read_state
from flows.data.storage import InputFile, StorageError
from flows.family import Family
from flows.faults import Fault, InputError, shown
from flows.run.memo import FREE, differing, that_matter
from flows.settings import RunSettings
from vbmodels.core.drift import Drift, Night, drift
from vbmodels.core.memoised import Held, NotMemoisable
from vbmodels.core.protocol import Cursor
from vbmodels.core.state import FloatArray, State, to_bytes
from vbmodels.core.streaming import Remembered, refuse_stream

LATEST = "latest"
MOST_NIGHTS = 400
"""Nights of one reference that are kept."""
_LEARNT, _REMEMBERED, _REFERENCE = "stream.json", "stream.npz", "reference.npz"
_FREE = FREE | {
    "tol", "loop", "rounds", "seed", "partitions", "rows_per_partition", "columns",
    "list_separator", "forgetting_factor",
}  # fmt: skip
"""Settings that may differ from one run of a stream to the next."""


class KeptNight(json_files.Form):
    """The new rows of a run, as the reference tells them."""

    run_id: str
    units: int
    mean: float
    variance: float

    @property
    def night(self) -> Night:
        """Its figures."""
        return Night(self.units, self.mean, self.variance)


class Learnt(json_files.Form):
    """The contents of ``kept/stream.json``.

    Attributes
    ----------
    files
        Every file that was learnt from, and its fingerprint.
    rows
        Rows behind the posterior, old ones discounted.
    behind, since
        Rows behind the reference, and rows learnt after it.
    renew
        Whether the posterior is to be the next reference.
    nights
        Runs that the reference has not learnt from.
    """

    files: dict[str, str]
    rows: float
    behind: float
    since: int
    renew: bool
    nights: list[KeptNight]


class NothingNew(Exception):
    """Every file was learnt from before: whatever is the latest run stays it.

    Attributes
    ----------
    paths, record
        That run.
    """

    def __init__(self, paths: RunPaths, record: RunRecord) -> None:
        stays = ", which stays the latest" if is_latest(paths) else ""
        super().__init__(f"There is nothing new since run {record.run_id}{stays}.")
        self.paths, self.record = paths, record


@dataclass(frozen=True)
class Before:
    """The run that one goes on from, and what it has learnt."""

    record: RunRecord
    paths: RunPaths
    learnt: Learnt
    left: Remembered
    reference: State


@dataclass
class Stream:
    """A run that learns from new files alone.

    Attributes
    ----------
    factor
        What earlier rows' weight is multiplied by.
    before
        The run that it goes on from; None where there is none yet.
    of_latest
        Whether that is to be the latest until this one is.
    judged
        The nights that the reference tells, this one last; empty where there is no reference.
    found
        How far this night is from those before it; None where that cannot be told.
    anew
        This night as the run before's posterior tells it, where that is the next reference.
    """

    factor: float
    before: Before | None = None
    of_latest: bool = False
    judged: list[KeptNight] = field(default_factory=list)
    found: Drift | None = None
    anew: KeptNight | None = None

    @property
    def earlier(self) -> RunRecord | None:
        """The record of the run before."""
        return None if self.before is None else self.before.record

    @property
    def paths(self) -> RunPaths | None:
        """Where the run before is."""
        return None if self.before is None else self.before.paths

    @property
    def remembered(self) -> str | None:
        """URL of the posterior and statistics to go on from."""
        return None if self.before is None else _url(self.before.paths, _REMEMBERED)

    @property
    def alarm(self) -> bool:
        """Whether the new rows are unlike those before them."""
        return self.found is not None and self.found.alarm


def look_up(family: Family, target: str, since: str | None, settings: RunSettings) -> Stream | None:
    """Find what a run goes on from; None where it is to fit all rows again.

    Parameters
    ----------
    since
        ``latest`` or a run's name; empty where there was none when a resumed run began.

    Raises
    ------
    InputError
        If it cannot: without since, with a model that cannot learn so, from a run that left
        nothing or had other settings. To begin anew instead would forget all rows unasked.
    """
    factor = settings.forgetting_factor
    if factor is None:
        return None
    model = family.model(settings)
    if since is None:
        raise InputError([_fault("a run with --since latest", "one without", "add it")])
    try:
        if model is None:
            raise NotMemoisable("these settings fit no model")
        if not settings.streams:
            raise NotMemoisable(
                f"{family.name}, whose report judges a run's model beside others of the same rows"
            )
        refuse_stream(model)
    except NotMemoisable as reason:
        expected = "a model that can learn from new rows alone"
        raise InputError([_fault(expected, str(reason), "leave it out")]) from reason
    if not since or (since == LATEST and not storage.exists(storage.join(target, "latest.json"))):
        return Stream(factor)
    try:
        where = target if since == LATEST else RunPaths(target, since).root
        paths, record = open_run(where)
    except PublishError as error:
        found = shown(since) if since != LATEST else str(error)
        fault = Fault("since", "latest, or the id of a run that finished", found)
        raise InputError([fault]) from error
    return Stream(factor, _before(family, paths, record, settings))


def _before(family: Family, paths: RunPaths, record: RunRecord, settings: RunSettings) -> Before:
    """Return a run with what it left, if this one can go on from it."""
    name, anew = f"run {record.run_id}", "or begin a new stream in another target"

    def refuse(expected: str, found: str, remedy: str) -> InputError:
        return InputError([Fault("since", expected, found, remedy=f"{remedy}, {anew}")])

    if record.pipeline != family.name:
        found = f"{name}, of {record.pipeline}"
        raise refuse(f"an earlier run of {family.name}", found, "name one")
    try:
        theirs = that_matter(family.settings(**record.settings), _FREE)
    except ValidationError as error:
        found = f"{name}, whose settings this version does not know"
        raise refuse("an earlier run to go on from", found, "name another") from error
    different = differing(theirs, that_matter(settings, _FREE))
    if different:
        found = f"others ({', '.join(different)})"
        raise refuse(f"the settings of {name}, to go on from it", found, "give the same")
    try:
        learnt = json_files.read(_url(paths, _LEARNT), Learnt)
        left = read_state(_url(paths, _REMEMBERED), Remembered)
        reference = read_state(_url(paths, _REFERENCE), State)
    except storage.TransientStorageError:
        raise
    except storage.MissingError as error:
        expected = "a run with forgetting_factor, which keeps what this one goes on from"
        raise refuse(expected, f"{name}, which kept nothing", "name one") from error
    except StorageError as error:
        raise refuse(f"what {name} kept, whole", str(error), "restore it from a copy") from error
    return Before(record, paths, learnt, left, reference)


def refuse_a_fork(paths: RunPaths, began: str) -> None:
    """Refuse to go on where another run has become the latest since this one began.

    As the latest, this one would make the stream forget what that has learnt from files that may
    be gone.

    Parameters
    ----------
    began
        The run that was the latest then; empty where there was none.

    Raises
    ------
    InputError
        If it is not the latest any more.
    """
    try:
        latest = latest_of(paths.target)
    except storage.MissingError:
        latest = ""
    if latest != began:
        expected = f"{f'run {began}' if began else 'no run'} as the latest, as when it began"
        remedy = "run the command anew, without resume: it reads what that run has not learnt from"
        found = f"run {latest}, which has learnt since" if latest else "none"
        raise InputError([Fault(f"run {paths.run_id}", expected, found, remedy=remedy)])


def new_files(stream: Stream | None, files: list[InputFile]) -> list[InputFile]:
    """Return the files that a run learns from: all, or those that no run before has learnt from.

    Raises
    ------
    InputError
        If a file is another than it was: rows of it would count twice.
    NothingNew
        If there is none.
    """
    if stream is None or stream.before is None:
        return files
    known = stream.before.learnt.files
    faults = [
        Fault(
            file.url,
            "a file as it was when an earlier run learnt from it",
            "another version of it, whose rows might count twice",
            remedy="give new rows in files of their own, or fit all without forgetting_factor",
        )
        for file in files
        if known.get(file.url, file.fingerprint) != file.fingerprint
    ]
    if faults:
        raise InputError(faults)
    new = [file for file in files if file.url not in known]
    if not new:
        raise NothingNew(stream.before.paths, stream.before.record)
    return new


def judge(stream: Stream, run_id: str, executor: Any) -> None:
    """Compare the new rows with those of the nights before, as the reference tells them.

    A reference serves until more rows have come than it has learnt from, or an alarm. Then the
    night is told by the posterior of the run before as well, which is the next reference.
    """
    if stream.before is None:
        return
    before, learnt = stream.before, stream.before.learnt

    def night(q: State) -> KeptNight:
        one = Night.of(executor.map(_told, q))
        return KeptNight(run_id=run_id, units=one.units, mean=one.mean, variance=one.variance)

    tonight = night(before.reference)
    stream.judged = [*learnt.nights, tonight]
    stream.found = drift([one.night for one in learnt.nights], tonight.night)
    if learnt.renew:
        stream.anew = night(before.left.q)


def _told(model: Any, q: Any, batch: Any, local: Any, index: int) -> FloatArray:
    """Return about the log density of each unit at parameters that have not learnt from it."""
    told: FloatArray = model.unit_bounds(q, batch, model.local_step(q, batch, None))
    return told


def keep(
    stream: Stream, paths: RunPaths, model: Any, cursor: Cursor, files: Sequence[InputFile],
    rows: int,
) -> None:  # fmt: skip
    """Write what the next run goes on from."""
    left = Remembered(cursor.q, Held.of(model, cursor))
    storage.write_bytes(_url(paths, _REMEMBERED), to_bytes(left))
    reference, before = cursor.q, stream.before
    if before is not None:
        reference = before.reference if stream.anew is None else before.left.q
    storage.write_bytes(_url(paths, _REFERENCE), to_bytes(reference))
    json_files.write(_url(paths, _LEARNT), _after(stream, files, rows))


def _after(stream: Stream, files: Sequence[InputFile], rows: int) -> Learnt:
    """Return what is learnt after this run."""
    new = {file.url: file.fingerprint for file in files}
    if stream.before is None:
        return Learnt(files=new, rows=rows, behind=rows, since=0, renew=False, nights=[])
    before = stream.before.learnt
    behind, since, nights = before.behind, before.since + rows, stream.judged[-MOST_NIGHTS:]
    if stream.anew is not None:
        behind, since, nights = before.rows, rows, [stream.anew]
    elif stream.alarm:
        nights = stream.judged[-1:]  # what is usual from now on
    return Learnt(
        files={**before.files, **new},
        rows=rows + stream.factor * before.rows,
        behind=behind,
        since=since,
        renew=stream.alarm or since > behind,
        nights=nights,
    )


def _fault(expected: str, found: str, remedy: str) -> Fault:
    return Fault("settings", expected, found, column="forgetting_factor", remedy=remedy)


def _url(paths: RunPaths, name: str) -> str:
    return storage.join(paths.root, "kept", name)
