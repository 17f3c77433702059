"""The Prefect server of a run: the configured one, or one of our own that needs a password.

Run as a module, this file is the server of our own: it ends when its standard input closes,
so it never outlives what started it, however that ends.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from flows.faults import RunError

START_SECONDS = 120.0  # a first start creates the database: tens of seconds on a busy machine
ANSWER_SECONDS = 5.0
_HEALTH_SECONDS = 2.0  # the socket listens before the server does: a request may wait

_ERROR = re.compile(r"^[\w.]+(Error|Exception)\b: ")


class NoServer(Exception):
    """No Prefect server answers; the message says why, in one sentence."""


@contextmanager
def running() -> Iterator[str]:
    """Yield the address of a Prefect server that answers: the configured one, else one of ours."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if url:
        check(url)
        yield url
        return
    with started(new_password()) as url:
        yield url


@contextmanager
def started(
    auth: str, port: int = 0, wait: float = START_SECONDS, page: bool = False
) -> Iterator[str]:
    """Yield the address of a server of our own, and be its client; stop it at the end.

    It is bound to the loopback address and answers only those who know `auth`, which it and we
    have in memory and environment alone. The socket is ours from before its start until after
    its end: nobody else can serve at this address meanwhile, and get what is meant for it.
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
    """Wait until a server that was started answers; raise `NoServer` if it ends or is too late."""
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


_PASSWORD = re.compile(r"admin:[\w-]{32,}")
_MOST_PASSWORD = 1024


def password_path() -> Path:
    """Return the file: one line, user and password as Prefect's page and API take them."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return base / "vbflows" / "prefect-password"


def new_password() -> str:
    """Return a user and a new random password, as Prefect takes them."""
    return f"admin:{secrets.token_urlsafe(32)}"


def kept_password() -> str:
    """Return the line of the file, which the first call makes: mode 0600 in a folder of 0700.

    Raises `RunError` if it cannot be made or read, or is not this user's alone.
    """
    file = password_path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_folder_of_others(file.parent)
        if not file.exists():
            _make_password(file)
        return _read_password(file)
    except OSError as error:
        raise RunError(
            f"the password of Prefect's page, {file}, cannot be made or read ({error.strerror}); "
            "make its folder writable, or set XDG_CONFIG_HOME to another"
        ) from error


def _make_password(file: Path) -> None:
    """Write the file whole, or leave the one that another process has made meanwhile."""
    draft = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(f"{new_password()}\n")
        with suppress(FileExistsError):
            os.link(draft, file)  # unlike a rename, it replaces nothing
    finally:
        draft.unlink()


def _read_password(file: Path) -> str:
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise RunError(
                f"{file} must be a file of this user that nobody else can read or write; remove "
                "it, and the next start makes a new one"
            )
        line = opened.read(_MOST_PASSWORD).decode("ascii", "replace").strip()
    if _PASSWORD.fullmatch(line) is None:
        raise RunError(
            f"{file} does not hold a password that vbflows made; remove it, and the next start "
            "makes a new one"
        )
    return line


def _refuse_folder_of_others(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise RunError(
            f"the folder {folder} must belong to this user and be writable by nobody else; mend "
            "that (chmod 700), or set XDG_CONFIG_HOME to another folder"
        )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), "page" in sys.argv[2:])
