"""What a sweep costs on a cluster beside its arithmetic, and what a second worker brings.

Overhead: a model with next to no arithmetic, 64 partitions and 100 KB of global parameters,
on a scheduler and two workers as processes of their own. In one run, in turns: the loop in
this process, bare Dask actors that hold their partitions and get the parameters inline
(nothing survives a lost worker), and this engine. Speed-up: the same engine on one and two
workers, with sweeps of at least 300 ms on one.

    python -m benchmarks.engine [--sweeps 60] [--turns 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client, get_client
from flows.fit.dask import Cluster, connect

from flows.data import storage
from flows.fit.executor import InProcess
from flows.fit.job import Job
from tests.faults.processes import Deployment
from vbmodels.core.in_process import tree_sum
from vbmodels.core.state import FloatArray, State, Stats, from_bytes, to_bytes

PARTITIONS = 64
GLOBALS = 12_500  # doubles: 100 KB
SUMS = 1_250  # doubles of statistics a partition: 10 KB


@dataclass(frozen=True)
class Rows(State):
    x: FloatArray


@dataclass(frozen=True)
class Point(State):
    theta: FloatArray


@dataclass(frozen=True)
class Local(State):
    z: FloatArray


@dataclass(frozen=True)
class Sums(Stats):
    total: FloatArray
    bound: float


@dataclass(frozen=True)
class Light:
    """A model with a local state, and ``work`` matrix products of 200 x 200 a partition."""

    work: int = 0

    def observe(self, batch: Rows) -> Sums:
        return Sums(np.zeros(SUMS), 0.0)

    def local_step(self, q: Point, batch: Rows, local: Local | None) -> Local:
        z = batch.x + q.theta[: len(batch.x)]
        for _ in range(self.work):
            product = batch.x[:, None] * q.theta[None, :200]
            z = np.tanh(product @ product.T[:, : len(z)]).sum(axis=0)
        return Local(z)

    def suff_stats(self, q: Point, batch: Rows, local: Local) -> Sums:
        total = np.resize(local.z, SUMS)
        return Sums(total, float(total.sum()))


def stored(
    folder: Path, work: int, name: str, partitions: int = PARTITIONS, model: Light | None = None
) -> Job:
    """Store the partitions and return the job."""
    rng = np.random.default_rng(0)
    urls = [storage.join(str(folder), name, f"part-{i:03d}.npz") for i in range(partitions)]
    for url in urls:
        storage.write_bytes(url, to_bytes(Rows(rng.standard_normal(200))))
    return Job(
        model or Light(work),
        Rows,
        tuple(urls),
        storage.join(str(folder), "runs", name),
        run_id=name,
    )


class Holder:
    """A bare Dask actor: some partitions and their local states."""

    def __init__(self, model: Light, urls: tuple[str, ...]) -> None:
        self.model = model
        self.batches = [from_bytes(storage.read_bytes(url), Rows) for url in urls]
        self.local: list[Local | None] = [None] * len(urls)

    def sweep(self, q: Point) -> Sums:
        parts = []
        for i, batch in enumerate(self.batches):
            self.local[i] = local = self.model.local_step(q, batch, self.local[i])
            parts.append(self.model.suff_stats(q, batch, local))
        return tree_sum(parts)


class Actors:
    """The rival: one actor a worker, called with the parameters inline."""

    def __init__(self, client: Client, job: Job) -> None:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        share = len(job.partitions) // len(workers)
        made = [
            client.submit(
                Holder,
                job.model,
                job.partitions[i * share : (i + 1) * share],
                actor=True,
                workers=[worker],
                pure=False,
            )
            for i, worker in enumerate(workers)
        ]
        self.actors = [future.result() for future in made]

    def __call__(self, q: Point, *, number: int, warm: int | None) -> Sums:
        asked = [actor.sweep(q) for actor in self.actors]
        return tree_sum(part.result() for part in asked)


def cpu(pids: list[int]) -> float:
    """Return the CPU seconds that processes have used."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


