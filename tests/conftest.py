"""Fixtures of every test."""

import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import typer.main
from hypothesis import settings
from threadpoolctl import threadpool_limits

from tests import servers

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    # A disk takes longer for tens of thousands of small files than what tests compute.
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))

# What is drawn is the same in every run; HYPOTHESIS_PROFILE=nightly draws more, and anew.
settings.register_profile("usual", max_examples=25, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "nightly", settings.get_profile("usual"), max_examples=200, derandomize=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """One thread in every library: timings are honest and sums have one order."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def staging(tmp_path_factory):
    """Keep copies and indices of inputs where they go with the tests."""
    patch = pytest.MonkeyPatch()
    patch.setenv("VBFLOWS_STAGING", str(tmp_path_factory.mktemp("staging")))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def unrecorded(tmp_path_factory):
    """Forget the developer's Prefect server: runs are recorded where a test says so."""
    patch = pytest.MonkeyPatch()
    patch.delenv("PREFECT_API_URL", raising=False)
    patch.setenv("PREFECT_PROFILES_PATH", str(tmp_path_factory.mktemp("profiles") / "none.toml"))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def hasty():
    """Let a check time two sweeps, not three seconds of them: most tests ask for other things."""
    patch = pytest.MonkeyPatch()
    patch.setattr("flows.preview._MOST_SECONDS", 0.0)
    patch.setattr("flows.preview._SWEEPS", 2)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def built_once():
    """Build the tree of commands once, not for every command that a test gives."""
    patch = pytest.MonkeyPatch()
    patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Let processes that tests start heed Ctrl-C: jobs of a shell's background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data next to the repository; tests skip without it, but never in CI."""
    if SHARED_DATA.is_dir():
        return SHARED_DATA
    reason = f"the real data are not next to the repository: expected the folder {SHARED_DATA}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """Start a Prefect server as a user does, and be its client; yield its address."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_HOME,
        temporary_settings,
    )

    home = tmp_path_factory.mktemp("prefect")
    with servers.started(home) as (url, _):
        with (
            closing(sqlite3.connect(home / "prefect.db")) as made,
            closing(sqlite3.connect(home / "empty.db")) as empty,
        ):
            made.backup(empty)
        settings = {PREFECT_HOME: home, PREFECT_API_URL: url}
        settings[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None  # saves 1 s a flow
        with temporary_settings(settings):
            yield url
            servers.drain()


@pytest.fixture
def prefect_home(prefect_server, tmp_path):
    """Return a home whose database exists and is empty: making one takes ten seconds."""
    from prefect.settings import PREFECT_HOME

    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(PREFECT_HOME.value() / "empty.db", home / "prefect.db")
    return home
