"""Workers die, hang, come and go in mid-sweep: the same bits, and the run goes on."""

import ctypes
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from flows.fit import cluster_executor
from flows.fit.connect import connect, over
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from tests.contract.toy import Looping
from tests.faults.models import Paced
from tests.fit.jobs import toy_job
from vbmodels.core.state import same_bits

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
PAUSE = 0.004  # seconds a partition: a sweep of 64 on two workers takes about a fifth of one


class Actions:
    """Things to do in the middle of the sweep after a sweep; when each sweep was done."""

    def __init__(self, **actions):
        self.actions = {int(name[1:]): action for name, action in actions.items()}
        self.timers, self.times = [], []

    def __call__(self, progress):
        self.times.append(time.monotonic())
        if action := self.actions.pop(progress.iteration, None):
            self.timers.append(threading.Timer(0.08, action))
            self.timers[-1].start()

    @property
    def longest(self):
        assert self.timers
        assert not self.actions
        return max(np.diff(self.times))


def send(number, shared):
    victim = sorted(shared.pids().values())[0]
    return victim, lambda: os.kill(victim, number)


@pytest.mark.thorough
def test_a_worker_killed_in_mid_sweep(shared, fit_on, expected, caplog):
    _, kill = send(signal.SIGKILL, shared)
    actions = Actions(_6=kill)
    assert fit_on(shared.address, on_step=actions, pause=PAUSE) == expected
    assert actions.longest < 20
    assert "going back to sweep 4" in caplog.text


@pytest.mark.thorough
def test_a_worker_stopped_in_mid_sweep(shared, fit_on, expected, caplog):
    victim, stop = send(signal.SIGSTOP, shared)
    actions = Actions(_6=stop)
    try:
        assert fit_on(shared.address, on_step=actions, pause=PAUSE) == expected
        assert actions.longest < 35
        assert "is silent; going back to sweep 4" in caplog.text
    finally:
        os.kill(victim, signal.SIGCONT)


@pytest.mark.thorough
def test_a_worker_stopped_for_a_while(shared, fit_on, expected, caplog):
    """It is taken for lost after ten seconds, and comes back while the others do its work."""
    victim, stop = send(signal.SIGSTOP, shared)
    goes_on = threading.Timer(15.0, os.kill, (victim, signal.SIGCONT))

    def stop_and_go():
        stop()
        goes_on.start()

    try:
        assert fit_on(shared.address, on_step=Actions(_6=stop_and_go), pause=0.02) == expected
        assert "is silent; going back to sweep 4" in caplog.text
        assert not goes_on.is_alive(), "the fit ended before"
    finally:
        os.kill(victim, signal.SIGCONT)


@pytest.mark.thorough
def test_a_worker_that_comes_is_used_and_one_may_leave(shared, fit_on, expected):
    used = set()
    with Client(shared.address, set_as_default=False, timeout=60) as client:
        before = list(client.scheduler_info(n_workers=-1)["workers"])
        leaving = shared.workers[0]

        def come():
            shared.add().await_line("Registered to:")

        def step(progress):
            if progress.iteration == 2:
                come()
            if progress.iteration == 8:
                leaving.send(signal.SIGTERM)

        def who(cluster, executor, result):
            used.update(executor.placed)

        assert fit_on(shared.address, on_step=step, pause=PAUSE, check=who) == expected
    assert used - set(before), "the worker that was added did nothing"
    assert len(used) == 2


@pytest.mark.slow
def test_workers_killed_all_the_time(deployment, fit_on, expected):
    """One of three every few seconds; a sweep, and going back to it, take less than that."""
    deployment.add().await_line("Registered to:")
    stop, kills = threading.Event(), []

    def killer():
        while not stop.wait(6.0) and len(kills) < 30:
            pids = deployment.pids()
            if pids:
                kills.append(sorted(pids.values())[len(kills) % len(pids)])
                os.kill(kills[-1], signal.SIGKILL)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        assert fit_on(deployment.address, pause=0.05) == expected
    finally:
        stop.set()
        thread.join()
    assert len(kills) > 2