class Series:
    """Times of one executor's sweeps, and the CPU that each kind of process used."""

    def __init__(self, reduce: Callable[..., Any], groups: dict[str, list[int]]) -> None:
        self.reduce = reduce
        self.groups = groups
        self.wall: list[float] = []
        self.used = dict.fromkeys(groups, 0.0)
        self.number = 0

    def run(self, sweeps: int, record: bool = True) -> None:
        """Run some sweeps, each at new parameters."""
        before = {name: cpu(pids) for name, pids in self.groups.items()}
        for _ in range(sweeps):
            q = Point(np.full(GLOBALS, 1e-3 * self.number))
            began = time.perf_counter()
            warm = self.number - 1 if self.number else None
            self.reduce(q, number=self.number, warm=warm)
            self.number += 1
            if record:
                self.wall.append(time.perf_counter() - began)
            # What a checkpoint does: earlier parameters need not be kept.
            if hasattr(self.reduce, "checkpointed") and self.number % 10 == 0:
                self.reduce.checkpointed([self.number - 2])
        if record:
            for name, pids in self.groups.items():
                self.used[name] += cpu(pids) - before[name]

    def figures(self) -> dict[str, Any]:
        """Return milliseconds a sweep."""
        wall = 1e3 * np.array(self.wall)
        return {
            "median_ms": round(float(np.median(wall)), 2),
            "p10_ms": round(float(np.quantile(wall, 0.1)), 2),
            "cpu_ms": {k: round(1e3 * v / len(wall), 2) for k, v in self.used.items()},
        }


def processes(deployment: Deployment) -> dict[str, list[int]]:
    """Return the ids of this process, the scheduler and the workers that compute."""
    return {
        "client": [psutil.Process().pid],
        "scheduler": [deployment.scheduler.pid],
        "workers": list(deployment.pids().values()),
    }


def overhead(folder: Path, sweeps: int, turns: int) -> dict[str, Any]:
    """Compare the engine with the plain loop and with actors, in turns."""
    deployment = Deployment(folder / "cluster").start(2)
    try:
        groups = processes(deployment)
        with connect(scheduler=deployment.address) as cluster:
            alone, rival, own = (stored(folder, 0, name) for name in ("alone", "actors", "engine"))
            engine = cluster.executor(own)
            with cluster.seam.client.as_current():
                actors = Actors(get_client(), rival)
            series = {
                "in process": Series(InProcess(alone), {"client": groups["client"]}),
                "actors": Series(actors, groups),
                "engine": Series(engine, groups),
            }
            for each in series.values():
                each.run(10, record=False)
            for _ in range(turns):
                for each in series.values():
                    each.run(sweeps)
            found = {name: each.figures() for name, each in series.items()}
            engine.close()
    finally:
        deployment.end()
    over, rival_over = (
        found[name]["median_ms"] - found["in process"]["median_ms"] / 2
        for name in ("engine", "actors")
    )
    found["engine / actors"] = round(found["engine"]["median_ms"] / found["actors"]["median_ms"], 2)
    found["overhead_ms"] = {"engine": round(over, 2), "actors": round(rival_over, 2)}
    return found


def speedup(folder: Path, sweeps: int, work: int) -> dict[str, Any]:
    """Compare one worker with two, in turns."""
    deployments = [Deployment(folder / f"cluster{n}").start(n) for n in (1, 2)]
    times: dict[int, list[float]] = {1: [], 2: []}
    try:
        with (
            connect(scheduler=deployments[0].address) as one,
            connect(scheduler=deployments[1].address) as two,
        ):
            series = {n: _heavy(folder, n, c, work) for n, c in ((1, one), (2, two))}
            for each in series.values():
                each.run(3, record=False)
            for _ in range(sweeps):
                for each in series.values():
                    each.run(1)
            times = {n: each.wall for n, each in series.items()}
    finally:
        for deployment in deployments:
            deployment.end()
    medians = {n: float(np.median(wall)) for n, wall in times.items()}
    best = {n: float(np.quantile(wall, 0.1)) for n, wall in times.items()}
    return {
        "sweep_ms": {n: round(1e3 * m, 1) for n, m in medians.items()},
        "speedup_median": round(medians[1] / medians[2], 3),
        "speedup_p10": round(best[1] / best[2], 3),
    }


def _heavy(folder: Path, workers: int, cluster: Cluster, work: int) -> Series:
    return Series(cluster.executor(stored(folder, work, f"heavy{workers}")), {})


def main() -> None:
    """Run both and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--work", type=int, default=4, help="products a partition (speed-up)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = {
            "overhead": overhead(folder, given.sweeps, given.turns),
            "speedup": speedup(folder, max(10, given.sweeps // 4), given.work),
        }
    indent = None if given.json else 2
    print(json.dumps(report, indent=indent))


if __name__ == "__main__":
    # By its own name, so that workers import the classes above instead of copies of them.
    from benchmarks.engine import main as named_main

    named_main()
