"""A store that never answers, or sends a byte now and then: an end within the stated time."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from flows import storage
from flows.storage import TransientStorageError
from flows.storage.objects import retry
from flows.storage.objects.access import filesystem
from tests.faults import stores
from tests.faults.proxy import Server

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

LIMIT = 4.0


class Slow(Server):
    """A server that takes every request and sends nothing, or its answer byte by byte."""

    def __init__(self, trickles: bool) -> None:
        self.trickles = trickles
        self.requests: list[float] = []
        self._clients: list[socket.socket] = []
        super().__init__()

    def close(self) -> None:
        super().close()
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def take(self, client: socket.socket) -> None:
        self._clients.append(client)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            self.requests.append(time.monotonic())
            if self.trickles:
                client.sendall(
                    b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1000000\r\n"
                    b'Content-Range: bytes 0-999999/1000000\r\nETag: "e"\r\n'
                    b"Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n\r\n"
                )
            while True:
                time.sleep(0.1)
                if self.trickles:
                    client.sendall(b"x")


@pytest.fixture
def slow(monkeypatch):
    """Start a server; it closes its connections, so that no thread outlives the test for long."""
    made = []

    def start(trickles):
        made.append(Slow(trickles))
        stores.enter(monkeypatch, made[-1].url)
        # Its packages, and what its client reads of S3, take seconds to load on a busy machine.
        filesystem("s3://in")[0].connect()
        return made[-1]

    monkeypatch.setattr(retry, "SILENCE", LIMIT)
    monkeypatch.setattr(retry, "PATIENCE", 0.5)
    yield start
    for server in made:
        server.close()


CALLS = {
    "object": lambda: storage.read_bytes("s3://in/folder/x.npz"),
    "parquet": lambda: storage.read_table("s3://in/folder/x.parquet"),
    "csv": lambda: storage.read_table("s3://in/folder/x.csv.gz"),
    "listing": lambda: storage.names("s3://in/folder"),
    "write": lambda: storage.write_bytes("s3://in/folder/x.npz", b"1"),
}


MORE = [(False, "parquet"), (True, "csv"), (True, "listing")]


@pytest.mark.parametrize(
    ("trickles", "call"),
    [
        (False, "write"),
        (True, "object"),
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in MORE),
    ],
)
def test_a_call_ends_within_its_limit(slow, trickles, call):
    """Small objects go through s3fs, tables through Arrow."""
    server = slow(trickles)
    begun = time.monotonic()
    with pytest.raises(TransientStorageError, match="sent less than 250 kB a second"):
        CALLS[call]()
    assert time.monotonic() - begun < LIMIT + 30.0
    assert server.requests


def test_a_call_that_was_given_up_goes_no_further(monkeypatch):
    monkeypatch.setattr(retry, "SILENCE", 0.2)
    went_on, waits = [], threading.Event()

    def write():
        waits.wait(10)
        retry.expect()
        went_on.append(True)

    with pytest.raises(TransientStorageError, match=r"cannot write s3://out/x: .* for 0\.2 s"):
        retry.with_retry("write", "s3://out/x", write)
    assert retry.calls_left()
    waits.set()
    deadline = time.monotonic() + 10
    while retry.calls_left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not retry.calls_left()
    assert not went_on


COMMAND = """
from flows.storage.objects import retry
from flows.cli import main
retry.SILENCE = 6.0
main()
"""


@pytest.mark.parametrize("trickles", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_command_ends_too(slow, tmp_path, trickles):
    """Arrow's client waits at the exit of Python for a request that is under way."""
    server = slow(trickles)
    words = ["features", "s3://in/x.parquet", str(tmp_path / "out"), "--workers=0"]
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *words], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 1, ended.stderr
    assert "the store sent less than 250 kB a second for 6 s" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert time.monotonic() - server.requests[0] < 60.0
