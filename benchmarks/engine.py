"""What a sweep costs on a cluster without arithmetic: the engine and bare actors, in turns.

A model with next to no arithmetic: 64 partitions of 100 kB and sums of 10 kB, on a scheduler and
two workers as processes of their own. Bare Dask actors hold their partitions and get the
parameters; nothing survives a lost worker. The engine keeps local states every 10 sweeps.

    python -m benchmarks.engine [--sweeps 50] [--turns 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client

from flows import storage
from flows.fit.connect import connect
from flows.fit.executor import Executor, InProcess
from flows.fit.job import Job
from tests.faults.processes import Deployment
from vbmodels.core.state import FloatArray, State, Stats, from_bytes, to_bytes, tree_sum

PARTITIONS = 64
CASES = {  # doubles of the global parameters and of the sums; whether local states are carried
    "q 100 kB, carried": (12_500, 1_250, True),
    "q 100 kB": (12_500, 1_250, False),
    "q 1 MB, carried": (125_000, 1_250, True),
    "q and sums 1 MB, carried": (125_000, 125_000, True),
}


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
    """A model that adds two vectors of 200 numbers a partition."""

    sums: int = 1_250
    carries: bool = True

    def observe(self, batch: Rows) -> Sums:
        return Sums(np.zeros(self.sums), 0.0)

    def local_step(self, q: Point, batch: Rows, local: Local | None) -> Local | None:
        if not self.carries:
            return None
        return Local(batch.x[:200] + q.theta[:200] + (0.0 if local is None else 0.5 * local.z))

    def suff_stats(self, q: Point, batch: Rows, local: Local | None) -> Sums:
        z = batch.x[:200] + q.theta[:200] if local is None else local.z
        return Sums(np.resize(z, self.sums), float(z.sum()))


def stored(folder: Path, name: str, partitions: int = PARTITIONS, model: Any = None) -> Job:
    """Store the partitions and return the job."""
    rng = np.random.default_rng(0)
    urls = [storage.join(str(folder), name, f"part-{i:03d}.npz") for i in range(partitions)]
    for url in urls:
        storage.write_bytes(url, to_bytes(Rows(rng.standard_normal(12_500))), durable=False)
    store = storage.join(str(folder), "runs", name)
    return Job(model or Light(), Rows, tuple(urls), store, run_id=name)


class Bare:
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
    """The rival: one actor a worker, called directly with the parameters."""

    def __init__(self, client: Client, job: Job) -> None:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        share = len(job.partitions) // len(workers)
        with client.as_current():
            made = [
                client.submit(
                    Bare, job.model, job.partitions[i * share : (i + 1) * share], actor=True,
                    workers=[worker], pure=False,
                )
                for i, worker in enumerate(workers)
            ]  # fmt: skip
            self.actors = [future.result() for future in made]

    def __call__(self, q: Point, *, number: int, warm: int | None) -> Sums:
        made = [actor.sweep(q) for actor in self.actors]
        return tree_sum(part.result() for part in made)


def cpu(pids: list[int]) -> float:
    """Return the CPU seconds that processes have used."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


class Series:
    """Times of one executor's sweeps, and the CPU that each kind of process used."""

    def __init__(
        self, reduce: Callable[..., Any], groups: dict[str, list[int]], size: int = 12_500
    ) -> None:
        self.reduce, self.groups, self.size = reduce, groups, size
        self.wall: list[float] = []
        self.used = dict.fromkeys(groups, 0.0)
        self.number = 0

    def run(self, sweeps: int, record: bool = True) -> None:
        """Run some sweeps, each at new parameters, with a checkpoint's local states every 10."""
        before = {name: cpu(pids) for name, pids in self.groups.items()}
        for _ in range(sweeps):
            q = Point(np.full(self.size, 1e-3 * self.number))
            began = time.perf_counter()
            warm = self.number - 1 if self.number else None
            self.reduce(q, number=self.number, warm=warm)
            if record:
                self.wall.append(time.perf_counter() - began)
            if isinstance(self.reduce, Executor) and self.number % 10 == 9:
                self.reduce.keep(self.number)
            self.number += 1
        if record:
            for name, pids in self.groups.items():
                self.used[name] += cpu(pids) - before[name]

    def figures(self) -> dict[str, Any]:
        """Return milliseconds a sweep."""
        used = {name: round(1e3 * v / len(self.wall), 2) for name, v in self.used.items()}
        median = round(1e3 * float(np.median(self.wall)), 2)
        return {"wall_ms": median, "cpu_ms": round(sum(used.values()), 2), **used}


def compare(folder: Path, sweeps: int, turns: int) -> dict[str, Any]:
    """Compare the engine with one process and with bare actors, in turns."""
    deployment = Deployment(folder / "cluster").start(2)
    groups = {
        "client": [psutil.Process().pid],
        "scheduler": [deployment.scheduler.pid],
        "workers": list(deployment.pids().values()),
    }
    found: dict[str, Any] = {}
    try:
        with connect(scheduler=deployment.address) as cluster:
            for name, (size, sums, carries) in CASES.items():
                job = stored(folder, name.replace(" ", "-"), model=Light(sums, carries))
                engine = cluster.executor(job)
                engine.observe()
                series = {
                    "in process": Series(InProcess(job), {"client": groups["client"]}, size),
                    "bare actors": Series(Actors(cluster.client, job), groups, size),
                    "engine": Series(engine, groups, size),
                }
                for each in series.values():
                    each.run(10, record=False)
                for _ in range(turns):
                    for each in series.values():
                        each.run(sweeps)
                found[name] = {label: each.figures() for label, each in series.items()}
                engine.close()
    finally:
        deployment.end()
    return found


def table(found: dict[str, Any]) -> str:
    """Return CPU and median wall in ms a sweep as a table of a page."""
    lines = ["| CPU; wall, ms a sweep | in process | bare actors | engine |", "|---|---|---|---|"]
    for name, each in found.items():
        cells = (f"{one['cpu_ms']}; {one['wall_ms']}" for one in each.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=50)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = compare(Path(name), given.sweeps, given.turns)
    print(table(found))


if __name__ == "__main__":
    # By its own name, so that workers import the classes above instead of copies of them.
    from benchmarks.engine import main as named_main

    named_main()
