"""What users do with runs, to be stopped anywhere: fit, fit on what is new, resume, score."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.catalogue import pipeline_named
from flows.faults import InputError
from flows.records import lock
from flows.records.runs import RunPaths, open_run
from flows.run import run as launch
from flows.run import score as launch_score
from flows.runs import checking
from flows.runs.resume import is_complete
from flows.settings import ComputeSettings
from flows.storage.objects.access import filesystem
from tests.faults import pipelines
from tests.faults.seam import Killed, Seam

JOURNEYS = ("fit", "since", "resume", "score")
# Enough to have checkpoints, few enough to be stopped at every write.
_CHECKPOINTS = {"experts": 30, "bags": 20, "features": 30}
_ROWS = {"keywords": 24, "bags": 40, "variants": 60, "features": 40, "experts": 60}


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Leave out what takes time and what makes the order of calls vary; no storage is in it."""
    patch.setattr(lock, "SETTLE", 0.0)
    patch.setattr(lock, "BEAT", 1e6)
    patch.setattr(checking, "in_threads", lambda calls, *_: [call() for call in calls])


@dataclass
class Journey:
    """One command of one pipeline on one store, which can be gone again from its beginning."""

    name: str
    kind: str
    source: str
    target: str
    fitted: str = ""
    expected: dict[str, Any] = field(default_factory=dict)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    stopped: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    def go(self, resume: str | None = None) -> dict[str, Any]:
        """Give the command."""
        if self.kind == "score":
            return launch_score(self.fitted, self.source, self.target, ComputeSettings())
        settings = _settings(self.name, self.changes)
        since = "latest" if self.kind == "since" else None
        return launch(
            self.name, self.source, self.target, settings, ComputeSettings(), since,
            resume or self.stopped,
        )  # fmt: skip

    def begin(self) -> None:
        """Put the store back to what it was before the command."""
        storage.delete(self.target)
        for name, content in self.before.items():
            storage.write_bytes(storage.join(self.target, name), content, durable=False)

    def runs(self) -> set[str]:
        """Return the names of the runs below the target."""
        return set(storage.names(storage.join(self.target, "runs")))

    def go_on(self, begun: set[str]) -> dict[str, Any]:
        """Do what a user does after a stop: resume where that is possible, or begin again."""
        run_id = self.stopped or next(iter(self.runs() - begun), None)
        if self.kind == "score" or run_id is None:
            return self.go()
        paths = RunPaths(self.target, run_id)
        if storage.exists(paths.work) or is_complete(paths):
            return self.go(run_id)
        with pytest.raises(InputError, match="which is published"):
            self.go(run_id)
        if self.latest() == run_id:
            return {"target": self.target, "run_id": run_id}
        assert not storage.exists(paths.file("run.json"))
        return self.go()

    def latest(self) -> str | None:
        """Return the run that the target names, once it is proved to be whole."""
        if not storage.exists(storage.join(self.target, "latest.json")):
            return None
        paths, record = open_run(self.target)
        found = pipelines.published({"target": self.target, "run_id": paths.run_id})
        assert found == self.known.get(record.run_id, self.expected)
        return paths.run_id

    def check(self, outcome: dict[str, Any]) -> None:
        """Assert that the run is published whole, and that nothing else is left of it."""
        assert pipelines.published(outcome) == self.expected
        assert self.latest() == outcome["run_id"]
        assert storage.names(self.target) == ["latest.json", "runs"]
        root = RunPaths(self.target, outcome["run_id"]).root
        assert "work" not in storage.names(root)
        assert [n for n in _files(root) if n.rpartition("/")[2].startswith(".")] == [storage.MARK]

    def contents(self) -> dict[str, bytes]:
        """Return all files below the target."""
        names = _files(self.target) if storage.exists(self.target) else ()
        return {name: storage.read_bytes(storage.join(self.target, name)) for name in names}


def _settings(name: str, changes: dict[str, Any]) -> Any:
    chosen = {"partitions": 2, "checkpoint_every": _CHECKPOINTS.get(name, 2)}
    return pipeline_named(name).settings(**{**chosen, **pipelines.SETTINGS[name], **changes})


def set_out(name: str, kind: str, folder: Path, store: str, **changes: Any) -> Journey:
    """Prepare a command: make its input and what was there before, and give it undisturbed."""
    tables = _input(name, folder / "drawn")
    made = Journey(name, kind, storage.join(store, "in"), storage.join(store, "out"))
    made.changes = changes
    files = [storage.join(made.source, f"{letter}.parquet") for letter in "ab"]
    storage.write_table(files[0], tables[0])
    if kind == "since":
        outcome = made.go()
        made.known[outcome["run_id"]] = pipelines.published(outcome)
    storage.write_table(files[1], tables[1])
    if kind == "score":
        made.fitted = storage.join(store, "fit")
        settings = _settings(name, changes)
        launch(name, made.source, made.fitted, settings, ComputeSettings())
    made.before = made.contents()
    made.expected = pipelines.published(made.go())
    if kind == "resume":
        made.stopped = _stop_in_fit(made)
        made.before = made.contents()
    return made


def stopped_at(made: Journey, number: int, half: bool) -> None:
    """Give the command, stop it before a write or in it, go on; assert all that must hold."""
    made.begin()
    begun = made.runs()
    stop(made, Seam(stop_at=number, half=half))
    made.latest()
    made.check(made.go_on(begun))


def changes_of(made: Journey) -> list[tuple[str, str]]:
    """Return the calls that change storage in the undisturbed command."""
    made.begin()
    seam = Seam()
    with pytest.MonkeyPatch.context() as patch:
        seam.enter(patch)
        made.check(made.go())
    return seam.changes


def stop(made: Journey, seam: Seam) -> None:
    """Give the command and have it killed."""
    with pytest.MonkeyPatch.context() as patch:
        seam.enter(patch)
        with suppress(Killed):
            made.go()
    assert seam.dead


def _stop_in_fit(made: Journey) -> str:
    """Leave a run that was stopped in its second checkpoint, or where it has none at its end."""
    changes = changes_of(made)
    written = [i for i, (_, path) in enumerate(changes, 1) if path.endswith("fit.npz")]
    made.begin()
    stop(made, Seam(stop_at=written[-1] if written else len(changes) - 30))
    (run_id,) = made.runs()
    return run_id


def _input(name: str, folder: Path) -> list[pa.Table]:
    """Return the input of a pipeline in two files."""
    table = pq.read_table(pipelines.simulate(name, str(folder), _ROWS[name]))
    cut = len(table) // 2
    return [table.slice(0, cut), table.slice(cut)]


def _files(folder: str) -> Iterator[str]:
    fs, path = filesystem(folder)
    root = path.strip("/") + "/"
    for name in fs.find(path):
        yield name.strip("/").removeprefix(root)
