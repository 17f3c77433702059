"""The Prefect server of a run: the configured one, or one of our own that needs a password.

Run as a module, this file is the server of our own: it ends when its standard input closes,
so it never outlives what started it, however that ends.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from flows.prefect import password

START_SECONDS = 120.0  # a first start creates the database: tens of seconds on a busy machine
ANSWER_SECONDS = 5.0
_HEALTH_SECONDS = 2.0  # the socket listens before the server does: a request may wait

_ERROR = re.compile(r"^[\w.]+(Error|Exception)\b: ")


class NoServer(Exception):
    """No Prefect server answers; the message says why, in one sentence."""


@contextmanager
def running() -> Iterator[str]:
    """Yield the address of a Prefect server that answers.

    Raises
    ------
    NoServer
        If the one that is configured does not answer, or none can be started here.
    """
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if url:
        check(url)
        yield url
        return
    with started(password.new()) as url:
        yield url


@contextmanager
def started(
    auth: str, port: int = 0, wait: float = START_SECONDS, page: bool = False
) -> Iterator[str]:
    """Yield the address of a server of our own, and be its client; stop it at the end.

    It is bound to the loopback address and answers only those who know `auth`, which it and we
    have in memory and environment alone. The socket is ours from before its start until after
    its end: nobody else can serve at this address meanwhile, and get what is meant for it.

    Raises
    ------
    NoServer
        If the port is in use, or the server does not come up.
    """
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    try:
        listening = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = str(error) if number is None else os.strerror(number)
        taken = "; choose another (--port)" if number == errno.EADDRINUSE else ""
        raise NoServer(
            f"a Prefect server cannot be started on port {port} of 127.0.0.1: {reason}{taken}"
        ) from error
    with listening, tempfile.TemporaryFile() as log:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
        process = _spawn(listening, log, auth, page)
        try:
            _await_health(process, url, log, wait)
            with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: auth}):
                yield url
        finally:
            _stop(process)


def check(url: str) -> None:
    """Raise `NoServer` where a server does not answer; one that refuses us does answer."""
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/health", timeout=ANSWER_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise NoServer(
            f"the Prefect server at {url} (PREFECT_API_URL) does not answer: {reason}"
        ) from error
    if answer.status_code >= 500:
        raise NoServer(f"the Prefect server at {url} answers with status {answer.status_code}")


def _spawn(
    listening: socket.socket, log: IO[bytes], auth: str, page: bool
) -> subprocess.Popen[bytes]:
    from prefect.settings import get_current_settings

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    own = {
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": str(page).lower(),
        "PREFECT_UI_API_URL": "/api",  # else the page calls the usual port
    }
    module = [sys.executable, "-m", "flows.prefect.server"]
    try:
        return subprocess.Popen(
            [*module, str(listening.fileno()), *(["page"] if page else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if page else log,
            stderr=None if page else log,
            env={**os.environ, **settings, **own},
            pass_fds=(listening.fileno(),),
            umask=0o077,  # the database holds the key of the secrets in it
            start_new_session=True,  # Ctrl-C must not stop it before the run's end is written
        )
    except OSError as error:
        raise NoServer(f"a Prefect server cannot be started: {error}") from error


def _await_health(process: subprocess.Popen[bytes], url: str, log: IO[bytes], wait: float) -> None:
    """Wait until a server that was started answers.

    Raises
    ------
    NoServer
        If it ends, or does not answer in time.
    """
    import httpx

    deadline = time.monotonic() + wait
    with httpx.Client(trust_env=False, timeout=_HEALTH_SECONDS) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise NoServer(f"a Prefect server cannot be started: {_reason(log)}")
            try:
                if client.get(f"{url}/health").status_code == 200:
                    return
            except httpx.HTTPError:
                pass  # not there yet
            time.sleep(0.1)
    raise NoServer(
        f"a Prefect server was started and did not answer within {wait:.0f} s; a first start makes "
        "its database and takes longer on a busy machine: wait longer (vbflows serve --wait 300)"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(log: IO[bytes]) -> str:
    """Return what a server last complained of."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or ["it ended at once"])[-1].strip()


def _serve(listening: socket.socket, page: bool) -> None:
    """Serve the Prefect API until standard input closes; with its page and schedules if wanted."""
    import uvicorn
    from prefect.server.api.server import create_app

    app: Any = create_app(ephemeral=not page, final=True)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=5))

    def end_with_parent() -> None:
        while os.read(sys.stdin.fileno(), 1):  # unbuffered: a buffer's lock would stop the exit
            pass
        server.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.run(sockets=[listening])


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), "page" in sys.argv[2:])
