"""What a row costs as rows become more, and what two local workers bring.

    python -m benchmarks.scale [--only growth workers weak] [--pipelines keywords ...]
                               [--rows variants=10000000]

growth   Each pipeline draws data from its own model and runs with its default settings, at 10^3,
         10^4, ... rows up to its size; the largest size again on two local workers.
workers  Bags of 3,000 and variants of 20,000 locations, in one process (which takes a thread for
         each core where kernels release Python's lock), in one on one core, on two local workers.
weak     A model with next to no arithmetic that sleeps for a while a partition, on 1 to 64 workers
         with as many partitions each: what a sweep takes beyond its sleep, what the driver sends,
         and the CPU of it, of the scheduler, and of the two processes that have all workers.

Every run is a process of its own, its kernels compiled by a small run before. Seconds are of the
run, without its imports; CPU and memory are those of its workers too. The engine's share of a fit
is the time in which no thread of its process is in a method of the model or in its algorithm.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, ExitStack, contextmanager
from dataclasses import dataclass
from inspect import isfunction
from itertools import pairwise
from math import log10
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from distributed import Client
from distributed.comm.tcp import TCP

import flows.fit.connect
from benchmarks.harness import head, row
from flows import storage
from flows.catalogue import pipeline_named
from flows.events import Event, Stage, Sweep, listening
from flows.fit.cluster import Cluster
from flows.fit.job import Job
from flows.settings import ComputeSettings
from tests.faults.processes import Deployment, Process
from vbmodels.core.driver import Driver
from vbmodels.core.state import FloatArray, State, Stats, to_bytes

PIPELINES = ("keywords", "bags", "variants", "features", "experts")
GIVEN: dict[str, dict[str, Any]] = {"variants": {"case": "case", "control": "control"}}
WARM, FIRST, LAST = 100, 1000, 100_000  # rows of the runs that compile, begin and end
PAIRS = {"bags": 3_000, "variants": 20_000}
WORKERS = (1, 8, 32, 64)
SLEEP = 0.2  # seconds a sweep and worker
ONE_CORE = -1
MIB = 2**20


class Stopwatch(ContextDecorator):
    """Seconds in which at least one thread is in what is timed."""

    def __init__(self) -> None:
        self.seconds, self._inside, self._began, self._lock = 0.0, 0, 0.0, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self.seconds += time.perf_counter() - self._began


class Watch(threading.Thread):
    """How long a run's stages, its model and the start of its workers take, and what these use.

    The algorithm's steps and the model's public methods are timed; the reduce, the log of steps and
    all else of a fit are the engine's.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.sweeps, self.over, self.model, self.starting = 0, False, Stopwatch(), Stopwatch()
        self.seen: list[tuple[str, float, float]] = []  # a stage, and both clocks as it begins
        self.of_workers: dict[int, tuple[float, int]] = {}  # CPU seconds, largest memory

    def on_event(self, event: Event) -> None:
        """Take note of stages and sweeps."""
        if isinstance(event, Sweep):
            self.sweeps = event.iteration + 1
        if isinstance(event, Stage):
            self.seen.append((event.name, time.perf_counter(), self.model.seconds))

    @contextmanager
    def timing(self, family: type) -> Iterator[None]:
        """Time the methods of the model that a run makes, and the start of its workers."""

        def model_for_data(*args: Any) -> Any:
            model = made(*args)
            for kind in type(model).__mro__:
                for name, method in [*vars(kind).items()]:
                    if "vbmodels" in kind.__module__ and isfunction(method) and name[0] != "_":
                        patches.enter_context(patch.object(kind, name, self.model(method)))
            return model

        @contextmanager
        def connect(*args: Any) -> Iterator[Any]:
            with ExitStack() as ends:
                with self.starting:
                    cluster = ends.enter_context(connected(*args))
                yield cluster

        made, connected = family.model_for_data, flows.fit.connect.connect
        with ExitStack() as patches:
            patches.enter_context(patch.object(Driver, "_next", self.model(Driver._next)))
            patches.enter_context(patch.object(family, "model_for_data", model_for_data))
            patches.enter_context(patch.object(flows.fit.connect, "connect", connect))
            yield

    def fit(self) -> tuple[float, float]:
        """Return the seconds of the fit, and the share of them in which no thread is in a model."""
        for (name, began, before), (_, ended, after) in pairwise(self.seen):
            if name == "fit":
                return ended - began, 1.0 - (after - before) / max(ended - began, 1e-9)
        return 0.0, 0.0

    def run(self) -> None:
        """Look at the workers twice a second until the run is over."""
        own = psutil.Process()
        while not self.over:
            time.sleep(0.5)
            for child in own.children(recursive=True):
                try:
                    times, memory = child.cpu_times(), child.memory_info().rss
                except psutil.Error:
                    continue
                _, most = self.of_workers.get(child.pid, (0.0, 0))
                self.of_workers[child.pid] = times.user + times.system, max(most, memory)


