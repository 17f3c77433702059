"""On a cluster that others use too, nothing of theirs is lost; what comes late is waited for."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import closing

import pytest
from distributed import Client, LocalCluster

from flows.data.runs import open_run
from flows.fit import cluster as clusters
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.job import ClusterError
from flows.settings import ComputeSettings
from tests.faults import pipelines
from tests.faults.processes import ROOT, Deployment
from tests.fit.jobs import toy_job

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "flows.fit":
            time.sleep(6.0)
sys.meta_path.insert(0, Slow())
"""


def holds_the_lock(seconds):
    """Hold Python's lock, as compiled code may."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return os.getpid()


@pytest.fixture
def impatient(monkeypatch):
    """Count workers as silent after two seconds, not 30."""
    monkeypatch.setattr(clusters, "SILENCE", 2.0)
    monkeypatch.setattr(clusters.Cluster.workers, "__defaults__", (2.0,))


def test_the_work_and_the_data_of_another_client_survive(shared, impatient, caplog):
    pids = shared.pids()
    with (
        Client(shared.address, set_as_default=False, timeout=10) as theirs,
        connect(scheduler=shared.address) as cluster,
    ):
        here, *_ = sorted(cluster.workers())
        data = theirs.submit(bytearray, 1000, workers=[here], pure=False)
        data.result()
        work = theirs.submit(holds_the_lock, 9.0, workers=[here], pure=False)
        time.sleep(1.0)  # it has begun
        found = cluster.each(divmod, [(n, 7) for n in range(20)])
        assert work.status == "pending"
        assert found == [divmod(n, 7) for n in range(20)]
        assert f"worker {here} is silent" in caplog.text
        assert work.result() in pids.values()
        assert data.result() == bytearray(1000)
    assert shared.pids() == pids


def test_a_worker_that_imports_slowly_is_waited_for(tmp_path, impatient):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW)
    made = Deployment(tmp_path / "cluster")
    try:
        made.add(PYTHONPATH=f"{tmp_path / 'site'}:{ROOT}").await_line("Registered to:")
        with connect(scheduler=made.address) as cluster:
            assert cluster.each(len, [("abc",)]) == [3]
    finally:
        made.end()


def test_a_cluster_that_scales_from_zero_is_waited_for(tmp_path, caplog):
    job = toy_job(tmp_path, partitions=7)
    options = {"processes": False, "n_workers": 0, "dashboard_address": None, "protocol": "tcp://"}
    with LocalCluster(**options) as made:
        made.adapt(minimum=0, maximum=1, interval="200ms")
        with connect(scheduler=made.scheduler_address) as cluster:
            assert cluster.each(len, [("abc",)]) == [3]
            time.sleep(2.0)
            with closing(cluster.executor(job)) as executor:
                run_fit(job, executor)
    assert "has no workers; waiting" in caplog.text


VERSIONS = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: {"pystemmer": "2.2.0", "pyarrow": "18.0"}.get(name) or version(name)
"""


def test_all_packages_that_differ_are_named(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(VERSIONS)
    made = Deployment(tmp_path / "cluster")
    try:
        made.add(PYTHONPATH=f"{tmp_path / 'site'}:{ROOT}").await_line("Registered to:")
        with pytest.raises(ClusterError, match=r"has pyarrow 18\.0, pystemmer 2\.2\.0; this"):
            connect(scheduler=made.address).__enter__()
    finally:
        made.end()


def test_the_record_names_the_cluster(shared, tmp_path):
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    compute = ComputeSettings(scheduler=shared.address)
    outcome = pipelines.run("experts", source, str(tmp_path / "out"), compute)
    _, record = open_run(outcome["target"])
    assert (record.scheduler, record.workers) == (shared.address, 2)
