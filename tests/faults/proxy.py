"""A TCP proxy before an S3 server that answers for it, cuts it short, or is slow."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

Plan = Callable[[int, str], str | None]

_BODY = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>"
_ANSWERS = {
    "slow down": ("503 Slow Down", "SlowDown", "Please reduce your request rate."),
    "error": ("500 Internal Server Error", "InternalError", "Please try again."),
    "deny": ("403 Forbidden", "AccessDenied", "Access Denied"),
}


def never(number: int, request: str) -> str | None:
    """Let every request through."""
    return None


class Server:
    """A server on a port of its own, with a thread for every connection."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._server.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self.take(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def take(self, client: socket.socket) -> None:
        """Take note of a connection."""

    def _serve(self, client: socket.socket) -> None:
        raise NotImplementedError


class Proxy(Server):
    """A proxy on a port of its own; one request a connection.

    Attributes
    ----------
    plan
        Called with the number of a request (from 1) and its first line; returns ``slow down``
        (503), ``error`` (500), ``deny`` (403), ``drop`` (the connection ends in mid-body),
        ``reset`` (it ends before anything was sent to the server), ``lose`` (the server does it,
        and its answer is lost), or None.
    delay
        Called with the number of a request; returns the seconds that it waits.
    seen, heads
        First lines of the requests, and all of their heads.
    done
        What was done to which: (first line, fault).
    """

    def __init__(
        self, upstream: int, plan: Plan = never, delay: Callable[[int], float] = lambda number: 0.0
    ) -> None:
        self.upstream, self.plan, self.delay = upstream, plan, delay
        self.seen: list[str] = []
        self.heads: list[str] = []
        self.done: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        super().__init__()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            head, rest = _head(client)
            if not head:
                return
            line = head.split(b"\r\n", 1)[0].decode("latin-1")
            with self._lock:
                self.seen.append(line)
                self.heads.append(head.decode("latin-1"))
                number = len(self.seen)
                fault = self.plan(number, line)
                if fault is not None:
                    self.done.append((line, fault))
            time.sleep(self.delay(number))
            if fault == "reset":
                _reset(client)
                return
            if fault in _ANSWERS:
                _refuse(client, head, rest, *_ANSWERS[fault])
                return
            with socket.create_connection(("127.0.0.1", self.upstream), timeout=60) as server:
                # Not part of the signature, and makes every connection one request.
                request = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
                server.sendall(request + b"\r\n\r\n" + rest)
                up = threading.Thread(target=_pump, args=(client, server), daemon=True)
                up.start()
                try:
                    if fault == "lose":
                        _lose(server, client)
                    else:
                        _answer(server, client, cut=fault == "drop")
                finally:
                    # A thread that still reads would keep the connection open.
                    with suppress(OSError):
                        client.shutdown(socket.SHUT_RD)
                    up.join(5)


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        data = client.recv(65536)
        if not data:
            return b"", b""
        received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(kept), rest


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)


def _answer(server: socket.socket, client: socket.socket, cut: bool) -> None:
    """Pass an answer on; of one that is to be cut, the head and half of the body."""
    received = b""
    while cut and b"\r\n\r\n" not in received:
        data = server.recv(65536)
        if not data:
            break
        received += data
    if cut:
        head, _, body = received.partition(b"\r\n\r\n")
        client.sendall(head + b"\r\n\r\n" + body[: max(len(body) // 2, 1)])
        _reset(client)
        return
    while data := server.recv(65536):
        client.sendall(data)


def _lose(server: socket.socket, client: socket.socket) -> None:
    """Wait for the answer and keep it back; a client sends its body after a first word."""
    while (data := server.recv(65536)).startswith(b"HTTP/1.1 100"):
        client.sendall(data)
    _reset(client)


def _reset(client: socket.socket) -> None:
    """Have the connection reset, not ended: a client must not take what it has for all of it."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def _refuse(
    client: socket.socket, head: bytes, rest: bytes, status: str, code: str, text: str
) -> None:
    body = _BODY.format(code=code, text=text).encode()
    if head.startswith(b"HEAD"):
        body = b""
    answer = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    client.sendall(answer.encode() + body)
    client.settimeout(0.2)
    with suppress(OSError):  # read what is still being sent, or the answer may be lost
        while client.recv(65536):
            continue
