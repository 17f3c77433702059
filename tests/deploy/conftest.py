"""What the checks of deploy/ share: where its files are, and a database of its own."""

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.stores import free_port

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def tool(name: str) -> str:
    """Return a command of this environment, or skip."""
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*command: str, **changes: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, **changes
    )


def postgres_folder() -> str | None:
    """Return the folder of Debian's newest PostgreSQL."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    return os.path.dirname(max(found, key=lambda p: int(p.split("/")[4]))) if found else None


@contextmanager
def postgres() -> Iterator[str]:
    """Run a PostgreSQL server that nobody else knows; yield the URL of an empty database."""
    found = postgres_folder()
    if found is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    # It refuses to run as root, and the user that runs it must be able to reach its folder.
    other = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="vbflows-pg") as folder:
        if other:
            who = pwd.getpwnam("postgres")
            os.chown(folder, who.pw_uid, who.pw_gid)
        secret = Path(folder, "password")
        secret.write_text("the-password")
        if other:
            os.chown(secret, who.pw_uid, who.pw_gid)
        data, port = f"{folder}/data", free_port()
        common = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(
            [f"{found}/initdb", "-D", data, "-U", "prefect", "--auth=scram-sha-256",
             f"--pwfile={secret}", "--no-sync", "--encoding=UTF8", "--locale=C"],
            check=True, **common, **other,
        )  # fmt: skip
        process = subprocess.Popen(
            [f"{found}/postgres", "-D", data, "-p", str(port), "-k", folder, "-F",
             "-h", "127.0.0.1"],
            **common, **other,
        )  # fmt: skip
        try:
            ready = [f"{found}/pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "30"]
            for _ in range(100):
                if subprocess.run(ready, check=False, **common).returncode == 0:
                    break
                process.poll()
            else:
                raise AssertionError("PostgreSQL did not start")
            yield f"postgresql+asyncpg://prefect:the-password@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(2)  # fast shutdown
            process.wait(30)
