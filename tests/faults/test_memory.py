"""Memory stays where it is: the scheduler's over many sweeps, a worker's under its limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from flows.data import storage
from flows.engine.block import Job
from flows.engine.dask import connect
from flows.engine.executor import InProcess
from flows.engine.fit import run_fit
from tests.faults.processes import Deployment, resident
from vbmodels.core.state import FloatArray, State, Stats, same_bits, to_bytes


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

    The process itself needs some 150 MB; the cache may hold 160 MB, and the rest is read
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
