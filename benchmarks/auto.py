"""Whether `--workers auto` chooses well: beside one process and beside as many workers as cores.

    python -m benchmarks.auto [--families variants bags] [--repeat 1]

The command as a user calls it, `--no-record`, on four sizes of data drawn from each model, in
turns: seconds from its start to its end, the least of the turns, with the CPU of all its processes.
Kernels and bytecode are compiled before. Seconds of a shared machine say little, their ratios are
of one run.
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

SIZES = {"variants": (200, 1000, 4000, 16000), "bags": (60, 300, 1200, 4800)}


def run(name: str, source: str, target: str, workers: str) -> tuple[float, float]:
    """Run the command; return its seconds, and the CPU seconds of all its processes."""
    command = [sys.executable, "-c", "from flows.entry import main; main()", name, source, target]
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


def measured(name: str, rows: int, repeat: int) -> str:
    """Return one row of the page."""
    cores = str(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        [source, *_] = pipeline_named(name).simulate(str(Path(folder) / "in"), rows, 1)
        best: dict[str, tuple[float, float]] = {}
        for turn in range(repeat):
            for workers in ("0", cores, "auto"):
                target = str(Path(folder) / f"out-{workers}-{turn}")
                best[workers] = min(
                    best.get(workers, (1e9, 1e9)), run(name, source, target, workers)
                )
        record = open_run(str(Path(folder) / "out-auto-0"))[1]
    chosen = f"{record.workers} workers" if record.workers else f"{record.threads} threads"
    ratio = best["auto"][0] / min(best["0"][0], best[cores][0])
    cells = [f"{best[w][0]:.1f} ({best[w][1]:.1f})" for w in ("0", cores, "auto")]
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
    given = parser.parse_args()
    print("| pipeline | rows | one process, s (CPU s) | a worker a core | auto | it took | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in given.families:
        for rows in given.sizes or SIZES[name]:
            print(measured(name, rows, given.repeat), flush=True)


if __name__ == "__main__":
    main()
