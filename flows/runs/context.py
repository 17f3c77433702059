"""A run as it goes: what was requested, where it computes, and what its stages have made so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from flows.data import json_files, storage
from flows.data.lock import Claim, RunBusy
from flows.data.partition import Part
from flows.data.runs import InputRecord, RunPaths, RunRecord
from flows.data.storage import InputFile
from flows.events import Events, Progress, Sweep
from flows.family import Checked, Family, Ingested, Prepared
from flows.fit import driver
from flows.fit.compute import Compute, Here
from flows.fit.driver import FitResult
from flows.fit.executor import Executor
from flows.settings import ComputeSettings, RunSettings
from vbmodels.core.convergence import remaining_rise
from vbmodels.core.state import State

R = TypeVar("R")


class KeptPart(json_files.Form):
    """A partition that a run kept: its rows, its files after ingest."""

    fingerprint: str
    folder: str
    files: dict[str, str]  # by name, the digest of what it holds
    ingested: Any


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


@dataclass(eq=False, repr=False)
class Run:
    """A run as it goes. Every stage reads what those before it have left here."""

    family: Family
    source: storage.Sources
    paths: RunPaths  # where it keeps what it leaves; `check` may choose an unfinished run's
    settings: RunSettings
    events: Events
    options: ComputeSettings = field(default_factory=lambda: ComputeSettings.model_validate({}))
    since: str | None = None  # the runs that it goes on from, as requested: see `flows.run.run`
    resume: str | None = None
    fitted: RunPaths | None = None  # the finished run that is applied to new data; None for a fit

    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)
    is_resume: bool = False  # whether it continues an earlier attempt
    complete: bool = False  # whether an attempt had all but its publication: stages do nothing
    begun: bool = False  # whether it has a folder
    can_resume: bool = False  # whether another attempt can continue it
    is_refused: bool = False  # whether its input was found to be wrong, so that none can
    tried: bool = False  # whether its fit has begun

    lock: Claim | None = None
    compute: Compute = field(default_factory=Here)
    threads: int = 1  # of this process, where it computes
    open: ExitStack = field(default_factory=ExitStack)  # the cluster, the lock, the executor

    files: list[InputFile] = field(default_factory=list)  # by `check`: the input,
    checked: list[Checked] = field(default_factory=list)  # what is known of it,
    earlier: Since | None = None  # the earlier run,
    parts: list[Part] = field(default_factory=list)  # the partitions
    ingested: list[Ingested] = field(default_factory=list)  # what became of each one's rows
    prepared: Prepared = field(init=False)  # partitions as arrays
    model: Any = None  # for them; None where there is nothing to fit
    executor: Executor = field(init=False)
    q: State = field(init=False)  # the global parameters
    fit: FitResult | None = None  # how the fit ended; None where none was made
    summaries: Sequence[Any] = ()  # what each partition says of its results

    def __post_init__(self) -> None:
        self._executor = self.open.enter_context(ExitStack())

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
        calls = [(item, *args) for item in items]
        return self.compute.each(function, calls, self.on_progress(stage))

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
                f"run {self.paths.run_id} was published by another process while this one did not "
                "answer; nothing is left to do"
            )


def sweeps(run: Run) -> Callable[[driver.Progress], None]:
    """Return what passes the sweeps of a run's fit to its listeners."""
    seen: list[float] = []

    def emit(progress: driver.Progress) -> None:
        seen.append(progress.elbo)
        left = sweeps_left(seen, run.settings.tol)
        run.events.emit(
            Sweep(progress.iteration, progress.elbo, progress.rise, left, progress.max_iter)
        )

    return emit


def sweeps_left(trace: Sequence[float], tol: float) -> float | None:
    """Estimate how many sweeps a geometric rise needs to come below the tolerance."""
    if len(trace) < 3:
        return None
    now, before = trace[-1] - trace[-2], trace[-2] - trace[-3]
    rate = now / before if before > 0 else 0.0
    goal = tol * max(1.0, abs(trace[-1]))
    left = remaining_rise(trace)
    if not 0.0 < rate < 1.0 or left <= goal:
        return None
    return math.log(goal / left) / math.log(rate)
