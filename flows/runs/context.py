"""A run as it goes: what was requested, where it computes, and what its stages have made so far.

It computes in this process, on local workers, or on a running cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from flows import storage
from flows.events import Events, Progress, Sweep
from flows.family import Checked, Family, Ingested, Prepared, reading_of
from flows.fit.driver import FitResult
from flows.fit.executor import Executor, InProcess, OnProgress, in_threads
from flows.fit.job import Job
from flows.records import json_files
from flows.records.lock import Claim, RunBusy
from flows.records.runs import InputRecord, RunPaths, RunRecord
from flows.settings import ComputeSettings, RunSettings
from flows.storage import InputFile
from flows.tables.partition import Part
from vbmodels.core.state import State

if TYPE_CHECKING:
    from flows.fit.cluster import Cluster

R = TypeVar("R")
Compute: TypeAlias = "LocalCompute | Cluster"


class LocalCompute:
    """This process, with so many threads."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.size = 0  # workers

    def each(
        self,
        function: Callable[..., R],
        items: Sequence[tuple[Any, ...]],
        on_progress: OnProgress | None = None,
    ) -> list[R]:
        """Call it on one after the other, or on several at once; results in order."""
        return in_threads([partial(function, *item) for item in items], self.threads, on_progress)

    def executor(self, job: Job) -> Executor:
        """Return the in-process executor."""
        return InProcess(job, threads=self.threads)


def _as_set(family: Family, settings: RunSettings, function: Callable[..., R], *args: Any) -> R:
    """Call a function that reads the files as settings say."""
    with reading_of(family, settings):
        return function(*args)


@contextmanager
def computing(settings: ComputeSettings, threads: int = 1) -> Iterator[Compute]:
    """Provide the place that the settings name, and release it at the end.

    This process, where it computes, has so many threads.
    """
    if settings.workers is None and settings.scheduler is None:
        yield LocalCompute(threads)
        return
    from flows.fit.connect import connect

    with connect(settings.workers, settings.scheduler, settings.memory_limit) as cluster:
        yield cluster


class KeptPart(json_files.Form):
    """A partition that a run kept: its rows and their input files, its files after ingest."""

    fingerprint: str
    urls: list[str]
    folder: str
    files: dict[str, str]  # by name, the digest of what it holds
    ingested: Ingested


class Manifest(json_files.Form):
    """The contents of ``kept/manifest.json``."""

    parts: list[KeptPart]


@dataclass
class Since:
    """The earlier run, and what this run keeps."""

    earlier: RunRecord | None = None  # its record; None where there is none yet
    start: str | None = None  # URL of its posterior; None where this run starts from the beginning
    known: dict[str, KeptPart] = field(default_factory=dict)  # what it kept, by rows' fingerprint
    notes: list[str] = field(default_factory=list)  # what the user should know
    kept: list[KeptPart] = field(default_factory=list)  # partitions of this run so far
    reused: int = 0  # how many of them were reused

    @property
    def run_id(self) -> str:
        """The earlier run; empty where there is none yet."""
        return "" if self.earlier is None else self.earlier.run_id

    @property
    def is_used(self) -> bool:
        """Whether this run takes anything from the earlier one."""
        return self.start is not None or bool(self.known)


class Run:
    """A run as it goes. Every stage reads what those before it have left here.

    It is no dataclass: Prefect looks into every field of one that a task is given.
    """

    def __init__(
        self,
        family: Family,
        source: storage.Sources,
        paths: RunPaths,
        settings: RunSettings,
        events: Events,
        options: ComputeSettings | None = None,
        since: str | None = None,
        resume: str | None = None,
        fitted: RunPaths | None = None,
    ) -> None:
        self.family, self.source, self.settings, self.events = family, source, settings, events
        self.changed = settings.changed()  # those that the user gave; the input may say more
        self.paths = paths  # where it keeps what it leaves; `check` may choose an unfinished run's
        self.options = options or ComputeSettings.model_validate({})  # where to compute
        self.since, self.resume = since, resume  # as requested; see `flows.run.run`
        self.fitted = fitted  # the finished run that is applied to new data; None for a fit
        self.started, self.clock = datetime.now(UTC), time.perf_counter()
        self.is_resume = False  # whether it continues an earlier attempt
        self.complete = False  # whether an attempt had all but its publication: nothing is left
        self.begun = False  # whether it has a folder
        self.can_resume = False  # whether another attempt can continue it
        self.is_refused = False  # whether its input was found to be wrong, so that none can
        self.tried = False  # whether its fit has begun
        self.turn: Claim | None = None  # of the target, where a schedule may have several at once
        self.lock: Claim | None = None
        self.compute: Compute = LocalCompute()
        self.threads = 1  # of this process, where it computes
        self.open = ExitStack()  # the cluster, the lock, the executor
        self._executor = self.open.enter_context(ExitStack())
        self.files: list[InputFile] = []  # by `check`: the input,
        self.checked: list[Checked] = []  # what is known of it,
        self.earlier: Since | None = None  # the earlier run,
        self.parts: list[Part] = []  # the partitions
        self.ingested: list[Ingested] = []  # what became of each one's rows
        self.prepared: Prepared  # partitions as arrays
        self.file_warnings: list[str] = []  # of the form of the files
        self.model: Any = None  # for them; None where there is nothing to fit
        self.executor: Executor
        self.q: State  # the global parameters
        self.fit: FitResult | None = None  # how the fit ended; None where none was made
        self.summaries: Sequence[Any] = ()  # what each partition says of its results

    @property
    def inputs(self) -> list[InputRecord]:
        """The input files as they were looked at."""
        return [
            InputRecord(url=f.url, size=f.size, fingerprint=f.fingerprint, rows=c.rows)
            for f, c in zip(self.files, self.checked, strict=True)
        ]

    def each(
        self, stage: str, function: Callable[..., R], items: Sequence[Any], *args: Any
    ) -> list[R]:
        """Return ``[function(item, *args) for item in items]``, made wherever the run computes.

        It ends early where a listener stops the run, or another process has taken it over.
        """
        calls = [(self.family, self.settings, function, item, *args) for item in items]
        return self.compute.each(_as_set, calls, self.on_progress(stage))

    def on_progress(self, stage: str) -> Callable[[int, int], None]:
        """Return what passes on how much of a stage is done."""

        def emit(done: int, total: int) -> None:
            if self.lock is not None:
                self.lock.check()
            self.events.emit(Progress(stage, done, total))

        return emit

    def work_by(self, executor: Executor) -> None:
        """Let partitions be worked on by an executor, in place of one from an earlier attempt."""
        self._executor.close()
        self.executor = self._executor.enter_context(closing(executor))

    def verify(self) -> None:
        """Raise `RunBusy` where another process has taken this run over, or published it."""
        if self.lock is not None:
            self.lock.verify()
        if storage.exists(self.paths.file("run.json")):
            raise RunBusy(
                f"run {self.paths.run_id} was published by another process while this one did "
                "not answer"
            )


def sweeps(run: Run) -> Callable[[Sweep], None]:
    """Return what passes the sweeps of a run's fit to its listeners."""

    def emit(sweep: Sweep) -> None:
        if sweep.expected is not None and sweep.seconds is not None:
            run.executor.ahead = f" of about {sweep.expected:.0f}, {sweep.seconds:.0f} s left"
        run.events.emit(sweep)

    return emit
