"""What it costs to check an input and to ingest it, beside another checkout that does it otherwise.

    python -m benchmarks.once [--beside CHECKOUT] [--workers 0 2] [--turns 3] [--families bags ...]

Every pipeline draws data from its own model, in a file of 16 row groups, and runs with its default
settings until its input is checked and ingested: here and in the other checkout, in turns, each in
a process of its own. The least of the turns is told: CPU of the driver and of the workers,
seconds, and bytes of the input that were read for each of its bytes (in the driver and on workers;
page cache or not). The start of workers is left out; kernels and libraries are loaded before by
a small run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from flows.catalogue import pipeline_named
from flows.run.events import Begun, Event, Listener, Stage
from flows.run.launch import launch
from flows.settings import ComputeSettings

ROWS = {"keywords": 8000, "bags": 4000, "variants": 60_000, "features": 20_000, "experts": 60_000}
SMALL = 60
GIVEN: dict[str, dict[str, Any]] = {
    "keywords": {"unit": "word"},
    "variants": {"case": "case", "control": "control"},
}
GROUPS = 16


class Enough(Exception):
    """The input was read."""


class Account(Listener):
    """CPU, seconds and bytes read from a run's beginning until its input is ingested."""

    def __init__(self, file: str) -> None:
        self._size, self._began = os.path.getsize(file), _now()
        self.total = [0.0] * len(self._began)

    def hear(self, event: Event) -> None:
        """Open the account where a stage begins, close it where workers are started."""
        if event == Stage("partition") or isinstance(event, Begun):
            self.total = [
                t + b - a for t, a, b in zip(self.total, self._began, _now(), strict=True)
            ]
        elif isinstance(event, Stage):
            self._began = _now()
        if event == Stage("partition"):
            raise Enough

    def figures(self) -> dict[str, float]:
        """Return them by name."""
        driver, workers, seconds, read = self.total
        return {"driver": driver, "workers": workers, "seconds": seconds, "read": read / self._size}


def _now() -> list[float]:
    """Return CPU seconds of this process and of those below it, the time, and bytes read."""
    own = psutil.Process()
    below = own.children(recursive=True)
    cpu = [sum(one.cpu_times()[:2]) for one in (own, *below)]
    read = sum(_read_by(one.pid) for one in (own, *below))
    return [cpu[0], sum(cpu[1:]), time.perf_counter(), read]


def _read_by(process: int) -> int:
    lines = Path(f"/proc/{process}/io").read_text(encoding="utf-8").splitlines()
    return int(lines[0].partition(": ")[2])


def measured(name: str, url: str, small: str, workers: int) -> dict[str, float]:
    """Return the figures of one run, after one on a small file."""
    settings = pipeline_named(name).settings(**GIVEN.get(name, {}))
    compute = ComputeSettings(workers=workers or None)
    for source in (small, url):
        account = Account(source)
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Enough):
            launch(
                name, source, f"{folder}/out", settings, compute,
                listener=account,
            )  # fmt: skip
    return account.figures()


def drawn(name: str, folder: Path, rows: int) -> str:
    """Draw a file of several row groups."""
    url = pipeline_named(name).simulate(str(folder), rows, 1)[0]
    table = pq.read_table(url)
    pq.write_table(table, url, row_group_size=-(-len(table) // GROUPS))
    return url


def in_turns(
    name: str, checkouts: Sequence[str], workers: int, turns: int
) -> list[dict[str, float]]:
    """Return the least figures of each checkout."""
    found: list[list[dict[str, float]]] = [[] for _ in checkouts]
    with tempfile.TemporaryDirectory() as folder:
        url = drawn(name, Path(folder) / "in", ROWS[name])
        small = drawn(name, Path(folder) / "small", SMALL)
        for _ in range(turns):
            for own, checkout in zip(found, checkouts, strict=True):
                command = [sys.executable, __file__, "--one", name, url, small, str(workers)]
                done = subprocess.run(
                    command, env={**os.environ, "PYTHONPATH": checkout}, check=True,
                    capture_output=True, text=True, cwd=checkout,
                )  # fmt: skip
                own.append(json.loads(done.stdout.splitlines()[-1]))
    return [{key: min(one[key] for one in own) for key in own[0]} for own in found]


def main() -> None:
    """Print one line a pipeline, checkout and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beside", default=None)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--families", nargs="+", default=list(ROWS))
    parser.add_argument("--one", nargs=4, default=None)
    given = parser.parse_args()
    if given.one is not None:
        name, url, small, workers = given.one
        print(json.dumps(measured(name, url, small, int(workers))))
        return
    here = str(Path(__file__).resolve().parents[1])
    checkouts = [here] if given.beside is None else [given.beside, here]
    names = ["here"] if given.beside is None else ["beside", "here"]
    print("| pipeline | workers | | CPU s, driver | CPU s, workers | s | bytes read |")
    print("|---|---|---|---|---|---|---|")
    for name in given.families:
        for workers in given.workers:
            rows = in_turns(name, checkouts, workers, given.turns)
            for label, row in zip(names, rows, strict=True):
                print(
                    f"| {name} | {workers} | {label} | {row['driver']:.2f} | {row['workers']:.2f} "
                    f"| {row['seconds']:.2f} | {row['read']:.2f} |", flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
