"""The default for bags from end to end on two workers, beside the floor of one pass.

    python -m benchmarks.bags_scale [--bags 10000 100000] [--workers 2]

Bags of 20 instances of two kinds are drawn from vMMIC (`vbflows simulate bags`); the command is run
as a user calls it. The floor is one pass of the fit's features through BLAS: the product of the
instances' columns with themselves, [N, P], and that of the bags' columns, [n, D], on one thread.
Seconds are of the wall, CPU is of all processes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.runs import open_run
from vbmodels.core.state import State, from_bytes

PIECE = 16_384


def run(name: str, source: str, target: str, workers: str) -> tuple[float, float]:
    """Run the command; return its seconds, and the CPU seconds of all its processes."""
    command = [sys.executable, "-m", "flows.entry", name, source, target]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run(
        [*command, "--no-record", "--workers", workers, "--json"], capture_output=True, text=True,
        check=False, env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    seconds = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used


def product(rows: int, columns: int) -> float:
    """Return the CPU seconds of x'x over so many rows, a piece at a time."""
    piece = np.random.default_rng(0).standard_normal((min(rows, PIECE), columns))
    with threadpool_limits(1):
        begun = time.process_time()
        for first in range(0, rows, PIECE):
            some = piece[: min(PIECE, rows - first)]
            some.T @ some
        return time.process_time() - begun


def measured(n_bags: int, workers: int) -> str:
    """Return one row of the page."""
    with tempfile.TemporaryDirectory() as folder:
        [source, *_] = pipeline_named("bags").simulate(str(Path(folder) / "in"), n_bags, 1)
        target = str(Path(folder) / "out")
        seconds, used = run("bags", source, target, str(workers))
        place, record = open_run(target)
        url = storage.join(place.root, "posterior", "q.npz")
        q = from_bytes(storage.read_bytes(url), State, url)
    wide = 0 if q.witness is None else q.witness.features.n_columns
    floor = product(record.rows_read, wide) + product(n_bags, q.embedding.mean.size)
    state = "converged" if record.converged else "NOT converged"
    weights = ", ".join(f"{w:.2f}" for w in q.weights)
    return (
        f"| {n_bags:,} | {record.rows_read:,} | {wide}, {q.embedding.mean.size} | {seconds:.0f} "
        f"| {used:.0f} | {floor:.2f} | {used / floor:.0f} | {record.iterations}, {state} "
        f"| {record.peak_memory_bytes / 2**20:.0f} | {weights} |"
    )


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--bags", type=int, nargs="*", default=[10_000, 100_000])
    asked.add_argument("--workers", type=int, default=2)
    given = asked.parse_args()
    print(
        "| bags | instances | columns of an instance, a bag | s | CPU s | floor, CPU s | ratio "
        "| sweeps | driver's MiB | weights |\n" + "|---" * 10 + "|"
    )
    for n_bags in given.bags:
        print(measured(n_bags, given.workers), flush=True)


if __name__ == "__main__":
    main()
