"""A run as it goes: what it is, where it computes, and what has been found out so far."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from flows.data import storage
from flows.data.lock import Claim, RunBusy
from flows.data.partition import Part
from flows.data.runs import InputRecord, RunPaths
from flows.data.storage import InputFile
from flows.family import Checked, Family, Ingested
from flows.faults import InputError
from flows.fit.compute import Compute, Here
from flows.run import tasks
from flows.run.events import Events, PartDone, Stage
from flows.run.memo import Memo, key_of, that_matter
from flows.settings import RunSettings

R = TypeVar("R")
_MOST_TASKS = 64


@dataclass
class Run:
    """A run as it goes: what it is, and what has been found out so far."""

    family: Family
    source: storage.Sources
    paths: RunPaths
    settings: RunSettings
    events: Events
    compute: Compute = field(default_factory=Here)
    fitted: RunPaths | None = None  # the finished run that is applied to new data
    resumes: bool = False  # whether it goes on with an earlier attempt
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.perf_counter)
    files: list[InputFile] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    workers: int = 0  # local ones; 0 for this process, or a cluster that was there
    threads: int = 1  # of this process, where it computes
    since: Any = None  # flows.run.since.Since
    held: Claim | None = None
    resumable: bool = False  # whether another attempt can go on with it
    hopeless: bool = False  # whether none can, as its input was found to be wrong

    @property
    def inputs(self) -> list[InputRecord]:
        """The input files as they were looked at."""
        return [
            InputRecord(url=f.url, size=f.size, fingerprint=f.fingerprint, rows=c.rows)
            for f, c in zip(self.files, self.checked, strict=True)
        ]

    def on_progress(self, stage: str) -> Callable[[int, int], None]:
        """Return what tells how much of a stage is done.

        It raises where a listener stops the run, or another process has taken it over.
        """

        def tell(done: int, total: int) -> None:
            if self.held is not None:
                self.held.check()
            self.events.tell(PartDone(stage, done, total))

        return tell

    def stage(self, name: str, function: Callable[..., R], *args: Any) -> R:
        """Carry out a stage as one task, and return what the function returns."""
        self.events.tell(Stage(name))
        return self.events.task(name, partial(function, *args))

    def confirm(self) -> None:
        """Raise `RunBusy` where another process has taken this run over, or published it."""
        if self.held is not None:
            self.held.confirm()
        if storage.exists(self.paths.file("run.json")):
            raise RunBusy(
                f"run {self.paths.run_id} was published by another process while this one did not "
                "answer; nothing is left to do"
            )

    def map(
        self, name: str, function: Callable[..., Any], parts: Sequence[Part], *args: Any
    ) -> list[Any]:
        """Apply a function to every partition: a few groups of them as mapped tasks."""
        groups = _groups(parts, _MOST_TASKS)
        settings = json.dumps(that_matter(self.settings))
        calls = self.compute.calls()

        def one(group: list[Part]) -> list[Ingested]:
            return calls.call(_apply_to_group, group, function, *args)

        def key(group: list[Part]) -> str:
            # With the index: what a part leaves is stored under it.
            of = (f"{part.index}:{part.fingerprint}" for part in group)
            return key_of(name, self.family.name, settings, *of)

        memo = Memo(storage.join(self.paths.work, "kept"), one)
        try:
            found = tasks.each(
                self.events, name, one, groups, memo=memo, key=key, on_stop=calls.abandon,
                at_once=calls.at_once,
            )  # fmt: skip
        finally:
            storage.decoded.release()
        return [result for group in found for result in group]


def _groups(parts: Sequence[Part], most: int) -> list[list[Part]]:
    count = min(most, len(parts))
    cuts = [len(parts) * i // count for i in range(count + 1)]
    return [list(parts[a:b]) for a, b in itertools.pairwise(cuts)]


def _apply_to_group(group: Sequence[Part], function: Callable[..., R], *args: Any) -> list[R]:
    files = {s.url: s.fingerprint for part in group for s in part.slices}
    try:
        with storage.sharing(files):
            results = [function(part, *args) for part in group]
    except InputError:
        _refuse_changed(files)  # what changes while it is read looks wrong
        raise
    # Looked at after reading: what was read is then what was looked at.
    _refuse_changed(files)
    return results


def _refuse_changed(files: Mapping[str, str]) -> None:
    for url, fingerprint in sorted(files.items()):
        storage.refuse_changed(url, fingerprint)