def run_once(name: str, folder: Path, rows: int, workers: int) -> dict[str, Any]:
    """Draw data, run the pipeline in this process, and return its figures.

    ``workers`` is the number of local ones; 0 for none, `ONE_CORE` for one core of this process.
    """
    from flows.run import run

    family = pipeline_named(name)
    [source, *_] = family.simulate(str(folder / "in"), rows, 1)
    settings = family.settings(**GIVEN.get(name, {}))
    if workers == ONE_CORE:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    compute = ComputeSettings(workers=workers if workers > 0 else None)
    watch = Watch()
    before, began = time.process_time(), time.perf_counter()
    watch.start()
    with listening(watch), watch.timing(type(family)):
        run(name, source, str(folder / "out"), settings, compute)
    wall, cpu = time.perf_counter() - began, time.process_time() - before
    watch.over = True
    fit, engine = watch.fit()
    return {
        "wall": wall,
        "cpu": cpu + sum(used for used, _ in watch.of_workers.values()),
        "fit": fit,
        "engine": engine,
        "start": watch.starting.seconds,
        "sweeps": watch.sweeps,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "worker_memory": max((m for _, m in watch.of_workers.values()), default=0) / MIB,
    }


def measured(name: str, rows: int, workers: int = 0) -> dict[str, Any]:
    """Return the figures of a run in a process of its own, and what all of it took."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "benchmarks.scale", "--one", name, folder, str(rows), str(workers)]
        done = subprocess.run(
            [sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "rows": rows, "whole": time.perf_counter() - began}


def growth(name: str, most: int) -> str:
    """Print runs of ten times as many rows each, up to a size; return how CPU grows."""
    measured(name, WARM)
    runs, rows = list[dict[str, Any]](), FIRST
    while rows <= most:
        runs.append(measured(name, rows))
        print(line(name, runs[-1]), flush=True)
        rows *= 10
    print(line(f"{name}, two workers", measured(name, rows // 10, 2)), flush=True)
    exponents = ", ".join(f"{log10(b['cpu'] / a['cpu']):.2f}" for a, b in pairwise(runs))
    return f"- {name}: CPU grows as rows to the power {exponents}."


GROWTH = (
    "pipeline", "rows", "wall, s", "CPU, s", "wall / CPU, ms a row", "fit, s (sweeps)",
    "engine's share", "peak, MiB",
)  # fmt: skip
PAIR = (
    "pipeline", "rows", "one core, s", "one process, s", "two workers, s",
    "two workers / one process", "/ one core", "start of the workers, s", "CPU, s: one process",
    "two workers", "peak, MiB: one process", "a worker",
)  # fmt: skip


def line(name: str, one: dict[str, Any]) -> str:
    """Return a line of the table of growth; the driver of workers only waits in a fit."""
    engine = "" if "workers" in name else f"{100 * one['engine']:.0f} %"
    each = [f"{1e3 * one[clock] / one['rows']:.3f}" for clock in ("wall", "cpu")]
    return row([
        name, f"{one['rows']:,}", f"{one['wall']:.1f}", f"{one['cpu']:.1f}", " / ".join(each),
        f"{one['fit']:.1f} ({one['sweeps']})", engine, f"{one['memory']:.0f}",
    ])  # fmt: skip


def workers(pipelines: Sequence[str], rows: dict[str, int]) -> None:
    """Print what two local workers bring, at so many rows."""
    print(head(PAIR), flush=True)
    for name in pipelines:
        if name not in rows:
            continue
        measured(name, WARM)
        core, one, two = (measured(name, rows[name], n) for n in (ONE_CORE, 0, 2))
        took = [run["wall"] for run in (core, one, two)]
        print(row([
            name, f"{one['rows']:,}", *(f"{seconds:.1f}" for seconds in took),
            f"{took[2] / took[1]:.2f}", f"{took[2] / took[0]:.2f}", f"{two['start']:.1f}",
            f"{one['cpu']:.1f}", f"{two['cpu']:.1f}", f"{one['memory']:.0f}",
            f"{two['worker_memory']:.0f}",
        ]), flush=True)  # fmt: skip


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
class Sleeping:
    """A model that adds two vectors of 200 numbers a partition, after a rest."""

    seconds: float

    def observe(self, batch: Rows) -> Sums:
        return Sums(np.zeros(1_250), 0.0)

    def local_step(self, q: Point, batch: Rows, local: Local | None) -> Local:
        time.sleep(self.seconds)
        return Local(batch.x[:200] + q.theta[:200] + (0.0 if local is None else 0.5 * local.z))

    def suff_stats(self, q: Point, batch: Rows, local: Local) -> Sums:
        return Sums(np.resize(local.z, 1_250), float(local.z.sum()))


HOST = """
import asyncio, sys
from distributed import Worker

