"""What a row costs in every stage of every pipeline, next to the passes that cannot be avoided.

    python -m benchmarks.scale [--families keywords bags ...] [--factor 4] [--page FILE]

Each pipeline draws data from its own model and runs with its default settings in this process, at
two sizes: microseconds of CPU a row and stage, and bytes read and written for each byte of input.
Kernels are compiled by a small run before.
The floors: reading the input once with Parquet's reader, and one sweep of the fit.

Workers: a model with next to no arithmetic that sleeps for a while a partition, on 1 to 32 workers
with as many partitions each (weak scaling): what a sweep takes beyond its sleep, and the CPU of the
driver, of the scheduler, and of the two processes that have all workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
from distributed import Client

from benchmarks.engine import Light, Local, Point, Rows, Series, stored
from flows.catalogue import pipeline_named
from flows.events import Event, Stage, Sweep, listening
from flows.fit.cluster import Cluster
from flows.run import run as launch
from flows.settings import ComputeSettings
from tests.faults.processes import Deployment, Process

ROWS = {"keywords": 500, "bags": 200, "variants": 2000, "features": 500, "experts": 2000}
WARM = {"keywords": 40, "bags": 40, "variants": 100, "features": 80, "experts": 200}
GIVEN: dict[str, dict[str, Any]] = {"variants": {"case": "case", "control": "control"}}
STAGES = ("check", "ingest", "partition", "fit", "score", "publish")
WORKERS = (1, 2, 8, 32, 128)
SLEEP = 0.2  # seconds a sweep and worker


@dataclass
class Clock:
    """CPU seconds and bytes of every stage."""

    cpu: dict[str, float] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    sweeps: int = 0

    def __post_init__(self) -> None:
        self._stage, self._at = "", _now()

    def on_event(self, event: Event) -> None:
        """Close the account of a stage where the next one begins."""
        if isinstance(event, Sweep):
            self.sweeps = event.iteration + 1
        if isinstance(event, Stage):
            self.end()
            self._stage = event.name

    def end(self) -> None:
        """Add what was used since the last look to the present stage."""
        now = _now()
        if self._stage:
            for total, a, b in zip((self.cpu, self.read, self.written), self._at, now, strict=True):
                total[self._stage] = total.get(self._stage, 0) + b - a
        self._at = now


def _now() -> tuple[float, int, int]:
    counters = dict(
        line.split(": ") for line in Path("/proc/self/io").read_text().strip().splitlines()
    )
    return time.process_time(), int(counters["rchar"]), int(counters["wchar"])


def run_once(name: str, folder: Path, rows: int) -> dict[str, Any]:
    """Draw data, run the pipeline, and return its figures."""
    family = pipeline_named(name)
    [source, *_] = family.simulate(str(folder / "in"), rows, 1)
    size = Path(source).stat().st_size
    began = time.process_time()
    cells = pq.read_table(source).nbytes
    floor = time.process_time() - began
    clock = Clock()
    settings = family.settings(**GIVEN.get(name, {}))
    with listening(clock):
        outcome = launch(name, source, str(folder / "out"), settings, ComputeSettings())
    clock.end()
    return {
        "rows": outcome["rows_read"],
        "input_bytes": size,
        "decoded_bytes": cells,
        "read_cpu": floor,
        "sweeps": clock.sweeps,
        "cpu": clock.cpu,
        "read": {stage: n / size for stage, n in clock.read.items()},
        "written": {stage: n / size for stage, n in clock.written.items()},
    }


def costs(name: str, factor: int) -> dict[str, Any]:
    """Return what a pipeline costs at two sizes."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        run_once(name, Path(folder) / "warm", WARM[name])
        for label, rows in (("small", ROWS[name]), ("large", factor * ROWS[name])):
            found[label] = run_once(name, Path(folder) / label, rows)
    return found


@dataclass(frozen=True)
class Sleeping(Light):
    """The light model of the engine's benchmark, with a rest."""

    seconds: float = 0.0

    def local_step(self, q: Point, batch: Rows, local: Local | None) -> Local:
        """Sleep, then do next to nothing."""
        time.sleep(self.seconds)
        return super().local_step(q, batch, local)


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


