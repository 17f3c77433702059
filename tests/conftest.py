"""What every test may ask for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """One thread in every library: timings are honest and sums have one order."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Let processes that tests start heed Ctrl-C: jobs of a shell's background ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; tests skip without it, but never in CI."""
    if SHARED_DATA.is_dir():
        return SHARED_DATA
    reason = f"the real data are not beside the repository: expected the folder {SHARED_DATA}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
