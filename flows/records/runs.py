"""The layout of a run below its target, its record, and the one write that makes it visible."""

from __future__ import annotations

import logging
import platform
import re
import resource
import secrets
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, Field

from flows import storage
from flows.faults import Fault, InputError, RunError
from flows.records import json_files, lock
from flows.storage import DamagedError, StorageError
from flows.tables.table import INT64, NUMBER, TEXT, Column, Table
from vbmodels.core.algorithm import DRAWN
from vbmodels.core.state import FloatArray, IntArray, State, to_bytes
from vbmodels.tables.column_table import ColumnRead

log = logging.getLogger("vbflows.pipeline")

RUN = "run"
"""What the mark of a run's folder says."""

_LATEST = "latest.json"
_OWN = ("work", "kept")  # folders of a run that are no results
_MOST_LATEST = 2**16  # bytes
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
_TOOLS = ('"testing"', '"editing"', '"docs"', '"dev"')  # extras of which a run imports nothing


class PublishError(InputError):
    """A requested run cannot be named, found or read."""

    def __init__(self, run: str, expected: str, found: str, remedy: str | None = None) -> None:
        super().__init__([Fault(run, expected, found, remedy=remedy)])


class RemovedError(RunError):
    """The folder of a run was removed while it ran."""


@dataclass(frozen=True)
class RunPaths:
    """Where one run keeps what it leaves."""

    target: str
    run_id: str

    def __post_init__(self) -> None:
        if not _RUN_ID.fullmatch(self.run_id):
            raise PublishError(
                self.target,
                "a run id of at most 80 letters, digits, dashes and underscores",
                f"{self.run_id!r}, which cannot be a run id",
            )

    @property
    def below(self) -> tuple[str, str]:
        """The names that lead from the target to the folder of the run."""
        return "runs", self.run_id

    @property
    def root(self) -> str:
        """The folder of the run."""
        return storage.join(self.target, *self.below)

    @property
    def work(self) -> str:
        """Partitions, globals and checkpoints; removed when the run completes."""
        return storage.join(self.root, "work")

    def part(self, name: str, index: int, suffix: str = "parquet") -> str:
        """The URL of what the run keeps of one partition while it works."""
        return storage.join(self.work, name, f"part-{index:05d}.{suffix}")

    def table(self, name: str, part: int | None = None) -> str:
        """The URL of a table's folder, or of one of its parts."""
        folder = storage.join(self.root, name)
        return folder if part is None else storage.join(folder, f"part-{part:05d}.parquet")

    def kept(self, name: str, work: bool = False) -> str:
        """The URL of what the run works with, or scores of it need besides its posterior."""
        return storage.join(self.work if work else storage.join(self.root, "posterior"), name)

    def file(self, name: str) -> str:
        """The URL of a file of the run."""
        return storage.join(self.root, name)


class InputRecord(BaseModel):
    """One input file as it was read."""

    url: str
    size: int
    fingerprint: str
    rows: int


class Dropped(BaseModel):
    """Rows or values that could not be used, and why.

    Attributes
    ----------
    reason, count, examples
        Why, how many, and the names of some.
    of
        Out of how many; 0 where that is not known.
    cause
        What is likely to be wrong where they are many, and what to do, which a warning then says.
    by_family
        Whether a warning of the family says it where they are many.
    """

    reason: str
    count: int
    examples: list[str] = Field(default_factory=list)
    of: int = 0
    cause: str = ""
    by_family: bool = False

    @property
    def is_large(self) -> bool:
        """Whether more than a tenth is lost."""
        return 0 < self.of < 10 * self.count

    @property
    def is_warned_of(self) -> bool:
        """Whether a warning says it."""
        return self.is_large and (bool(self.cause) or self.by_family)


def total_dropped(dropped: Sequence[Dropped]) -> list[Dropped]:
    """Add up what was dropped for one reason; leave out what was not."""
    total: dict[str, Dropped] = {}
    for item in dropped:
        before = total.get(item.reason, Dropped(reason=item.reason, count=0))
        total[item.reason] = Dropped(
            reason=item.reason,
            count=before.count + item.count,
            examples=list(dict.fromkeys(before.examples + item.examples))[:100],
            of=before.of + item.of,
            cause=item.cause,
            by_family=item.by_family,
        )
    return [item for item in total.values() if item.count]


class Latest(json_files.Form):
    """The contents of ``latest.json``."""

    run_id: str
    pipeline: str


