"""A large table from end to end on two workers: CPU a row, and the most memory.

    python -m benchmarks.million features|experts [--rows 1000000] [--columns 50] [--workers 2]

Features: 40 columns of two categories, six of three and four of five (of 50; in these shares
otherwise), eight features, 2 % of the cells missing. Experts: numbers, three experts, a tenth of
the rows without a label. Both are drawn from the model and written as Parquet; then the command
runs in a process of its own with default settings, whose processes are looked at every half
second: CPU seconds and resident memory of the driver and of the workers. The floor is Parquet's
reader over the whole table, once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from vbmodels.experts.simulate import simulate
from vbmodels.features.simulate import simulate_table

LOOK = 0.5  # seconds
BLOCK = 100_000
FEATURES = 8
SCALE = 0.5  # of gates' and experts' weights


def features_blocks(rows: int, columns: int) -> Iterator[pa.Table]:
    """Yield a table of categories with known features, block by block."""
    levels = np.full(columns, 2)
    levels[int(0.8 * columns) :] = 3
    levels[int(0.92 * columns) :] = 5
    prevalence = np.random.default_rng(1).uniform(0.1, 0.4, FEATURES)
    codes, _, _ = simulate_table(np.random.default_rng(2), rows, levels, prevalence, missing=0.02)
    for first in range(0, rows, BLOCK):
        block = codes[first : first + BLOCK].astype(np.int8)
        ids = pa.array([f"row-{first + i:07d}" for i in range(len(block))])
        words = pa.array([f"answer {r}" for r in range(5)])
        cells = {
            f"question_{d + 1:02d}": words.take(pa.array(column, mask=column < 0))
            for d, column in enumerate(block.T)
        }
        yield pa.table({"id": ids, **cells})


def experts_blocks(rows: int, columns: int) -> Iterator[pa.Table]:
    """Yield rows of numbers with labels of three experts, block by block."""
    rng = np.random.default_rng(1)
    x, t, _ = simulate(rng, rows, columns, 3, SCALE, SCALE)
    for first in range(0, rows, BLOCK):
        block = slice(first, first + BLOCK)
        ids = pa.array([f"row-{first + i:07d}" for i in range(len(t[block]))])
        label = pa.array((t[block] > 0).astype(np.int8), mask=rng.random(len(ids)) < 0.1)
        cells = {f"x{d + 1}": pa.array(column) for d, column in enumerate(x[block].T)}
        yield pa.table({"id": ids, **cells, "label": label})


def written(family: str, path: Path, rows: int, columns: int) -> None:
    """Write the table."""
    blocks = {"features": features_blocks, "experts": experts_blocks}[family](rows, columns)
    first = next(blocks)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for block in blocks:
            writer.write_table(block)


class Watch(threading.Thread):
    """CPU seconds and the most resident memory of a process and of those that it starts."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root = psutil.Process(pid)
        self.cpu: dict[int, float] = {}
        self.most: dict[int, int] = {}
        self.together = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Look until told to end."""
        while not self.ended.wait(LOOK):
            self.look()

    def look(self) -> None:
        """Look once; what has ended keeps what was seen last."""
        now = 0
        try:
            processes = [self.root, *self.root.children(recursive=True)]
        except psutil.Error:
            return
        for one in processes:
            try:
                times, size = one.cpu_times(), one.memory_info().rss
            except psutil.Error:
                continue
            self.cpu[one.pid] = times.user + times.system
            self.most[one.pid] = max(self.most.get(one.pid, 0), size)
            now += size
        self.together = max(self.together, now)

    def total(self) -> float:
        """Return the CPU seconds of all."""
        return sum(self.cpu.values())


def measured(family: str, table: Path, target: Path, workers: int, more: list[str]) -> dict:
    """Run the command and return its figures, by stage."""
    command = [sys.executable, "-c", "from flows.entry import main; main()"]
    command += [family, str(table), str(target), "--workers", str(workers), *more]
    # Installed by pip, libraries are compiled already: no process does it anew.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    stages: list[tuple[str, float, float]] = []
    with subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, env=env
    ) as p:
        watch = Watch(p.pid)
        watch.start()
        assert p.stdout is not None
        for line in p.stdout:
            told = line.strip()
            if told in ("check", "ingest", "partition", "fit", "score", "publish"):
                watch.look()
                stages.append((told, time.perf_counter() - begun, watch.total()))
            print(f"{time.perf_counter() - begun:8.0f} s {watch.total():8.0f} CPU s  {told}",
                  flush=True)  # fmt: skip
    watch.ended.set()
    watch.join()
    ends = [*stages[1:], ("end", time.perf_counter() - begun, watch.total())]
    return {
        "exit": p.returncode,
        "wall": time.perf_counter() - begun,
        "cpu": watch.total(),
        "stages": {a[0]: b[2] - a[2] for a, b in zip(stages, ends, strict=True)},
        "driver": watch.most.get(p.pid, 0),
        "others": sorted((n for pid, n in watch.most.items() if pid != p.pid), reverse=True)[:2],
        "together": watch.together,
    }


def floor(table: Path) -> float:
    """Return the CPU seconds of Parquet's reader over the table, a row group at a time."""
    began = time.process_time()
    file = pq.ParquetFile(table)
    for group in range(file.num_row_groups):
        file.read_row_group(group)
    return time.process_time() - began


def main() -> None:
    """Draw, run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=["features", "experts"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="a setting of the run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        written(given.family, table, given.rows, given.columns)
        read = floor(table)
        more = [word for one in given.set for word in ("--set", one)]
        found: dict[str, Any] = measured(
            given.family, table, Path(folder) / "out", given.workers, more
        )
        found["record"] = record_of(Path(folder) / "out")
    micro = 1e6 / given.rows
    sweeps = max(int(found["record"].get("iterations", 0)), 1)
    stages = " | ".join(f"{name} {micro * cpu:,.0f}" for name, cpu in found["stages"].items())
    print(f"{given.family}, {given.rows:,} x {given.columns}: exit {found['exit']}, "
          f"{found['wall']:,.0f} s, {found['cpu']:,.0f} CPU s", flush=True)  # fmt: skip
    print(f"CPU, microseconds a row: {stages} | whole {micro * found['cpu']:,.0f} | "
          f"sweeps {sweeps} | one sweep {micro * found['stages'].get('fit', 0) / sweeps:,.2f} | "
          f"read once {micro * read:,.2f}")  # fmt: skip
    print(f"most memory, MB: driver {found['driver'] / 1e6:,.0f}, the largest two others "
          f"{[round(n / 1e6) for n in found['others']]}, all together "
          f"{found['together'] / 1e6:,.0f}")  # fmt: skip
    print(json.dumps({k: v for k, v in found["record"].items() if k in SHOWN}, default=str))


SHOWN = ("iterations", "converged", "elbo", "seconds", "peak_memory_bytes", "partitions")


def record_of(target: Path) -> dict[str, Any]:
    """Return run.json of the one run below a target; nothing where there is none."""
    files = list(target.glob("runs/*/run.json"))
    return json.loads(files[0].read_text()) if files else {}


if __name__ == "__main__":
    main()
