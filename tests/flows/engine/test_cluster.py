"""A job on local worker processes: the same bits, log lines brought home, faults in a sentence."""

from __future__ import annotations

import logging
import math
import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Status

from flows.engine import worker
from flows.engine.compute import each_of
from flows.engine.dask import ClusterError, connect, over
from flows.engine.dask.desks import Desks
from flows.engine.executor import InProcess
from flows.engine.fit import run_fit
from flows.engine.placement import Placement
from tests.contract.toy import Toy
from tests.flows.engine.jobs import rates, toy_job
from vbmodels.core.state import same_bits

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def cluster():
    with connect(workers=2) as connected:
        yield connected


def in_process(job):
    job = replace(job, store=job.store + "-alone")
    executor = InProcess(job)
    result = run_fit(job, executor)
    return result, executor.map(rates, result.q, result.number)


@pytest.mark.parametrize(
    ("loop", "partitions"),
    [
        ("cavi", 13),
        pytest.param("squarem", 64, marks=pytest.mark.thorough),
        pytest.param("memoised", 1, marks=pytest.mark.thorough),
    ],
)
def test_the_same_bits_as_in_process(cluster, tmp_path, loop, partitions):
    job = toy_job(tmp_path, partitions=partitions, loop=loop)
    expected, local = in_process(job)
    executor = cluster.executor(job)
    result = run_fit(job, executor)
    assert same_bits(result.q, expected.q)
    assert result.trace.elbo.tolist() == expected.trace.elbo.tolist()
    mapped = executor.map(rates, result.q, result.number)
    assert [(i, m.tobytes()) for i, m in mapped] == [(i, m.tobytes()) for i, m in local]
    executor.close()
    assert not (Path(job.store) / "work").exists()


def forget_jobs():
    from flows.engine import worker

    worker.held.jobs.clear()


@pytest.mark.thorough
def test_a_worker_that_lost_the_job_is_given_it_again(cluster, tmp_path):
    job = toy_job(tmp_path)
    expected, _ = in_process(job)
    executor = cluster.executor(job)
    told = []

    def forget(progress):
        if progress.iteration == 4:
            told.append(cluster.seam.client.run(forget_jobs))

    assert same_bits(run_fit(job, executor, on_step=forget).q, expected.q)
    assert len(told) == 1
    executor.close()


def submitted(cluster, monkeypatch):
    """Keep the names of the tasks that go through the scheduler."""
    keys, submit = [], cluster.seam._submit

    def keep(function, tasks, mailbox, tags):
        keys.extend(task.key.split("-")[1] for task in tasks)
        return submit(function, tasks, mailbox, tags)

    monkeypatch.setattr(cluster.seam, "_submit", keep)
    return keys


def test_workers_that_have_the_job_are_asked_directly(cluster, tmp_path, monkeypatch):
    job = toy_job(tmp_path, partitions=8, checkpoint_every=100)
    expected, _ = in_process(job)
    keys = submitted(cluster, monkeypatch)
    result = run_fit(job, cluster.executor(job))
    assert same_bits(result.q, expected.q)
    assert result.iterations > 5
    assert keys.count("sweep") <= 2
    assert "observe" in keys


def remove(dask_worker):
    dask_worker.handlers.pop("vbflows_work")


def spoil(dask_worker):
    async def fails(order, job):
        raise RuntimeError("out of order")

    dask_worker.handlers["vbflows_work"] = fails


@pytest.mark.parametrize("fault", [remove, spoil])
def test_tasks_do_what_a_desk_does_not(cluster, tmp_path, monkeypatch, fault):
    job = toy_job(tmp_path, partitions=8, checkpoint_every=100)
    expected, _ = in_process(job)
    keys = submitted(cluster, monkeypatch)

    def meddle(progress):
        if progress.iteration == 3:
            cluster.seam.client.run(fault)

    result = run_fit(job, cluster.executor(job), on_step=meddle)
    assert same_bits(result.q, expected.q)
    assert keys.count("sweep") >= 2 * (result.iterations - 4)
    cluster.seam._desks = Desks(cluster.seam.client)


def forget_local_states():
    from flows.engine import worker

    worker.held._cache = None


def test_a_worker_that_lost_its_local_states_asks_for_the_log(cluster, tmp_path):
    job = toy_job(tmp_path, checkpoint_every=5)
    expected, _ = in_process(job)
    executor = cluster.executor(job)
    stored = []

    def forget(progress):
        if progress.iteration in (3, 8, 9):
            cluster.seam.client.run(forget_local_states)
        stored.append(sorted(path.name for path in Path(job.store).glob("work/*/*")))

    assert same_bits(run_fit(job, executor, on_step=forget).q, expected.q)
    assert stored[3] == []
    assert stored[4] == [f"globals-{i:08d}-000.npz" for i in range(5)]
    executor.close()


