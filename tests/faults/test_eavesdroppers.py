"""Other users of the machine during ``--workers``: nobody but the run reaches its processes."""

import asyncio
import http.client
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from distributed.core import connect as dial
from distributed.security import Security

from flows.fit.connect import connect
from tests.faults.processes import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

PLAIN = Security(require_encryption=False)


@pytest.fixture(scope="module")
def cluster():
    with connect(workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def addresses(cluster):
    """Those of the scheduler, the workers and their nannies."""
    client = cluster.client
    client.wait_for_workers(2, timeout=60)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    nannies = [info["nanny"] for info in workers.values()]
    return [client.scheduler.address, *workers, *nannies]


async def identity_of(address, security):
    """Identify a server of Dask: the first call of anyone who would have it run code."""
    comm = await dial(address, timeout=3, **security.get_connection_args("client"))
    try:
        await comm.write({"op": "identity", "reply": True})
        return await comm.read()
    finally:
        await comm.close()


@pytest.mark.thorough
def test_who_has_the_run_s_certificate_is_answered(cluster, addresses):
    own = cluster.client.security
    assert len(addresses) == 5
    for address in addresses:
        assert address.startswith("tls://127.0.0.1:")
        assert asyncio.run(identity_of(address, own))["type"] in ("Scheduler", "Worker", "Nanny")


@pytest.mark.thorough
@pytest.mark.parametrize("speaks", ["plainly", "with another certificate", "without one"])
def test_nobody_else_is_answered(addresses, speaks):
    other = PLAIN if speaks == "plainly" else Security.temporary()
    if speaks == "without one":
        context = other.get_connection_args("client")["ssl_context"]
        context = type(context)(context.protocol)
        context.check_hostname = False
    for address in addresses:
        if speaks == "plainly":
            address = address.replace("tls://", "tcp://")
        with pytest.raises((OSError, TimeoutError)):
            asyncio.run(identity_of(address, other))


def listening():
    """Addresses at which this process and those below it listen, as the kernel knows them."""
    me = psutil.Process()
    return {
        (process.pid, found.laddr.ip, found.laddr.port)
        for process in [me, *me.children(recursive=True)]
        for found in process.net_connections(kind="inet")
        if found.status == psutil.CONN_LISTEN
    }


def test_nothing_is_served_by_http(cluster):
    workers = {int(pid) for pid in cluster.client.run(os.getpid).values()}
    found = {one for one in listening() if one[0] in {os.getpid(), *workers}}
    assert len(found) >= 5
    for _, ip, port in found:
        assert ip == "127.0.0.1"
        for path in ("/", "/status", "/info/main/workers.html", "/json/identity.json", "/metrics"):
            connection = http.client.HTTPConnection(ip, port, timeout=3)
            try:
                connection.request("GET", path)
                assert connection.getresponse().status == 404
            except (OSError, http.client.HTTPException):
                pass  # it does not speak HTTP
            finally:
                connection.close()


def test_nobody_samples_stacks(cluster):
    """Which can stop a worker of Python 3.11 for good (CPython's issue 106883)."""
    calls = cluster.client.run(lambda dask_worker: list(dask_worker.periodic_callbacks))
    assert calls
    assert not any("profile" in names for names in calls.values())


@pytest.mark.thorough
def test_files_of_workers_lie_where_no_one_else_can_reach(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with connect(workers=1) as cluster:
        (folder,) = cluster.client.run(local_directory).values()
        private = tmp_path / Path(folder).relative_to(tmp_path).parts[0]
        assert private.lstat().st_mode & 0o777 == 0o700
        assert private.lstat().st_uid == os.getuid()
    assert not private.exists()


def local_directory(dask_worker):
    return dask_worker.local_directory


RECORD = """
import os, sys

def note(event, arguments):
    if event != "open" or not isinstance(arguments[0], str) or not arguments[0].endswith(".pem"):
        return
    folder = os.path.dirname(arguments[0])
    if os.path.basename(folder).startswith("tmp"):
        file = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{os.getpid()} {os.stat(folder).st_mode & 0o777:o} {folder}\\n".encode())
        os.close(file)

sys.addaudithook(note)
"""

RUN = """
import dask, os, psutil
from flows.fit.connect import connect

if __name__ == "__main__":
    os.umask(0)
    with connect(workers=2) as cluster:
        for process in psutil.Process().children(recursive=True):
            visible = " ".join([*process.cmdline(), *process.environ().values()])
            assert "PRIVATE KEY" not in visible and "CERTIFICATE" not in visible
        how = dask.config.get("distributed.worker.multiprocessing-method")
        print(how, len(set(cluster.client.run(os.getpid).values())))
"""


@pytest.fixture
def temporary(tmp_path, request):
    """A folder for temporary files: its path leaves room for the name of a socket, or none."""
    with tempfile.TemporaryDirectory() as short:
        long = tmp_path / f"{'long':_>80}"
        long.mkdir()
        yield {"forkserver": Path(short), "spawn": long}[request.param]


@pytest.mark.thorough
@pytest.mark.parametrize("temporary", ["forkserver", "spawn"], indirect=True)
def test_the_key_lies_nowhere_that_others_can_read(tmp_path, temporary, request):
    """OpenSSL takes a key from files only: each process has one for a moment, in its own folder."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(RECORD)
    (tmp_path / "run.py").write_text(RUN)
    notes = tmp_path / "notes"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}",
        "TMPDIR": str(temporary),
        "NOTES": str(notes),
    }
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py")],
        env=environment, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == f"{request.node.callspec.params['temporary']} 2\n", done.stderr
    seen = [line.split() for line in notes.read_text().splitlines()]
    assert len({process for process, _, _ in seen}) >= 3
    assert {mode for _, mode, _ in seen} == {"700"}
    assert not any(os.path.exists(folder) for _, _, folder in seen)
    assert not [
        path for folder in (tmp_path, temporary) for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".py" and b"PRIVATE KEY" in path.read_bytes()
    ]  # fmt: skip
