"""Local workers that are hit while they come up: the run goes on, or ends in one sentence."""

import os
import signal
import time

import psutil
import pytest

from tests.faults.processes import Process, is_worker
from tests.faults.test_driver import outcome


def coming(driver, count):
    """Return the processes of workers, as soon as there are so many."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = []
        for process in psutil.Process(driver.pid).children(recursive=True):
            try:
                found += [process.pid] if is_worker(process) else []
            except psutil.Error:
                continue
        if len(found) >= count:
            return found
        time.sleep(0.01)
    raise AssertionError(driver.output)


@pytest.mark.thorough
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("number", "workers", "hit", "seconds"),
    [
        (signal.SIGKILL, 2, 1, 60),
        (signal.SIGKILL, 2, 2, 60),
        (signal.SIGSTOP, 2, 1, 60),
        pytest.param(signal.SIGSTOP, 2, 2, 110, marks=pytest.mark.slow),
        pytest.param(signal.SIGSTOP, 1, 1, 110, marks=pytest.mark.slow),
    ],
)
def test_workers_hit_while_they_come_up(number, workers, hit, seconds, corpus, expected, tmp_path):
    target = tmp_path / "out"
    driver = Process(
        *("-m", "tests.faults.driver", str(corpus), str(target), "run", "--workers", str(workers))
    )
    try:
        began = time.monotonic()
        for pid in coming(driver, hit)[:hit]:
            time.sleep(0.2)
            os.kill(pid, number)
        assert driver.wait(180) == 0, driver.output
        assert time.monotonic() - began < seconds
        assert "Traceback" not in driver.output
        assert outcome(target) == expected
    finally:
        driver.end()
