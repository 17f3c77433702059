"""The scheduler or the driver is killed: one sentence, and resume gives the same bits."""

import json
import random
import signal
import time

import pytest

from tests.faults.processes import Deployment, Process

PAUSE = "0.003"


def drive(corpus, target, *options, pause=PAUSE):
    command = ("-m", "tests.faults.driver", str(corpus), str(target), "run", "--pause", pause)
    return Process(*command, *options)


def outcome(target):
    return json.loads((target / "run.json").read_text())


@pytest.fixture
def started(request):
    """Start processes that are ended with the test."""
    processes = []

    def start(process):
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.end()


@pytest.mark.thorough
def test_the_scheduler_killed(corpus, tmp_path, deployment, expected, started):
    target = tmp_path / "out"
    driver = started(drive(corpus, target, "--scheduler", deployment.address))
    driver.await_line("sweep 9", 60)
    deployment.scheduler.send(signal.SIGKILL)
    began = time.monotonic()
    assert driver.wait(30) == 1
    assert time.monotonic() - began < 30
    assert "Traceback" not in driver.output
    sentences = [line for line in driver.lines if line.startswith("run run: ")]
    assert len(sentences) == 1
    assert "went away" in sentences[0]
    assert "--resume" in sentences[0]
    assert not (target / "latest.json").exists()
    fresh = Deployment(tmp_path / "second")
    try:
        fresh.start(1)
        again = started(drive(corpus, target, "--scheduler", fresh.address, "--resume"))
        assert again.wait(120) == 0, again.output
    finally:
        fresh.end()
    assert "resuming run run after sweep 8" in again.output
    assert outcome(target) == expected
    assert (target / "latest.json").read_text() == "run"


def kill_at_random(corpus, target, address, times, expected, started, seed):
    """Kill the driver at random moments of one run, resuming after each; then finish it."""
    rng = random.Random(seed)
    resumed = 0
    for turn in range(times):
        options = ["--resume"] if turn else []
        driver = started(drive(corpus, target, "--scheduler", address, *options))
        # The first time beyond a checkpoint, so that there is one to go on from.
        driver.await_count("sweep", 7 if turn == 0 else rng.randint(1, 6))
        time.sleep(rng.uniform(0.0, 0.3))
        driver.send(signal.SIGKILL)
        driver.wait(10)
        assert not (target / "latest.json").exists() or (target / "run.json").exists()
        resumed += "resuming run run" in driver.output
    last = started(drive(corpus, target, "--scheduler", address, "--resume"))
    assert last.wait(120) == 0, last.output
    assert outcome(target) == expected
    assert resumed + ("resuming run run" in last.output) > 0


@pytest.mark.thorough
def test_the_driver_killed_three_times(corpus, tmp_path, shared, expected, started):
    kill_at_random(corpus, tmp_path / "out", shared.address, 3, expected, started, seed=1)


@pytest.mark.thorough
def test_a_second_driver_of_the_same_run_is_refused(corpus, tmp_path, started):
    target = tmp_path / "out"
    # Slow enough that it is still at work when the second has begun, however busy the machine is.
    first = started(drive(corpus, target, pause="0.1"))
    first.await_line("sweep 1", 60)
    second = started(drive(corpus, target, "--resume"))
    assert second.wait(60) != 0
    assert f"run run is still going, in process {first.pid}" in second.output
    assert first._popen.poll() is None