def weak(workers: int, sweeps: int, partitions: int = 4) -> dict[str, Any]:
    """Return the milliseconds of a sweep beyond its sleep, and the CPU of each kind of process.

    Driver and scheduler are processes of their own, workers are threads of two others.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        deployment = Deployment(folder / "cluster").start(0)
        shares = [workers - workers // 2, workers // 2]
        hosts = [Process("-c", HOST, deployment.address, str(n)) for n in shares if n]
        try:
            for host in hosts:
                host.await_line("all are there", 300.0)
            with Client(deployment.address, set_as_default=False, timeout=60) as client:
                cluster = Cluster(client, "the benchmark's cluster")
                model = Sleeping(seconds=SLEEP / partitions)
                job = stored(folder, "weak", partitions * workers, model)
                executor = cluster.executor(job)
                kinds = {
                    "driver": [psutil.Process().pid], "scheduler": [deployment.scheduler.pid],
                    "workers": [host.pid for host in hosts],
                }  # fmt: skip
                series = Series(executor, kinds)
                series.run(3, record=False)
                series.run(sweeps)
                executor.close()
        finally:
            for host in hosts:
                host.end()
            deployment.end()
    wall = 1e3 * (np.array(series.wall) - SLEEP)
    cpu_ms = {kind: round(1e3 * used / sweeps, 1) for kind, used in series.used.items()}
    return {"over_ms": round(float(np.median(wall)), 1), "cpu_ms": cpu_ms}


def tables(found: dict[str, Any], scaling: dict[int, dict[str, float]]) -> str:
    """Return the figures as tables of a page."""
    lines = [
        "| pipeline | rows | " + " | ".join(STAGES) + " | whole | sweeps | one sweep | read once |",
        "|---|---|" + "---|" * (len(STAGES) + 4),
    ]
    for name, sizes in found.items():
        for one in sizes.values():
            per_row = {stage: 1e6 * one["cpu"].get(stage, 0.0) / one["rows"] for stage in STAGES}
            sweep = per_row["fit"] / max(one["sweeps"], 1)
            whole = sum(per_row.values())
            cells = [*per_row.values(), whole]
            lines.append(
                f"| {name} | {one['rows']:,} | "
                + " | ".join(f"{cell:,.0f}" for cell in cells)
                + f" | {one['sweeps']} | {sweep:,.1f} "
                + f"| {1e6 * one['read_cpu'] / one['rows']:,.1f} |"
            )
    lines += [
        "",
        "| pipeline | rows | input, bytes a row | " + " | ".join(STAGES) + " |",
        "|---|---|---|" + "---|" * len(STAGES),
    ]
    for name, sizes in found.items():
        for one in sizes.values():
            pairs = [
                f"{one['read'].get(s, 0):.2f} / {one['written'].get(s, 0):.2f}" for s in STAGES
            ]
            row = one["input_bytes"] / one["rows"]
            lines.append(f"| {name} | {one['rows']:,} | {row:,.0f} | " + " | ".join(pairs) + " |")
    if scaling:
        lines += [
            "",
            "| workers | a sweep beyond its sleep, ms | CPU of a sweep, ms: driver | scheduler "
            "| workers | driver and scheduler, of that a worker |",
            "|---|---|---|---|---|---|",
        ]
        for n, one in scaling.items():
            used = one["cpu_ms"]
            both = (used["driver"] + used["scheduler"]) / n
            cells = " | ".join(str(ms) for ms in used.values())
            lines.append(f"| {n} | {one['over_ms']} | {cells} | {both:.1f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--sweeps", type=int, default=20, help="of the weak scaling; 0 for none")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    found = {name: costs(name, given.factor) for name in given.families}
    scaling = {n: weak(n, given.sweeps) for n in WORKERS} if given.sweeps else {}
    print(json.dumps({"costs": found, "weak": scaling}) if given.json else tables(found, scaling))


if __name__ == "__main__":
    # By its own name, so that workers import the classes above instead of copies of them.
    from benchmarks.scale import main as named_main

    named_main()
