"""The Prefect server of a run: the one that is set, or one for the length of the run.

Run as a module, this file is that short-lived server: it ends when its standard input closes,
so it never outlives the run, however that ends.
"""

from __future__ import annotations

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

START_SECONDS = 120.0  # a first start creates the database: tens of seconds on a busy machine
ANSWER_SECONDS = 5.0

_ERROR = re.compile(r"^[\w.]+(Error|Exception)\b: ")


class NoServer(Exception):
    """No Prefect server answers; the message says why, in one sentence."""


@contextmanager
def running() -> Iterator[str]:
    """Yield the address of a Prefect server that answers.

    Raises
    ------
    NoServer
        If ``PREFECT_API_URL`` names one that does not answer, or none can be started here.
    """
    from prefect.settings import PREFECT_API_URL, temporary_settings

    url = PREFECT_API_URL.value()
    if url:
        _check(url)
        yield url
        return
    with _started() as url, temporary_settings({PREFECT_API_URL: url}):
        yield url


def _check(url: str) -> None:
    """Ask a server whether it is well; one that asks for a key answers, which is enough."""
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


@contextmanager
def _started() -> Iterator[str]:
    """Yield the address of a server of our own; stop it at the end."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = _spawn(port, log)
        try:
            url = f"http://127.0.0.1:{port}/api"
            await_health(process, url, log)
            yield url
        finally:
            _stop(process)


def _spawn(port: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
    from prefect.settings import get_current_settings

    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    quiet = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_SERVER_UI_ENABLED": "false"}
    command = [sys.executable, "-m", "flows.run.prefect.server", str(port)]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **settings, **quiet},
            start_new_session=True,  # Ctrl-C must not stop it before the run's end is written
        )
    except OSError as error:
        raise NoServer(f"a Prefect server cannot be started: {error}") from error


def await_health(process: subprocess.Popen[bytes], url: str, log: IO[bytes] | None = None) -> None:
    """Wait until a server that was started answers.

    Raises
    ------
    NoServer
        If it ends, or does not answer in time.
    """
    import httpx

    deadline = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False, timeout=ANSWER_SECONDS) as client:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                reason = "it ended at once" if log is None else _reason(log)
                raise NoServer(f"a Prefect server cannot be started: {reason}")
            try:
                if client.get(f"{url}/health").status_code == 200:
                    return
            except httpx.HTTPError:
                pass  # not there yet
            time.sleep(0.1)
    raise NoServer(f"a Prefect server did not answer within {START_SECONDS:.0f} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _reason(log: IO[bytes]) -> str:
    """Return what a server last complained of."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or ["it ended without a word"])[-1].strip()


def _serve(port: int) -> None:
    """Serve the Prefect API, without its page, until standard input closes."""
    import uvicorn
    from prefect.server.api.server import create_app

    app: Any = create_app(ephemeral=True, final=True)
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)

    def end_with_parent() -> None:
        while os.read(sys.stdin.fileno(), 1):  # unbuffered: a buffer's lock would stop the exit
            pass
        server.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.run()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
