"""A job on local worker processes: the same bits, and faults in a sentence."""

import gc
import os
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from flows.fit.connect import connect, over
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.holder import Holder
from flows.fit.job import ClusterError
from flows.storage import TransientStorageError
from tests.contract.toy import Looping
from tests.fit.jobs import rates, toy_job
from vbmodels.core.state import same_bits

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def cluster():
    with connect(workers=2) as connected:
        yield connected


def tls_connections():
    return {
        type(made).__name__ for made in gc.get_objects() if issubclass(type(made), ssl.SSLSocket)
    }


def test_connections_of_every_process_leave_each_other_alone(cluster):
    client = cluster.client
    inside = {**client.run(tls_connections), **client.run(tls_connections, nanny=True)}
    assert list(inside.values()) == [{"Connection"}] * len(inside)


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


@pytest.mark.thorough
def test_local_workers_start_where_a_cluster_s_certificates_are_configured(tmp_path):
    """As in the image: DASK_CONFIG names certificates that are not there, and requires TLS."""
    root = Path(__file__).parents[2]
    code = (
        "from flows.fit.connect import connect\n"
        "if __name__ == '__main__':\n"
        "    with connect(workers=1) as cluster:\n"
        "        print(cluster.each(len, [([1, 2, 3],)]))\n"
    )
    script = tmp_path / "calls.py"
    script.write_text(code)
    environment = {
        **os.environ, "DASK_CONFIG": str(root / "deploy" / "dask.yaml"), "PYTHONPATH": str(root)
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[3]\n", done.stderr


def holders():
    """Return how many holders this process has, once Python has collected those in cycles."""
    gc.collect()
    return sum(isinstance(one, Holder) for one in gc.get_objects())


def test_workers_drop_the_data_of_a_fit_that_is_over(cluster, tmp_path):
    job = toy_job(tmp_path)
    executor = cluster.executor(job)
    run_fit(job, executor)
    await_holders(cluster, 2)  # not at once where it rolled back
    executor.close()
    await_holders(cluster, 0)


def await_holders(cluster, number):
    deadline = time.monotonic() + 120
    while (found := sum(cluster.client.run(holders).values())) != number:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@dataclass(frozen=True)
class Broken(Looping):
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


def test_an_error_that_cannot_be_sent_arrives_in_words(cluster, tmp_path):
    job = toy_job(tmp_path, model=Unsendable())
    with pytest.raises(RuntimeError, match="TwoWords: no way"):
        run_fit(job, cluster.executor(job))


@dataclass(frozen=True)
class Unsendable(Looping):
    def local_step(self, q, batch, local):
        raise TwoWords("no", "way")


class TwoWords(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def test_progress_is_shown_and_what_it_raises_ends_the_work(cluster, tmp_path):
    job = toy_job(tmp_path, partitions=7)
    executor = cluster.executor(job)
    seen = []
    found = executor.map(rates, None, None, lambda *done: seen.append(done))
    assert [i for i, _ in found] == list(range(7))
    assert seen == [(i + 1, 7) for i in range(7)]
    seen = []

    def stop(done, total):
        seen.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster.each(time.sleep, [(0.01 * i,) for i in range(40)], stop)
    assert seen == [1]
    executor.close()


def test_stages_take_what_workers_return_or_raise(cluster):
    assert cluster.each(divmod, [(7, n) for n in range(1, 6)]) == [
        divmod(7, n) for n in range(1, 6)
    ]
    with pytest.raises(ZeroDivisionError):
        cluster.each(divmod, [(7, 0)])


def fails_at_first(folder):
    """Storage that does not answer twice."""
    with open(Path(folder) / "tries", "a") as file:
        file.write("x")
    if (Path(folder) / "tries").stat().st_size < 3:
        raise TransientStorageError("the store does not answer")
    return "answered"


def test_storage_that_does_not_answer_is_tried_again(cluster, tmp_path):
    assert cluster.each(fails_at_first, [(str(tmp_path),)]) == ["answered"]


@pytest.mark.thorough
def test_threads_of_a_worker_and_a_notebook_s_cluster(tmp_path):
    """Workers in this process, each with two threads; the client stays its owner's."""
    job = toy_job(tmp_path, partitions=13)
    expected, _ = in_process(job)
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "memory_limit": None}
    with LocalCluster(**options, dashboard_address="127.0.0.1:0") as local, Client(local) as client:
        executor = over(client, "the cluster of a notebook").executor(job)
        assert same_bits(run_fit(job, executor).q, expected.q)
        executor.close()
        assert client.status == "running"
