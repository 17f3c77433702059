"""A run on an object store, and a cluster behind TLS."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from dataclasses import replace
from urllib.error import URLError
from urllib.request import urlopen

import boto3
import dask
import pytest

from flows import lock, storage
from flows.checkpoint import Checkpoints
from flows.cluster import ClusterError, connect
from flows.executor import InProcess
from flows.fit import run_fit
from flows.lock import RunBusy, claim
from tests.faults.processes import Deployment, Process
from tests.flows.jobs import Killed, kill_at, toy_job
from vbmodels.state import same_bits

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def bucket():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Process("-m", "moto.server", "-p", str(port))
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urlopen(url, timeout=5).close()
            break
        except (URLError, ConnectionError):
            time.sleep(0.1)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": url}.items():
            patch.setenv(name, value)
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="runs")
        yield "s3://runs"
    server.end()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_run_on_an_object_store(bucket, tmp_path):
    here = toy_job(tmp_path)
    expected = run_fit(here, InProcess(here))
    job = toy_job(bucket)
    with connect(workers=2) as cluster:
        executor = cluster.executor(job)
        with pytest.raises(Killed):
            run_fit(job, executor, on_step=kill_at(8))
        executor.close()
        assert not storage.exists(f"{job.store}/work")
        assert Checkpoints(job).candidates() == [6, 3]
        executor = cluster.executor(job)
        assert same_bits(run_fit(job, executor, resume=True).q, expected.q)
        executor.close()
    Checkpoints(job).discard()
    assert storage.names(job.store) == []


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_lock_on_an_object_store(bucket, monkeypatch):
    first = lock.Claim(f"{bucket}/locked", "run")
    first.acquire(1.0)
    with pytest.raises(RunBusy):
        claim(f"{bucket}/locked", "run").__enter__()
    first.release()
    with claim(f"{bucket}/locked", "run") as held:
        held.check()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """One certificate that signs itself, for every side."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", cert),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no certificate can be made: {made.stderr.decode()[-200:]}")
    return key, cert


def loops() -> int:
    """Return the number of threads that serve a client of Dask."""
    return sum(thread.name == "IO loop" for thread in threading.enumerate())


def test_a_cluster_behind_tls(certificate, tmp_path, monkeypatch):
    key, cert = certificate
    settings = {
        f"DASK_DISTRIBUTED__COMM__TLS__{part}": value
        for side in ("SCHEDULER", "WORKER", "CLIENT")
        for part, value in ((f"{side}__KEY", key), (f"{side}__CERT", cert))
    }
    settings["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"] = cert
    settings["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "true"
    job = toy_job(tmp_path)
    alone = replace(job, store=job.store + "-alone")
    expected = run_fit(alone, InProcess(alone))
    made = Deployment(tmp_path / "cluster", protocol="tls", **settings)
    tls = {
        "distributed.comm.tls.ca-file": cert,
        "distributed.comm.tls.client.key": key,
        "distributed.comm.tls.client.cert": cert,
    }
    try:
        made.add(**settings).await_line("Registered to:")
        assert made.address.startswith("tls://")
        before = loops()
        with pytest.raises(ClusterError, match="needs certificates"):
            connect(scheduler=made.address).__enter__()
        assert loops() == before
        # Handshakes can be slow on a busy machine; what is asked here is not how fast they are.
        monkeypatch.setattr("flows.cluster.CONNECT", 40.0)
        with dask.config.set(tls), connect(scheduler=made.address) as cluster:
            assert same_bits(run_fit(job, cluster.executor(job)).q, expected.q)
    finally:
        made.end()
