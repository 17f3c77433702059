"""Many runs in one process leave nothing behind: no thread, descriptor, process or file."""

import gc
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from flows import storage
from flows.settings import ComputeSettings
from tests.faults.pipelines import SETTINGS, run, simulate
from tests.faults.processes import Process, is_worker

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def held() -> dict[str, set[object]]:
    """What this process has: threads, what its descriptors are of, and processes below it."""
    gc.collect()
    descriptors = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            descriptors.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return {
        "threads": {(thread.name, thread.ident) for thread in threading.enumerate()},
        "descriptors": descriptors,
        "processes": {p.pid for p in psutil.Process().children(recursive=True)},
    }


def left_over(before: dict[str, set[object]], seconds: float = 10.0) -> dict[str, set[object]]:
    """What is there that was not; what is about to end is given a moment."""
    deadline = time.monotonic() + seconds
    while True:
        now = held()
        new = {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}
        if not new or time.monotonic() > deadline:
            return new
        time.sleep(0.2)


@pytest.fixture
def sources(tmp_path):
    return {name: simulate(name, str(tmp_path / "data" / name)) for name in SETTINGS}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files, and what lies in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def only_results(target: Path) -> None:
    """See that a target has finished runs and nothing else."""
    assert sorted(path.name for path in target.iterdir()) == ["latest.json", "runs"]
    for folder in (target / "runs").iterdir():
        assert (folder / "run.json").exists()
        hidden = [path.name for path in folder.rglob("*") if path.name.startswith(".")]
        assert hidden == [storage.MARK]  # that a run made it
        assert not (folder / "work").exists()


MANY = pytest.mark.slow


@pytest.mark.thorough
@pytest.mark.parametrize("turns", [1, pytest.param(6, marks=MANY)])  # of five runs
def test_runs_in_one_process_leave_nothing_behind(turns, sources, temporary, tmp_path):
    for name, source in sources.items():
        run(name, source, str(tmp_path / "first" / name))  # what is loaded once stays
    before, files = held(), set(temporary.rglob("*"))
    for turn in range(turns):
        for name, source in sources.items():
            run(name, source, str(tmp_path / "target" / name), seed=turn)
    assert left_over(before) == {}
    assert set(temporary.rglob("*")) == files
    for name in sources:
        only_results(tmp_path / "target" / name)


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, pytest.param(5, marks=MANY)])
def test_runs_on_workers_leave_nothing_behind(turns, sources, temporary, tmp_path):
    compute = ComputeSettings(workers=1)
    source, target = sources["bags"], tmp_path / "target"
    run("bags", source, str(tmp_path / "first"), compute)
    before, files = held(), set(temporary.rglob("*"))
    for turn in range(turns):
        run("bags", source, str(target), compute, seed=turn)
    assert left_over(before) == {}
    assert set(temporary.rglob("*")) == files
    only_results(target)


@pytest.mark.thorough
def test_local_workers_end_with_a_driver_that_is_killed(corpus, tmp_path):
    command = ("-m", "tests.faults.driver", str(corpus), str(tmp_path / "out"), "run")
    driver = Process(*command, "--workers", "2", "--pause", "0.02")
    try:
        driver.await_line("sweep 2", 120)
        below = psutil.Process(driver.pid).children(recursive=True)
        working = [p for p in below if is_worker(p)]
        assert len(working) >= 2
        driver.send(signal.SIGKILL)
        _, alive = psutil.wait_procs(below, timeout=20)
        assert not alive
    finally:
        driver.end()
