"""Workers die, hang, come and go in mid-sweep: the same bits, and the run goes on."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from distributed import Client

PAUSE = 0.004  # seconds a partition: a sweep of 64 on two workers takes about a fifth of one


def soon(action, seconds=0.08):
    """Do something from another thread, in the middle of the sweep that comes."""
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def at(iteration, action, timers):
    """Return an ``on_step`` that acts in the middle of the sweep after a sweep."""

    def step(progress):
        if progress.iteration == iteration:
            timers.append(soon(action))

    return step


@pytest.mark.thorough
def test_a_worker_killed_in_mid_sweep(shared, fit_on, expected, caplog):
    caplog.set_level("INFO")
    victim = next(iter(shared.pids().values()))
    timers = []
    found = fit_on(
        shared.address, on_step=at(6, lambda: os.kill(victim, signal.SIGKILL), timers), pause=PAUSE
    )
    assert timers
    assert not os.path.exists(f"/proc/{victim}/cmdline") or victim not in shared.pids().values()
    assert found == expected
    assert "replayed" in caplog.text


@pytest.mark.thorough
def test_a_worker_stopped_in_mid_sweep(shared, fit_on, expected, caplog):
    pids = shared.pids()
    victim = next(iter(pids.values()))
    timers = []
    try:
        found = fit_on(
            shared.address,
            on_step=at(6, lambda: os.kill(victim, signal.SIGSTOP), timers),
            pause=PAUSE,
        )
        assert timers
        assert found == expected
        assert "are late after" in caplog.text
    finally:
        os.kill(victim, signal.SIGCONT)


@pytest.mark.thorough
def test_a_worker_added_and_one_retired_in_mid_run(shared, fit_on, expected):
    timers, used = [], set()
    with Client(shared.address, set_as_default=False, timeout=10) as client:
        before = list(client.scheduler_info(n_workers=-1)["workers"])

        def retire():
            client.retire_workers(workers=[before[0]])

        def step(progress):
            if progress.iteration == 2:
                shared.add().await_line("Registered to:")
                time.sleep(1.1)
            if progress.iteration == 8:
                timers.append(soon(retire))

        def who(cluster, executor, result):
            used.update(executor.placement.home.values())

        found = fit_on(shared.address, on_step=step, pause=PAUSE, check=who)
    assert timers
    assert found == expected
    assert used - set(before), "the worker that was added did nothing"
    assert before[0] not in used


@pytest.mark.slow
def test_workers_killed_all_the_time(shared, fit_on, expected):
    """A kill each few seconds, thirty times."""
    stop = threading.Event()
    kills = []

    def killer():
        while not stop.wait(2.5) and len(kills) < 30:
            pids = shared.pids()
            if pids:
                victim = sorted(pids.values())[len(kills) % len(pids)]
                os.kill(victim, signal.SIGKILL)
                kills.append(victim)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        assert fit_on(shared.address, pause=0.05) == expected
    finally:
        stop.set()
        thread.join()
    assert len(kills) > 5