class RunRecord(json_files.Form):
    """The contents of ``run.json``."""

    run_id: str
    pipeline: str
    source: storage.Sources
    settings: dict[str, Any]
    changed: dict[str, Any] = Field(default_factory=dict)  # those that the user gave, as given
    versions: dict[str, str]
    started: datetime
    finished: datetime
    seconds: float
    peak_memory_bytes: int  # of the driver: of workers it is not known
    inputs: list[InputRecord]
    rows_read: int
    rows_kept: int
    dropped: list[Dropped]
    partitions: int
    workers: int = 0  # that computed; 0 where that was one process
    scheduler: str | None = None  # address of the cluster that they are of, if not of the run
    threads: int = 1  # of that process
    iterations: int
    converged: bool
    elbo: float | None
    objective: str = "bound"  # what elbo is; a sampler's is a log density
    warnings: list[str]
    notes: list[str] = Field(default_factory=list)  # what was inferred, most likely rightly
    since: str | None = None  # the run that this one went on from
    fitted: str | None = None  # of a score: the run whose fit it applies
    headline: str = ""  # what the run found, in a sentence
    results: dict[str, Any] = Field(default_factory=dict)
    columns: list[ColumnRead] = Field(default_factory=list)


@dataclass(frozen=True)
class Parameter:
    """A row of the table `POSTERIOR`: one global parameter."""

    name: str
    index: str | None
    mean: float
    sd: float | None = None


POSTERIOR = Table(
    "posterior",
    "The fitted global parameters in readable form.",
    (
        Column("name", TEXT, "name of the parameter"),
        Column("index", TEXT, "its index or the name of its coordinate", nullable=True),
        Column("mean", NUMBER, "posterior mean"),
        Column("sd", NUMBER, "posterior standard deviation", nullable=True),
    ),
)


TRACE = Table(
    "trace",
    "The bound after each accepted sweep.",
    (
        Column("iteration", INT64, "number of the sweep, from 0"),
        Column("elbo", NUMBER, "evidence lower bound", unit="nats"),
        Column("seconds", NUMBER, "time since the fit began", unit="s"),
    ),
)


NO_FIT = "no fit: scores only"


def fit_in_words(record: RunRecord) -> str:
    """Say how the fit ended, in a line."""
    if record.elbo is None:
        return f"fitted by run {record.fitted}" if record.fitted else NO_FIT
    if record.objective in DRAWN:
        state = "" if record.converged else ", stopped before the last"
        return f"{record.iterations} draws{state}"
    state = "converged" if record.converged else "NOT converged"
    return f"{state} after {record.iterations} sweeps"


def new_run_id(now: datetime | None = None) -> str:
    """Make a run id that sorts by time and is not made twice.

    >>> new_run_id(datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC))[:19]
    '20260102T030405-800'
    """
    moment = now or datetime.now(UTC)
    within = moment.microsecond * 4096 // 1_000_000  # of the second, in three of six digits
    return f"{moment:%Y%m%dT%H%M%S}-{within:03x}{secrets.randbelow(4096):03x}"


def versions() -> dict[str, str]:
    """Versions of Python, of vbflows, and of all packages that it names and finds installed."""
    installed = {"python": platform.python_version(), "vbflows": metadata.version("vbflows")}
    needed = [text for text in metadata.requires("vbflows") or () if not text.endswith(_TOOLS)]
    for name in (re.split(r"[^\w.-]", text)[0] for text in needed):
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def write_posterior(paths: RunPaths, q: State, parameters: Sequence[Parameter]) -> None:
    """Write the global parameters for machines (.npz), and those worth reading (Parquet)."""
    storage.write_bytes(storage.join(paths.root, "posterior", "q.npz"), to_bytes(q))
    table = pa.Table.from_pylist([vars(p) for p in parameters], schema=POSTERIOR.arrow)
    storage.write_table(storage.join(paths.root, "posterior", "parameters.parquet"), table)


def write_trace(
    paths: RunPaths, iterations: IntArray, elbo: FloatArray, seconds: FloatArray
) -> None:
    """Write the bound after every accepted sweep."""
    table = pa.table([iterations, elbo, seconds], schema=TRACE.arrow)
    storage.write_table(paths.file("trace.parquet"), table)


def complete(paths: RunPaths, record: RunRecord) -> None:
    """Write the record: all is there now that a run leaves."""
    for name in storage.names(paths.root):
        if name not in _OWN:  # a worker that was killed left part of a table that another wrote
            storage.remove_debris(storage.join(paths.root, name))
    json_files.write(paths.file("run.json"), record)