@dataclass(frozen=True)
class Once(Looping):
    """A toy that does something at one partition's third local step, once in all processes."""

    folder: str = ""
    seconds: float = 0.0
    holding: bool = False  # Python's lock, as a kernel may

    def local_step(self, q, batch, local):
        step = Path(self.folder) / f"step-{len(batch.y)}"
        if self.folder and len(batch.y) == 6:
            with step.open("a") as file:
                file.write("x")
            if step.stat().st_size == 6:  # two partitions have so many rows
                sleep = ctypes.PyDLL(None).usleep if self.holding else None
                sleep(int(self.seconds * 1e6)) if sleep else time.sleep(self.seconds)
        return super().local_step(q, batch, local)


@pytest.fixture(scope="module")
def two():
    with connect(workers=2) as cluster:
        yield cluster


def fitted(cluster, folder, **changes):
    """Return whether the bits are those of the toy, and how often the fit went back."""
    plain = toy_job(folder, partitions=8, run_id="alone", max_iter=8, tol=0.0)
    expected = run_fit(plain, InProcess(plain))
    model = Once(loop="cavi", folder=str(folder), **changes)
    task = toy_job(folder, partitions=8, model=model, max_iter=8, tol=0.0)
    executor = cluster.executor(task)
    found = run_fit(task, executor)
    executor.close()
    return same_bits(found.q, expected.q), executor.rolled


@pytest.mark.thorough
def test_a_worker_that_computes_for_ever_is_ended(two, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_executor, "UNKNOWN", 3.0)
    monkeypatch.setattr(cluster_executor, "LEAST", 3.0)
    assert fitted(two, tmp_path, seconds=1e4) == (True, 1)


@pytest.mark.thorough
def test_a_kernel_that_holds_python_s_lock_is_waited_for(two, tmp_path, monkeypatch):
    assert fitted(two, tmp_path / "a", seconds=6.0, holding=True) == (True, 0)
    # Where that takes longer than a silence, the fit goes back and waits for longer.
    monkeypatch.setattr(cluster_executor, "SHORTEST", 1.0)
    same, rolled = fitted(two, tmp_path / "b", seconds=6.0, holding=True)
    assert same
    assert rolled >= 1


@pytest.mark.thorough
def test_workers_without_nannies(deployment, urls, tmp_path, expected, fit_on):
    for worker in deployment.workers:
        worker.end()
    for _ in range(3):
        deployment.add("--no-nanny")
    for worker in deployment.workers[2:]:
        worker.await_line("Registered to:")
    gone = [deployment.workers[2].end, deployment.workers[3].end]
    actions = Actions(_3=gone[0], _8=gone[1])
    assert fit_on(deployment.address, on_step=actions, pause=PAUSE) == expected
    assert actions.longest < 35


@pytest.mark.thorough
def test_eight_workers_that_a_cluster_adapts(tmp_path):
    """Workers come while they are used, and an idle scheduler would end in the middle."""
    options = {"processes": False, "threads_per_worker": 1, "memory_limit": None}
    task = toy_job(tmp_path, partitions=64, model=Paced(pause=0.2), max_iter=9, tol=0.0)
    alone = toy_job(tmp_path, partitions=64, run_id="alone", max_iter=9, tol=0.0)
    expected = run_fit(alone, InProcess(alone))
    with (
        LocalCluster(n_workers=8, scheduler_kwargs={"idle_timeout": "8s"}, dashboard_address=None,
                     **options) as local,
        Client(local) as client,
    ):  # fmt: skip
        local.adapt(minimum=2, maximum=8, interval="500ms")
        executor = over(client, "the cluster of a notebook").executor(task)
        assert same_bits(run_fit(task, executor).q, expected.q)
        assert executor.rolled == 0
        executor.close()
