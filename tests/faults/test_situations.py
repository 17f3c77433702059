"""Clusters that cannot be used, and partitions that do not fit: a sentence each."""

import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from flows import storage
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.job import ClusterError
from tests.contract.toy import Groups
from tests.faults.models import Greedy, job, store_corpus
from tests.faults.processes import ROOT, Deployment, Process
from vbmodels.core.state import from_bytes


def refused(address, pattern):
    began = time.monotonic()
    with pytest.raises(ClusterError, match=pattern) as caught:
        connect(scheduler=address).__enter__()
    assert "\n" not in str(caught.value)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    made = Deployment(tmp_path_factory.mktemp("empty"))
    yield made
    made.end()


@pytest.fixture
def with_worker(empty):
    """Start a worker with other code or other variables; it is ended with the test."""
    started = []

    def start(**options):
        worker = empty.add(**options)
        started.append(worker)
        worker.await_line("Registered to:")
        return empty.address

    yield start
    for worker in started:
        worker.end()
    deadline = time.monotonic() + 30
    while empty.pids() and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.mark.thorough
def test_a_cluster_without_workers(empty, monkeypatch):
    monkeypatch.setattr("flows.fit.connect.NO_WORKERS", 1.0)
    refused(empty.address, f"the cluster at {empty.address} had no workers for 1 s; start some")


@pytest.mark.thorough
def test_a_port_that_speaks_something_else():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert refused(address, f"no scheduler answers at {address}") < 25


def site(folder: Path, code: str) -> str:
    """Return a search path whose sitecustomize runs code before anything else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return f"{folder}:{ROOT}"


BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("flows", "vbmodels"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.thorough
def test_a_worker_without_the_package(with_worker, tmp_path):
    address = with_worker(PYTHONPATH=site(tmp_path / "site", BLOCK))
    refused(address, "worker tcp://.* lacks the package 'flows'; install vbflows on")


@pytest.mark.thorough
def test_a_scheduler_without_the_package(tmp_path):
    made = Deployment(tmp_path / "bare", PYTHONPATH=site(tmp_path / "site", BLOCK))
    try:
        made.start(1)
        refused(made.address, "the scheduler of .* lacks the package 'flows'; install")
    finally:
        made.end()


@pytest.mark.thorough
def test_a_worker_with_another_source(with_worker, tmp_path):
    for package in ("flows", "vbmodels"):
        shutil.copytree(ROOT / package, tmp_path / "code" / package)
    changed = tmp_path / "code" / "vbmodels" / "core" / "state.py"
    changed.write_text(changed.read_text() + "\n# another line\n")
    address = with_worker(code=tmp_path / "code")
    refused(address, "has vbflows of source .*same versions")


@pytest.mark.thorough
def test_a_worker_with_another_python(with_worker, tmp_path):
    code = """
from types import SimpleNamespace
from flows.fit import versions
versions.sys = SimpleNamespace(version_info=(3, 99))
"""
    address = with_worker(PYTHONPATH=site(tmp_path / "site", code))
    here = ".".join(str(n) for n in sys.version_info[:2])
    refused(address, rf"has python 3\.99; this process has python {here}")


PYARROW = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: "18.0" if name == "pyarrow" else version(name)
"""


def worked_on(folder, number):
    """Leave the process that did a task."""
    (Path(folder) / f"{number}-{os.getpid()}").touch()
    time.sleep(0.2)
    return number


def joined_by(code, tmp_path, items):
    """Work on a cluster of one worker that is joined by another; return who did it, and how many.

    Where the work fails, what it raised is raised at the end.
    """
    made = Deployment(tmp_path / "cluster").start(1)
    (own,) = made.pids().values()
    (tmp_path / "done").mkdir()

    def join(done, total):
        if done == 1:
            joined = made.add(PYTHONPATH=site(tmp_path / "site", code))
            joined.await_line("Registered to:")

    try:
        with connect(scheduler=made.address) as cluster:
            return len(
                cluster.each(worked_on, [(str(tmp_path / "done"), i) for i in range(items)], join)
            )
    finally:
        made.end()
        by = {name.rpartition("-")[2] for name in os.listdir(tmp_path / "done")}
        assert by == {str(own)}, "the other worker did some"


@pytest.mark.thorough
def test_a_worker_that_joins_in_mid_ingest_is_compared_first(tmp_path):
    with pytest.raises(ClusterError, match=r"worker tcp://\S+ of .* has pyarrow 18\.0; this"):
        joined_by(PYARROW, tmp_path, 400)


