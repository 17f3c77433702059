"""No wait is without end: not for workers, not for a scheduler, not for the rest of a stage."""

import os
import signal
import time
from pathlib import Path

import dask
import pytest

from flows.catalogue import pipeline_named
from flows.events import Events
from flows.family import Ingested
from flows.faults import Fault, InputError
from flows.fit import cluster, cluster_executor
from flows.fit import connect as connecting
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.job import ClusterError
from flows.keywords.settings import KeywordSettings
from flows.records.runs import RunPaths
from flows.runs.context import Run
from flows.storage import StorageError, fingerprint_of
from flows.tables.partition import Part, Slice
from tests.faults.models import job
from tests.faults.processes import Deployment

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path / "cluster").start(1)
    yield made
    made.end()


@pytest.mark.thorough
@pytest.mark.parametrize("stage", ["each", "fit"])
def test_every_stage_gives_up_where_no_worker_comes(stage, deployment, tmp_path, urls, monkeypatch):
    for module in (cluster, cluster_executor):
        monkeypatch.setattr(module, "NO_WORKERS", 2.0)
    with connect(scheduler=deployment.address) as found:
        deployment.workers[0].end()
        task = job(urls, tmp_path, "run")
        executor = found.executor(task)
        stages = {
            "each": lambda: found.each(len, [([1],), ([2],)]),
            "fit": lambda: run_fit(task, executor),
        }
        with pytest.raises(ClusterError, match="no worker for 2 s; start some") as caught:
            stages[stage]()
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize("stage", ["each", "fit"])
def test_a_scheduler_that_is_stopped_counts_as_gone(stage, deployment, tmp_path, urls, monkeypatch):
    monkeypatch.setattr(cluster.Cluster.sync, "__defaults__", (2.0,))
    with connect(scheduler=deployment.address) as found:
        deployment.scheduler.send(signal.SIGSTOP)
        task = job(urls, tmp_path, "run")
        executor = found.executor(task)
        stages = {"each": lambda: found.each(len, [([1],)]), "fit": lambda: run_fit(task, executor)}
        try:
            with pytest.raises(ClusterError, match=r"the scheduler of .* went away"):
                stages[stage]()
        finally:
            deployment.scheduler.send(signal.SIGCONT)


@pytest.mark.thorough
def test_a_local_worker_that_takes_long_to_come_back_is_replaced(monkeypatch):
    """Dask closes the nanny whose worker takes longer, and starts no other."""
    setting = "distributed.deploy.lost-worker-timeout"
    monkeypatch.setitem(connecting.LOCAL, setting, "10ms")
    with dask.config.set({setting: "10ms"}), connect(workers=1) as found:
        (first,) = found.each(os.getpid, [()])
        for _ in range(2):
            os.kill(*found.each(os.getpid, [()]), signal.SIGKILL)
            (last,) = found.each(os.getpid, [()])
        assert last != first


def fail_with_another(part: Part, folder: str, error: Exception, timeout: float) -> Ingested:
    """The first part fails once the second has begun, and that one ends after it."""
    begun, outwaited = Path(folder, "begun"), Path(folder, "outwaited")
    if part.index == 1:
        begun.touch()
        await_file(Path(folder, "released"), timeout)
        outwaited.touch()
        return Ingested(part.index, 1)
    await_file(begun)
    raise error


def await_file(path: Path, timeout: float = 90.0) -> None:
    deadline = time.monotonic() + timeout
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.fixture(scope="module")
def local():
    with connect(workers=2) as made:
        yield made


def fail(local, folder, error, timeout):
    """Run a stage of two parts of which one fails while the other goes on for so long."""
    source = folder / "a.csv"
    source.write_text("name\n")
    mark = fingerprint_of(str(source))
    parts = [Part(i, (Slice(str(source), i, i + 1, mark),)) for i in range(2)]

    paths = RunPaths(str(folder / "target"), "run")
    run = Run(pipeline_named("keywords"), str(source), paths, KeywordSettings(), Events())
    run.compute = local
    kind = InputError if isinstance(error, InputError) else ClusterError  # names the worker
    with pytest.raises(kind, match=str(error)):
        run.each("ingest", fail_with_another, parts, str(folder), error, timeout)
    assert (folder / "begun").exists()


@pytest.mark.thorough
def test_a_failed_stage_does_not_wait_for_its_siblings(local, tmp_path):
    try:
        fail(local, tmp_path, StorageError("the disk is full"), 90.0)
        assert not (tmp_path / "outwaited").exists()
    finally:
        (tmp_path / "released").touch()


@pytest.mark.thorough
def test_where_the_input_is_wrong_nobody_writes_into_a_run_that_is_removed(local, tmp_path):
    wrong = InputError([Fault("a.csv", "a name", "null", row=3)])
    fail(local, tmp_path, wrong, 3.0)
    assert (tmp_path / "outwaited").exists()