@pytest.mark.thorough
def test_resume_on_a_cluster_of_a_run_in_process(cluster, tmp_path):
    job = toy_job(tmp_path)
    expected, _ = in_process(job)
    short = replace(job, max_iter=7)
    run_fit(short, InProcess(short))
    assert same_bits(run_fit(job, cluster.executor(job), resume=True).q, expected.q)


@pytest.mark.thorough
def test_local_workers_start_where_a_cluster_s_certificates_are_configured(tmp_path):
    """As in the image: DASK_CONFIG names certificates that are not there, and asks for TLS."""
    root = Path(__file__).parents[3]
    code = (
        "from flows.engine.dask import connect\n"
        "if __name__ == '__main__':\n"
        "    with connect(workers=1) as cluster:\n"
        "        print(cluster.call(len, [1, 2, 3]))\n"
    )
    script = tmp_path / "calls.py"
    script.write_text(code)
    environment = {
        **os.environ, "DASK_CONFIG": str(root / "deploy" / "dask.yaml"), "PYTHONPATH": str(root)
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "3\n", done.stderr


def held(_):
    """Attempts whose data or jobs this worker holds, after a pause that lets the other work."""
    time.sleep(0.2)
    data = {key[0] for key in worker.held.cache(None, None)._data}
    return os.getpid(), data | set(worker.held.jobs)


@pytest.mark.thorough
def test_workers_drop_the_data_of_a_fit_that_is_over(cluster, tmp_path):
    job = toy_job(tmp_path)
    executor = cluster.executor(job)
    run_fit(job, executor)

    def seen():
        found = each_of(cluster)(held, range(6))
        assert len({process for process, _ in found}) == 2
        return set().union(*(attempts for _, attempts in found))

    assert executor.attempt in seen()
    other = cluster.executor(job)
    executor.close()
    assert executor.attempt not in seen()
    assert same_bits(run_fit(job, other).q, in_process(job)[0].q)


@dataclass(frozen=True)
class Talkative(Toy):
    def observe(self, batch):
        logging.getLogger("vbmodels.talk").info("a line from afar")
        warnings.warn("a warning from afar", RuntimeWarning, stacklevel=1)
        return super().observe(batch)


def test_log_lines_and_warnings_are_brought_home(cluster, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    job = toy_job(tmp_path, model=Talkative(), max_iter=2)
    run_fit(job, cluster.executor(job))
    assert "a line from afar" in caplog.text
    assert "a warning from afar" in caplog.text


@dataclass(frozen=True)
class Broken(Toy):
    def local_step(self, q, batch, local):
        raise ArithmeticError("no way")


def test_an_error_of_the_model_arrives_as_it_is(cluster, tmp_path):
    job = toy_job(tmp_path, model=Broken())
    with pytest.raises(ArithmeticError, match="no way"):
        run_fit(job, cluster.executor(job))


@pytest.mark.thorough
def test_a_wrong_address_is_said_within_seconds():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(ClusterError, match=f"no scheduler answers at {address}"):
        connect(scheduler=address).__enter__()
    assert time.monotonic() - began < 20


def test_tls_without_certificates_says_so():
    with pytest.raises(ClusterError, match="certificates"):
        connect(scheduler="tls://127.0.0.1:9").__enter__()


@pytest.mark.timeout(90)
def test_what_dask_leaves_unscheduled_is_asked_for_again(tmp_path, monkeypatch):
    """A task prefers a worker that has just gone and arrives while the other is paused."""
    monkeypatch.setattr(Placement, "patience", lambda *_: math.inf)
    job = toy_job(tmp_path, partitions=4)
    expected, _ = in_process(job)
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "memory_limit": None}
    states = []
    with LocalCluster(**options, dashboard_address=None) as local, Client(local) as client:
        cluster = over(client, "the cluster of a notebook")

        def lose(progress):
            if progress.iteration != 4:
                return
            stays, goes = local.workers.values()
            cluster.workers(fresh=True)  # not asked for again within a second
            stays.status = Status.paused
            client.sync(goes.close)
            threading.Timer(2.0, setattr, (stays, "status", Status.running)).start()

        underway = cluster.seam.underway
        monkeypatch.setattr(
            cluster.seam, "underway", lambda keys: states.append(underway(keys)) or states[-1]
        )
        result = run_fit(job, cluster.executor(job), on_step=lose)
    assert same_bits(result.q, expected.q)
    assert any(not all(known) for known in states)
