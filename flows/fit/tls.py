"""TLS of Dask's connections, of which one that is lost does not break the others.

OpenSSL keeps the errors of a thread in one queue, which has to be empty before a connection is read
or written: what is left of another connection is taken for its own error. Newer versions (seen in
3.5 and 3.6) leave an error there at a write to a connection that the other side has closed, and
newer versions of Python (seen in 3.13.5 and 3.14) raise it without emptying the queue. Dask serves
all connections of a process in one thread: each that is idle would end with ``BrokenPipeError``.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed.security import Security


class Certificates(Security):
    """Certificates of a cluster, whose connections are of `Connection`."""

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """As Dask's, with a context of such connections."""
        return isolate(super().get_connection_args(role))

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """As Dask's, with a context of such connections."""
        return isolate(super().get_listen_args(role))


class Connection(ssl.SSLSocket):
    """A connection that takes its errors from OpenSSL's queue when it is lost."""

    def recv_into(self, *args: Any, **options: Any) -> int:
        """As a socket's, with no error left."""
        with self._clearing():
            return super().recv_into(*args, **options)

    def send(self, *args: Any, **options: Any) -> int:
        """As a socket's, with no error left."""
        with self._clearing():
            return super().send(*args, **options)

    @contextmanager
    def _clearing(self) -> Iterator[None]:
        """Empty the queue, which Python does before it makes a connection (5 microseconds)."""
        try:
            yield
        except ssl.SSLError:  # Python has emptied it
            raise
        except OSError:
            self.context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), bool(self.server_side))
            raise


def isolate(given: dict[str, Any]) -> dict[str, Any]:
    """Let connections with these arguments not break others; without TLS they have no context."""
    if given.get("ssl_context") is not None:
        given["ssl_context"].sslsocket_class = Connection
    return given
