"""A Prefect server in a process of its own, started as a user does."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(home: Path, url: str | None = None) -> dict[str, str]:
    """Return the environment of a process whose Prefect knows this home and this server alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    own = {"PREFECT_HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    own["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"  # as the command has it
    reached = {} if url is None else {"PREFECT_API_URL": url}
    return {**kept, **own, **reached}


def answers(url: str) -> bool:
    """Whether a server answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(home: Path, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address and the process of a server."""
    port = port or free_port()
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    log = home / "server.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--no-ui", "--analytics-off"],
            env=environment(home), stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}/api"
    try:
        deadline = time.monotonic() + 180
        while not answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield url, process
    finally:
        process.kill()
        process.wait()


def drain() -> None:
    """Wait until what this process has logged has reached the server."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogHandler

    EventsWorker.drain_all(timeout=5.0)
    APILogHandler().flush()
