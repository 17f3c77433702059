"""Memory stays where it is: the scheduler's over many sweeps, a worker's under its limit."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from flows import storage
from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.job import Job
from tests.faults.processes import Deployment, resident
from tests.fit.jobs import toy_job
from vbmodels.core.state import FloatArray, State, Stats, same_bits, to_bytes


def growth(folder, deployment, first, last):
    """Return the scheduler's resident memory after ``last`` sweeps over that after ``first``."""
    job = toy_job(
        folder,
        partitions=64,
        model=Restless(),
        tol=1e-300,
        max_iter=last + 2,
        checkpoint_every=50,
    )
    seen = {}

    def step(progress):
        if progress.iteration in (first, last):
            seen[progress.iteration] = resident(deployment.scheduler.pid)

    with connect(scheduler=deployment.address) as cluster:
        executor = cluster.executor(job)
        run_fit(job, executor, on_step=step)
        executor.close()
    return seen[last] / seen[first]


@dataclass(frozen=True)
class Restless:
    """A model that never converges and next to nothing to compute, with 100 KB of parameters."""

    def observe(self, batch):
        return Seen(0.0, 0.0)

    def init(self, observed, rng):
        return Wide(np.zeros(12_500), 0.0)

    def local_step(self, q, batch, local):
        return Wide(np.full(4, q.turn), q.turn)

    def suff_stats(self, q, batch, local):
        return Seen(1.0, local.turn)

    def global_step(self, q, stats):
        return Wide(q.theta + 1.0, q.turn + 1.0)

    def elbo(self, q, stats):
        return q.turn**2


@dataclass(frozen=True)
class Wide(State):
    theta: FloatArray
    turn: float


@dataclass(frozen=True)
class Seen(Stats):
    n: float
    turn: float


@pytest.fixture
def plain(tmp_path):
    made = Deployment(tmp_path / "cluster").start(2)
    yield made
    made.end()


@pytest.mark.slow
def test_the_memory_of_the_scheduler_stays_flat(plain, tmp_path):
    assert growth(tmp_path, plain, 100, 300) < 1.15


@pytest.mark.slow
@pytest.mark.slow
def test_the_memory_of_the_scheduler_stays_flat_for_long(plain, tmp_path):
    assert growth(tmp_path, plain, 200, 1500) < 1.15


@dataclass(frozen=True)
class Rows(State):
    x: FloatArray


@dataclass(frozen=True)
class Total(Stats):
    total: float
    bound: float


@dataclass(frozen=True)
class Mean(State):
    mean: float


@dataclass(frozen=True)
class Averaging:
    """A model that reads all of its data in each sweep: the mean, by damped steps."""

    def observe(self, batch):
        return Total(float(len(batch.x)), 0.0)

    def init(self, observed, rng):
        return Mean(0.0)

    def local_step(self, q, batch, local):
        return None

    def suff_stats(self, q, batch, local):
        return Total(float((batch.x - q.mean).sum()), -float(((batch.x - q.mean) ** 2).sum()))

    def global_step(self, q, stats):
        return Mean(q.mean + 0.5 * stats.total / (24 * 2**20))

    def elbo(self, q, stats):
        return stats.bound


@pytest.mark.slow
def test_data_larger_than_a_workers_memory(tmp_path):
    """192 MB of data in 24 partitions, on one worker that may have 400 MB in all.

    The process itself needs some 150 MB; its data may take 120 MB, and the rest is read
    in each sweep.
    """
    rng = np.random.default_rng(0)
    urls = []
    for i in range(24):
        urls.append(storage.join(str(tmp_path), "data", f"part-{i:02d}.npz"))
        storage.write_bytes(urls[-1], to_bytes(Rows(rng.standard_normal(2**20))), durable=False)
    job = Job(Averaging(), Rows, tuple(urls), str(tmp_path / "run"), "run", max_iter=4)
    alone = replace(job, store=str(tmp_path / "alone"))
    expected = run_fit(alone, InProcess(alone, memory=2**26))
    made = Deployment(tmp_path / "cluster")
    try:
        worker = made.add("--memory-limit", "400MiB")
        worker.await_line("Registered to:")
        pid = next(iter(made.pids().values()))
        seen = []
        with connect(scheduler=made.address) as cluster:
            result = run_fit(
                job, cluster.executor(job), on_step=lambda step: seen.append(resident(pid))
            )
        assert next(iter(made.pids().values())) == pid, "the worker was restarted"
        assert max(seen) < 400 * 2**20
        assert "memory budget" not in worker.output
    finally:
        made.end()
    assert same_bits(result.q, expected.q)
