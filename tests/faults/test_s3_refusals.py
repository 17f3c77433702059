"""What S3 said when it refused: expired, the clock, which operation on which key."""

import socket
from contextlib import suppress

import pytest

from flows import storage
from flows.faults import InputError
from flows.storage import StorageError, TransientStorageError
from tests.faults import stores
from tests.faults.proxy import Server

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


class Refusing(Server):
    """A server that refuses requests of some methods, HEAD without a reason, as S3 does."""

    def __init__(self, status: int, code: str, methods: tuple[str, ...]) -> None:
        self.status, self.code, self.methods = status, code, methods
        super().__init__()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            method = client.recv(65536).split(b" ", 1)[0].decode()
            status, body = (200, b"")
            if method in self.methods:
                status = self.status
                text = f"<Error><Code>{self.code}</Code><Message>Why it is so.</Message></Error>"
                body = b"" if method == "HEAD" else text.encode()
            answer = (
                f"HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\n"
                f"Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n"
                f'ETag: "e"\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n'
            )
            client.sendall(answer.encode() + body)


@pytest.fixture
def refusing(monkeypatch):
    made = []

    def start(status, code, *methods):
        made.append(Refusing(status, code, methods))
        stores.enter(monkeypatch, made[-1].url)

    yield start
    for server in made:
        server.close()


CALLS = {
    "GetObject": lambda: storage.read_bytes("s3://in/folder/x"),
    "GetObject, after HEAD": lambda: storage.size_of("s3://in/folder/x"),
    "GetObject, by Arrow": lambda: storage.read_table("s3://in/folder/x"),
    "PutObject": lambda: storage.write_bytes("s3://in/folder/x", b"1"),
    "ListObjectsV2": lambda: storage.names("s3://in/folder/x"),
}


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (400, "ExpiredToken", "the credentials have expired: {}; get new ones"),
        (403, "RequestTimeTooSkewed", "the clock of this machine is wrong: {}; set it"),
        (403, "AccessDenied", "permission denied: {}; give these credentials access"),
        (403, "InvalidAccessKeyId", "permission denied; check the access key and its secret"),
    ],
)
def test_a_refusal_has_the_reason_that_s3_gave(refusing, call, status, code, sentence):
    refusing(status, code, "GET", "HEAD", "PUT")
    operation = call.split(",")[0]
    said = f"S3 refused {operation} on key 'folder/x' of bucket 'in' ({code}: Why it is so)"
    with pytest.raises(StorageError) as caught:
        CALLS[call]()
    assert sentence.format(said) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", ["GetObject", "PutObject"])
def test_the_code_of_a_store_that_stays_busy_is_kept(refusing, monkeypatch, call):
    monkeypatch.setattr("flows.storage.objects.retry.PATIENCE", 0.5)
    refusing(503, "SlowDown", "GET", "HEAD", "PUT")
    with pytest.raises(TransientStorageError, match="the store answered SlowDown"):
        CALLS[call]()


def test_a_denied_delete_is_no_failed_write(refusing):
    refusing(403, "AccessDenied", "DELETE")
    with pytest.raises(InputError) as caught:
        storage.check_writable("s3://out/results", "runs")
    assert (
        "cannot remove s3://out/results/runs/.vbflows-probe: permission denied: S3 refused "
        "DeleteObject on key 'results/runs/.vbflows-probe' of bucket 'out'"
    ) in str(caught.value)
    assert "cannot write" not in str(caught.value)


@pytest.mark.parametrize("call", ["GetObject", "GetObject, by Arrow"])
def test_an_endpoint_without_a_scheme(monkeypatch, call):
    stores.enter(monkeypatch, "localhost:9000")
    with pytest.raises(StorageError) as caught:
        CALLS[call]()
    assert str(caught.value) == (
        "the endpoint 'localhost:9000' (AWS_ENDPOINT_URL or --s3 endpoint_url) has no scheme; "
        "write http://localhost:9000 or https://localhost:9000"
    )
