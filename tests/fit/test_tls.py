"""TLS connections of one thread: one that its other side has closed does not break the others.

Without `flows.fit.connect` these fail on Python 3.14 with OpenSSL 3.6, and pass with OpenSSL 3.0.
"""

import socket
import ssl
from contextlib import ExitStack, suppress

import pytest

from flows.fit.connect import Certificates

SECURITY = Certificates.temporary()


def connected(ends):
    """Both sides of a connection, which do not block."""
    to = SECURITY.get_connection_args("client")["ssl_context"]
    of = SECURITY.get_listen_args("scheduler")["ssl_context"]
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    client = ends.enter_context(to.wrap_socket(near, do_handshake_on_connect=False))
    server = ends.enter_context(
        of.wrap_socket(far, server_side=True, do_handshake_on_connect=False)
    )
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.version() == server.version() == "TLSv1.3"
    assert idle(client)
    assert idle(server)
    return client, server


def idle(side):
    """Whether a connection is there and has nothing to read."""
    try:
        side.recv_into(bytearray(8))
    except ssl.SSLWantReadError:
        return True
    return False


def read(side):
    return side.recv_into(bytearray(8))


def write(side):
    return side.send(b"sweep")


@pytest.mark.parametrize("use", [read, write])
def test_a_lost_connection_leaves_the_others(use):
    with ExitStack() as ends:
        closed, lost = connected(ends)
        others = connected(ends)
        closed.close()
        with suppress(OSError):  # some versions raise, others read nothing
            use(lost)
        assert idle(others[0])
        assert idle(others[1])
