"""On a cluster that others use too, nothing of theirs is lost; what comes late is waited for."""

import ctypes
import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from distributed import Client, LocalCluster

from flows.fit import cluster as clusters
from flows.fit.cluster_executor import METRICS
from flows.fit.connect import connect, over
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.job import ClusterError
from flows.records.runs import open_run
from flows.settings import ComputeSettings
from tests.faults import pipelines
from tests.faults.models import Paced
from tests.faults.processes import ROOT, Deployment
from tests.fit.jobs import toy_job
from vbmodels.core.state import same_bits

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


@pytest.mark.thorough
def test_the_work_and_the_data_of_another_client_survive(shared, impatient, caplog):
    pids = shared.pids()
    with (
        Client(shared.address, set_as_default=False, timeout=60) as theirs,
        connect(scheduler=shared.address) as cluster,
    ):
        here, *_ = sorted(cluster.workers())
        data = theirs.submit(bytearray, 1000, workers=[here], pure=False)
        data.result()
        work = theirs.submit(holds_the_lock, 9.0, workers=[here], pure=False)
        while not any(theirs.processing().values()):
            time.sleep(0.05)
        found = cluster.each(divmod, [(n, 7) for n in range(20)])
        assert work.status == "pending"
        assert found == [divmod(n, 7) for n in range(20)]
        assert f"worker {here} is silent" in caplog.text
        assert work.result() in pids.values()
        assert data.result() == bytearray(1000)
    assert shared.pids() == pids


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_cluster_that_scales_from_zero_is_waited_for(tmp_path, caplog):
    job = toy_job(tmp_path, partitions=7)
    options = {"processes": False, "n_workers": 0, "protocol": "tcp://"}
    with LocalCluster(dashboard_address="127.0.0.1:0", **options) as made:
        made.adapt(minimum=0, maximum=1, interval="200ms")
        with connect(scheduler=made.scheduler_address) as cluster:
            assert cluster.each(len, [("abc",)]) == [3]
            time.sleep(2.0)
            with closing(cluster.executor(job)) as executor:
                run_fit(job, executor)
    assert "has no workers; waiting" in caplog.text


@pytest.mark.thorough
def test_a_fit_is_seen_on_the_page_of_workers(shared, tmp_path):
    """The columns of Dask's dashboard are these metrics; its row of totals adds the numbers."""
    job = toy_job(tmp_path, partitions=7, max_iter=4, tol=0.0)
    with (
        Client(shared.address, set_as_default=False, timeout=60) as client,
        connect(scheduler=shared.address) as cluster,
        closing(cluster.executor(job)) as executor,
    ):

        def await_columns(text, partitions):
            deadline = time.monotonic() + 30
            while True:
                workers = client.scheduler_info(n_workers=-1)["workers"].values()
                columns = [[info["metrics"].get(name) for name in METRICS] for info in workers]
                if columns:
                    texts, done, held = zip(*columns, strict=True)
                    if set(texts) == {text} and sum(done) == sum(held) == partitions:
                        return
                assert time.monotonic() < deadline, columns
                time.sleep(0.1)

        def step(progress):
            await_columns(f"sweep {progress.iteration + 1}{executor.ahead}", 7)
            executor.ahead = " of about 4, 2 s left"
            tasks = [client.submit(os.getpid, workers=[a], pure=False) for a in executor.placed]
            assert len(set(client.gather(tasks))) == 2, "their only threads are for others"

        run_fit(job, executor, on_step=step)
        executor.close()
        cluster.client.run(gc.collect)
        await_columns("", 0)


@pytest.mark.thorough
def test_a_fit_keeps_the_workers_of_a_cluster_that_adapts(tmp_path):
    """Their actors do not count as work, so they would end as idle."""
    job = toy_job(tmp_path, partitions=8, model=Paced(pause=0.1), max_iter=12, tol=0.0)
    alone = toy_job(tmp_path, partitions=8, run_id="alone", max_iter=12, tol=0.0)
    expected = run_fit(alone, InProcess(alone))
    options = {"processes": False, "threads_per_worker": 1, "memory_limit": "4GiB"}
    with (
        LocalCluster(n_workers=3, dashboard_address="127.0.0.1:0", **options) as made,
        Client(made, set_as_default=False) as client,
        closing(over(client, "the cluster of a notebook").executor(job)) as executor,
    ):
        executor.restore(None, ())
        made.adapt(minimum=1, maximum=3, interval="100ms")
        assert same_bits(run_fit(job, executor).q, expected.q)
        assert len(executor.placed) == len(executor.workers(30.0)) == 3
        executor.close()
        deadline = time.monotonic() + 120
        while len(client.scheduler_info(n_workers=-1)["workers"]) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.thorough
def test_two_drivers_at_once(shared, tmp_path):
    jobs = [
        toy_job(tmp_path / name, partitions=9, run_id=name, loop=loop, max_iter=9, tol=0.0)
        for name, loop in (("a", "cavi"), ("b", "squarem"))
    ]
    alone = [replace(job, store=f"{job.store}-alone") for job in jobs]
    expected = [run_fit(job, InProcess(job)) for job in alone]

    def fit(job):
        with (
            connect(scheduler=shared.address) as cluster,
            closing(cluster.executor(job)) as executor,
        ):
            return run_fit(job, executor), executor.rolled

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(fit, jobs))
    assert [rolled for _, rolled in found] == [0, 0]
    for (result, _), one in zip(found, expected, strict=True):
        assert same_bits(result.q, one.q)
        assert result.trace.elbo.tolist() == one.trace.elbo.tolist()


VERSIONS = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: {"pystemmer": "2.2.0", "pyarrow": "18.0"}.get(name) or version(name)
"""


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_the_record_names_the_cluster(shared, tmp_path):
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    compute = ComputeSettings(scheduler=shared.address)
    outcome = pipelines.run("experts", source, str(tmp_path / "out"), compute)
    _, record = open_run(outcome["target"])
    assert (record.scheduler, record.workers) == (shared.address, 2)