def mark_latest(paths: RunPaths, record: RunRecord) -> None:
    """Remove a complete run's working files and name it the latest.

    ``latest.json`` is one write and the last one, so a reader sees the old run or this
    one, never half of one. Its lock goes last: as long as it is there, a run that was stopped
    here differs from one that is published.
    """
    for name in storage.names(paths.work):
        if name != lock.LOCK and not name.startswith(f".{lock.LOCK}."):  # a heartbeat's
            storage.delete(storage.join(paths.work, name))
    latest = json_files.dumped(Latest(run_id=paths.run_id, pipeline=record.pipeline))
    refuse_removed(paths)
    # By way of the run's own folder: what a kill leaves of it then goes with that.
    storage.write_bytes(storage.join(paths.target, _LATEST), latest, aside=paths.work)
    remove_work(paths)


def refuse_removed(paths: RunPaths) -> None:
    """Raise `RemovedError` where the folder of a run that goes is gone, or was made again."""
    if not storage.is_own(paths.root, RUN):
        raise RemovedError(
            f"the folder of run {paths.run_id} was removed while it ran; nothing was published"
        )


def remove_work(paths: RunPaths) -> None:
    """Remove the working files of a run that is published."""
    lock.stop_heartbeat(paths.work)
    try:
        storage.delete(paths.work)
    except StorageError as error:
        log.warning("run %s is published, but its lock stays: %s", paths.run_id, error)


def later_than(paths: RunPaths) -> str | None:
    """Return the latest run of a target if it began in a later second than this one did."""
    try:
        latest = latest_of(paths.target)
    except storage.TransientStorageError:
        raise
    except StorageError:
        return None
    seconds = len("20260102T030405")
    return latest if latest[:seconds] > paths.run_id[:seconds] else None


def is_latest(paths: RunPaths) -> bool:
    """Whether a run is the one that its target's ``latest.json`` names."""
    try:
        return latest_of(paths.target) == paths.run_id
    except StorageError:
        return False


def read_record(paths: RunPaths) -> RunRecord:
    """Read what a finished run has recorded.

    Raises
    ------
    PublishError
        If the record is damaged, or has what this version does not know.
    """
    url = paths.file("run.json")
    try:
        return json_files.read(url, RunRecord)
    except DamagedError as error:
        raise PublishError(
            url, "the record of a run", str(error), "fit again, or use the version that wrote it"
        ) from error


def open_run(run: str) -> tuple[RunPaths, RunRecord]:
    """Find a finished run: its own folder, or a target whose latest run is meant.

    Raises
    ------
    PublishError
        If there is no finished run, or what names or records it is damaged.
    """
    try:
        paths = _paths_of(run)
        if not storage.exists(paths.file("run.json")):
            if storage.exists(paths.root):
                remedy = f"run the same command again with --resume {paths.run_id}"
                raise PublishError(
                    paths.root, "a finished run", "one that has not finished", remedy
                )
            remedy = f"list the runs: vbflows runs {shlex.quote(storage.shown(paths.target))}"
            if storage.exists(storage.join(paths.target, _LATEST)):
                remedy = f"the latest is {latest_of(paths.target)}; {remedy}"
            raise PublishError(paths.target, "", f"no run {paths.run_id}", remedy)
        return paths, read_record(paths)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        raise PublishError(
            storage.shown(run), "a finished run that can be read", str(error)
        ) from error


def _paths_of(run: str) -> RunPaths:
    url = storage.absolute(run)
    if storage.exists(storage.join(url, _LATEST)):
        try:
            return RunPaths(url, latest_of(url))
        except DamagedError as error:
            raise PublishError(
                url,
                "the latest run's name in latest.json",
                str(error),
                f"name the run, as {url}/runs/RUN_ID",
            ) from error
    above, _, run_id = url.rpartition("/")
    target, _, runs = above.rpartition("/")
    if runs != "runs":
        raise _no_finished_run(run, url)
    return RunPaths(target, run_id)


def _no_finished_run(run: str, url: str) -> PublishError:
    """Say what a folder has in place of a finished run, and what to do."""
    place = shlex.quote(storage.shown(run))
    if storage.names(storage.join(url, "runs")):
        found = "only runs that have not finished"
        remedy = f"see vbflows runs {place}, then --resume RUN_ID"
    elif storage.exists(url):
        found = "a folder without runs"
        remedy = f"write a run to it first: vbflows PIPELINE SOURCE {place}"
    else:
        found, remedy = "no such folder", "give the TARGET of a run, or TARGET/runs/RUN_ID"
    return PublishError(storage.shown(run), "a finished run", found, remedy)


def latest_of(target: str) -> str:
    """Return the name of a target's latest run.

    Raises
    ------
    StorageError
        If there is none, or it cannot be read.
    """
    return json_files.read(storage.join(target, _LATEST), Latest, _MOST_LATEST).run_id