async def main():
    names = range(int(sys.argv[2]))
    made = [Worker(sys.argv[1], nthreads=1, memory_limit=0, dashboard=False) for _ in names]
    await asyncio.gather(*made)
    print("all are there", flush=True)
    await asyncio.gather(*(one.finished() for one in made))

asyncio.run(main())
"""


def sleeping_job(folder: Path, partitions: int, seconds: float) -> Job:
    """Store partitions of 100 kB and return the job."""
    rng = np.random.default_rng(0)
    urls = [storage.join(str(folder), f"part-{i:03d}.npz") for i in range(partitions)]
    for url in urls:
        storage.write_bytes(url, to_bytes(Rows(rng.standard_normal(12_500))), durable=False)
    store = storage.join(str(folder), "runs")
    return Job(Sleeping(seconds), Rows, tuple(urls), store, run_id="weak")


def sleeping_sweeps(folder: Path, count: int, sweeps: int, partitions: int = 4) -> str:
    """Return a line of the table of weak scaling.

    Driver and scheduler are processes of their own, workers are threads of two others. Each sweep
    has new parameters; every tenth keeps local states, as for a checkpoint.
    """
    sizes, written = list[int](), TCP.write

    async def write(*args: Any, **options: Any) -> int:
        sizes.append(await written(*args, **options))
        return sizes[-1]

    deployment = Deployment(folder / "cluster").start(0)
    shares = [count - count // 2, count // 2]
    hosts = [Process("-c", HOST, deployment.address, str(n)) for n in shares if n]
    kinds = {
        "driver": [psutil.Process().pid], "scheduler": [deployment.scheduler.pid],
        "workers": [host.pid for host in hosts],
    }  # fmt: skip
    try:
        for host in hosts:
            host.await_line("all are there", 300.0)
        with Client(deployment.address, set_as_default=False, timeout=60) as client:
            job = sleeping_job(folder, partitions * count, SLEEP / partitions)
            executor = Cluster(client, "the benchmark's cluster").executor(job)

            def sweep(number: int) -> float:
                q, began = Point(np.full(12_500, 1e-3 * number)), time.perf_counter()
                executor(q, number=number, warm=number - 1 if number else None)
                took = time.perf_counter() - began
                if number % 10 == 9:
                    executor.keep(number)
                return took

            for number in range(3):
                sweep(number)
            before = {kind: cpu(pids) for kind, pids in kinds.items()}
            with patch.object(TCP, "write", write):
                took = [sweep(number) for number in range(3, 3 + sweeps)]
            used = [1e3 * (cpu(pids) - before[kind]) / sweeps for kind, pids in kinds.items()]
            executor.close()
    finally:
        for host in hosts:
            host.end()
        deployment.end()
    beyond = 1e3 * float(np.median(np.array(took) - SLEEP))
    messages, sent = len(sizes) / sweeps, sum(sizes) / sweeps / count / 1e3
    shown = [f"{ms:.1f}" for ms in (*used, (used[0] + used[1]) / count)]
    return row([count, f"{beyond:.1f}", f"{messages:.0f}", f"{sent:.0f}", *shown])


def cpu(pids: list[int]) -> float:
    """Return the CPU seconds that processes have used."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(t.user + t.system for t in times)


def weak(sweeps: int) -> None:
    """Print the table of weak scaling."""
    print(head([
        "workers", "a sweep beyond its sleep, ms", "messages of the driver a sweep", "kB a worker",
        "CPU of a sweep, ms: driver", "scheduler", "workers",
        "driver and scheduler, of that a worker",
    ]))  # fmt: skip
    for count in WORKERS:
        with tempfile.TemporaryDirectory() as name:
            print(sleeping_sweeps(Path(name), count, sweeps), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("growth", "workers", "weak")
    parser.add_argument("--only", nargs="*", default=tables, choices=tables)
    parser.add_argument("--pipelines", nargs="*", default=PIPELINES, choices=PIPELINES)
    parser.add_argument("--rows", nargs="*", default=[], help="NAME=ROWS: (up to) so many")
    parser.add_argument("--sweeps", type=int, default=20, help="of the weak scaling")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, folder, rows, n = given.one
        print(json.dumps(run_once(name, Path(folder), int(rows), int(n))))
        return
    most = {name: int(float(rows)) for name, rows in (r.split("=") for r in given.rows)}
    if "growth" in given.only:
        print(head(GROWTH), flush=True)
        said = [growth(name, most.get(name, LAST)) for name in given.pipelines]
        print("\n" + "\n".join(said), flush=True)
    if "workers" in given.only:
        workers(given.pipelines, PAIRS | most)
    if "weak" in given.only:
        weak(given.sweeps)


if __name__ == "__main__":
    # By its own name, so that workers import the classes above instead of copies of them.
    from benchmarks.scale import main as named_main

    named_main()
