"""Whether `--workers auto` chooses well: beside one process, its threads, and a worker a core.

    python -m benchmarks.auto [--families variants bags] [--repeat 1] [--set model=vmmic]

The command as a user calls it, on four sizes of data drawn from each model, in
turns: seconds from its start to its end, the least of the turns, with the CPU of all its processes.
Threads are what `auto` takes where a family's forecast says that little of its work holds Python's
lock; here they are forced on all. Kernels and bytecode are compiled before. Seconds of a shared
machine say little, their ratios are of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flows.catalogue import pipeline_named
from flows.data.runs import open_run

SIZES = {
    "variants": (200, 1000, 4000, 16000),
    "bags": (60, 300, 1200, 4800),
    "keywords": (300, 3000, 30_000),
    "features": (300, 3000, 10_000),
    "experts": (300, 3000, 30_000),
}
THREADS = "threads"
FORCED = """
from flows.family import Cost
from flows.run import workers
workers._cost = lambda run: Cost(1.0, 1.0, locked=0.0)
"""
MAIN = "from flows.entry import main; main()"


def run(
    name: str, source: str, target: str, workers: str, settings: list[str]
) -> tuple[float, float]:
    """Run the command; return its seconds, and the CPU seconds of all its processes."""
    text = FORCED + MAIN if workers == THREADS else MAIN
    command = [sys.executable, "-c", text, name, source, target]
    for setting in settings:
        command += ["--set", setting]
    workers = "auto" if workers == THREADS else workers
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run(
        [*command, "--workers", workers, "--json"], capture_output=True, text=True,
        check=False, env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
    )  # fmt: skip
    seconds = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used


def measured(name: str, rows: int, repeat: int, settings: list[str]) -> str:
    """Return one row of the page."""
    cores = str(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        [source, *_] = pipeline_named(name).simulate(str(Path(folder) / "in"), rows, 1)
        best: dict[str, tuple[float, float]] = {}
        ways = ("0", THREADS, cores, "auto")
        for turn in range(repeat):
            for workers in ways:
                target = str(Path(folder) / f"out-{workers}-{turn}")
                best[workers] = min(
                    best.get(workers, (1e9, 1e9)), run(name, source, target, workers, settings)
                )
        record = open_run(str(Path(folder) / "out-auto-0"))[1]
    chosen = f"{record.workers} workers" if record.workers else f"{record.threads} threads"
    ratio = best["auto"][0] / min(best[way][0] for way in ways[:-1])
    cells = [f"{best[way][0]:.1f} ({best[way][1]:.1f})" for way in ways]
    return (
        f"| {name} | {record.rows_read:,} | {' | '.join(cells)} "
        f"| {chosen.replace('1 threads', 'this process')} | {ratio:.2f} |"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--sizes", type=json.loads, help="of one family, as a JSON list")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    print(
        "| pipeline | rows | one process, s (CPU s) | a thread a core | a worker a core | auto "
        "| it took | beside the best |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in given.families:
        for rows in given.sizes or SIZES[name]:
            print(measured(name, rows, given.repeat, given.settings), flush=True)


if __name__ == "__main__":
    main()