@pytest.mark.thorough
def test_a_worker_without_the_package_that_joins_in_mid_ingest_does_nothing(tmp_path):
    """Dask's worker ends at a task that it cannot read."""
    assert joined_by(BLOCK, tmp_path, 40) == 40


@pytest.mark.thorough
def test_workers_that_join_and_leave_in_mid_ingest(tmp_path):
    made = Deployment(tmp_path / "cluster").start(2)
    (tmp_path / "done").mkdir()

    def change(done, total):
        if done == 3:
            made.add().await_line("Registered to:")
        if done == 15:
            made.workers[0].send(signal.SIGTERM)
        if done == 30:
            os.kill(made.pids()["w1"], signal.SIGKILL)

    try:
        with connect(scheduler=made.address) as cluster:
            items = [(str(tmp_path / "done"), i) for i in range(60)]
            assert cluster.each(worked_on, items, change) == list(range(60))
    finally:
        made.end()
    assert len({name.rpartition("-")[2] for name in os.listdir(tmp_path / "done")}) >= 3


@pytest.mark.slow
def test_a_worker_that_joins_later_with_another_source_is_found_out(tmp_path, urls):
    made = Deployment(tmp_path / "cluster").start(1)
    for package in ("flows", "vbmodels"):
        shutil.copytree(ROOT / package, tmp_path / "code" / package)
    changed = tmp_path / "code" / "flows" / "fit" / "tree.py"
    changed.write_text(changed.read_text() + "\n# another line\n")
    task = job(urls, tmp_path, "run", max_iter=1000, tol=1e-300)

    def step(progress):
        if progress.iteration == 2:
            made.add(PYTHONPATH=f"{tmp_path / 'code'}:{ROOT}").await_line("Registered to:")
            time.sleep(1.1)

    try:
        with (
            connect(scheduler=made.address) as cluster,
            pytest.raises(ClusterError, match="has vbflows of source"),
        ):
            run_fit(task, cluster.executor(task), on_step=step)
    finally:
        made.end()


@pytest.mark.thorough
def test_a_partition_that_kills_workers_is_named(tmp_path):
    """The partition with the most groups takes 4 GB where a worker may have 600 MB."""
    urls = store_corpus(tmp_path / "data", partitions=8, seed=9)
    groups = [len(from_bytes(Path(url).read_bytes(), Groups).y) for url in urls]
    assert groups.count(max(groups)) == 1
    guilty = groups.index(max(groups))
    model = Greedy(groups=max(groups), nbytes=4 << 30)
    task = job(urls, tmp_path, "run", model=model)
    made = Deployment(tmp_path / "cluster", DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
    try:
        for _ in range(2):
            made.add("--memory-limit", "600MiB")
        for worker in made.workers:
            worker.await_line("Registered to:")
        with connect(scheduler=made.address) as cluster, pytest.raises(ClusterError) as caught:
            run_fit(task, cluster.executor(task))
    finally:
        made.end()
    message = str(caught.value)
    assert f"workers die on partition {guilty} ({urls[guilty]})" in message
    assert "limit of a worker: 600 MB" in message
    assert "\n" not in message


WITHOUT = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).unshare(0x20000)  # CLONE_NEWNS: mounts of its own
for mount in (["--make-rprivate", "/"], ["-t", "tmpfs", "tmpfs", sys.argv[1]]):
    subprocess.run(["mount", *mount], check=True)
os.execv(sys.executable, [sys.executable, "-m", "dask", "worker", *sys.argv[2:]])
"""


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_worker_that_does_not_see_a_file_is_named(tmp_path):
    """The driver sees it, and resuming would not help: the sentence says what does."""
    urls = store_corpus(tmp_path / "data", partitions=4)
    made = Deployment(tmp_path / "cluster")
    options = ("--nthreads", "1", "--no-dashboard", "--no-nanny")
    worker = Process("-c", WITHOUT, str(tmp_path / "data"), made.address, *options)
    pattern = (
        r"worker tcp://\S+ cannot read \S+part-00000.npz; this process can: mount it there too"
    )
    try:
        worker.await_line("Registered to:")
        task = job(urls, tmp_path, "run")
        with connect(scheduler=made.address) as cluster:
            with pytest.raises(ClusterError, match=pattern):
                run_fit(task, cluster.executor(task))
            with pytest.raises(ClusterError, match=pattern):
                cluster.each(storage.read_bytes, [(urls[0],)])
            assert cluster.each(os.path.exists, [(str(tmp_path),)]) == [True]
    finally:
        worker.end()
        made.end()
