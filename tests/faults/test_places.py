"""A run on an object store, and a cluster behind TLS."""

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from urllib.error import URLError
from urllib.request import urlopen

import boto3
import dask
import pyarrow as pa
import pytest
import yaml

from deploy.certs import SIDES, make_certificates
from flows import storage
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.job import ClusterError
from flows.records import lock
from flows.records.lock import RunBusy, claim
from flows.records.runs import RUN, RunPaths, RunRecord, complete, mark_latest, open_run
from flows.settings import S3Access
from tests.faults.processes import Deployment, Process
from tests.faults.proxy import Proxy
from tests.fit.jobs import toy_job
from vbmodels.core.state import same_bits

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
def test_what_is_written_is_encrypted_as_the_settings_say(bucket):
    access = S3Access(sse="aws:kms", sse_kms_key_id="a-key")
    with storage.using(access.environment()):
        storage.write_bytes(f"{bucket}/encrypted", b"1")
        storage.write_table(f"{bucket}/encrypted.parquet", pa.table({"a": [1]}))
    store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    for name in ("encrypted", "encrypted.parquet"):
        head = store.head_object(Bucket=bucket.removeprefix("s3://"), Key=name)
        assert head["ServerSideEncryption"] == "aws:kms"
        assert head["SSEKMSKeyId"].endswith("a-key")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_lock_on_an_object_store(bucket):
    first = lock.Claim(f"{bucket}/locked", "run")
    first.acquire(1.0)
    with pytest.raises(RunBusy):
        claim(f"{bucket}/locked", "run").__enter__()
    first.release()
    with claim(f"{bucket}/locked", "run") as held:
        held.check()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_lock_whose_answer_is_lost_is_held(bucket, monkeypatch):
    upstream = int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])
    lost = []

    def lose_first(number, line):
        if line.startswith("PUT") and "lock.json" in line and not lost:
            lost.append(line)
            return "lose"
        return None

    proxy = Proxy(upstream, lose_first)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    try:
        with claim(f"{bucket}/lost", "run") as held:
            held.verify()
            assert lost
            with pytest.raises(RunBusy):
                lock.Claim(f"{bucket}/lost", "run").acquire(1.0)
        assert storage.names(f"{bucket}/lost") == []
    finally:
        proxy.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """The development CA with a certificate for each side."""
    folder = tmp_path_factory.mktemp("tls") / "certs"
    make_certificates(str(folder))
    return folder


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_one_of_many_writers_creates_an_object(bucket):
    """The store decides, by a conditional write: many that saw nothing there, one that wrote."""
    start = threading.Barrier(8)

    def create(number):
        start.wait()
        return storage.create_bytes(f"{bucket}/one", str(number).encode())

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))
    assert made.count(True) == 1
    assert storage.read_bytes(f"{bucket}/one") == str(made.index(True)).encode()


def run_record(run_id, elbo):
    now = datetime.now(UTC)
    return RunRecord(
        run_id=run_id, pipeline="keywords", source="x", settings={}, versions={}, started=now,
        finished=now, seconds=1.0, peak_memory_bytes=1, inputs=[], rows_read=1, rows_kept=1,
        dropped=[], partitions=1, iterations=1, converged=True, elbo=elbo, warnings=[],
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_two_publishers_at_once_leave_no_mix(bucket):
    """Whatever a reader sees, at any time, is one whole run."""
    target = f"{bucket}/published"
    stop = threading.Event()
    seen, broken = set(), []

    def publish(name):
        for i in range(6):
            paths = RunPaths(target, f"{name}-{i}")
            storage.own(paths.root, RUN)
            value = float(i) + (0.5 if name == "b" else 0.0)
            for part in range(3):
                table = pa.table({"run": [paths.run_id], "value": [value]})
                storage.write_table(paths.table("keywords", part), table)
            storage.write_bytes(storage.join(paths.work, "globals"), b"1")
            complete(paths, run_record(paths.run_id, value))
            mark_latest(paths, run_record(paths.run_id, value))

    def read():
        while not stop.is_set():
            if not storage.exists(f"{target}/latest.json"):
                continue
            paths, record = open_run(target)
            found = [storage.read_table(paths.table("keywords", i)) for i in range(3)]
            if {t["run"][0].as_py() for t in found} != {record.run_id} or {
                t["value"][0].as_py() for t in found
            } != {record.elbo}:
                broken.append(record.run_id)
            seen.add(record.run_id)

    reader = threading.Thread(target=read)
    reader.start()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(publish, "ab"))
    stop.set()
    reader.join()
    assert not broken
    assert len(seen) > 2
    last = open_run(target)[1].run_id
    assert last in ("a-5", "b-5")
    assert len(storage.names(f"{target}/runs")) == 12


def configuration(folder):
    """Return the made configuration of the client's side, by dotted names."""
    text = (folder / "client" / "dask.yaml").read_text()
    made = yaml.safe_load(text)["distributed"]["comm"]["tls"]
    own = {f"client.{name}": value for name, value in made["client"].items()}
    return {
        f"distributed.comm.tls.{name}": value
        for name, value in {"ca-file": made["ca-file"], **own}.items()
    }


@pytest.mark.thorough
def test_a_cluster_behind_tls(certificates, tmp_path, monkeypatch):
    settings = {side: {"DASK_CONFIG": str(certificates / side / "dask.yaml")} for side in SIDES}
    job = toy_job(tmp_path)
    alone = replace(job, store=job.store + "-alone")
    expected = run_fit(alone, InProcess(alone))
    made = Deployment(tmp_path / "cluster", protocol="tls", **settings["scheduler"])
    tls = configuration(certificates)
    other = tmp_path / "other"
    make_certificates(str(other))
    foreign = configuration(other)
    try:
        made.add(**settings["worker"]).await_line("Registered to:")
        assert made.address.startswith("tls://")
        with pytest.raises(ClusterError, match="needs certificates"):
            connect(scheduler=made.address).__enter__()
        with dask.config.set(foreign), pytest.raises(ClusterError):
            connect(scheduler=made.address).__enter__()
        # Handshakes can be slow on a busy machine; their speed is not tested here.
        monkeypatch.setattr("flows.fit.connect.CONNECT", 40.0)
        with dask.config.set(tls), connect(scheduler=made.address) as cluster:
            assert same_bits(run_fit(job, cluster.executor(job)).q, expected.q)
    finally:
        made.end()
