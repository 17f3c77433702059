"""The variants pipeline from Parquet on two workers that have little memory.

    python -m benchmarks.rvd2_large [--locations 10000000] [--memory "2 GiB"] [--rows 25000]
        [--test two_groups] [--counts FILE]

Writes counts of the papers' simulation (3 + 3 replicates at 1000 reads, one row a location
and replicate, one variant of 1 % in a thousand locations), runs the pipeline with default
settings and prints what it took: wall time by stage, CPU time, and the largest resident
memory of the driver and of each worker, looked at four times a second.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from flows.run.events import Event, Events, Listener, Stage, Sweep
from flows.run.pipeline import run_pipeline
from flows.settings import ComputeSettings
from flows.variants.counts import to_table
from flows.variants.family import FAMILY
from flows.variants.settings import VariantSettings
from vbmodels.variants.simulate import simulate

CHUNK = 50_000


class Stages(Listener):
    """Notes when each stage begins, and says so at once: a run may be stopped."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []

    def hear(self, event: Event) -> None:
        """Note a stage, and the first sweeps as one each."""
        match event:
            case Stage(name):
                self._note(name)
            case Sweep(0 | 1 as iteration):
                self._note(f"sweep {iteration}")

    def _note(self, name: str) -> None:
        self.begun.append((name, time.monotonic()))
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name}\n")

    def seconds(self, end: float) -> str:
        """Return the seconds of every stage."""
        ends = [at for _, at in self.begun[1:]] + [end]
        return ", ".join(f"{name} {b - a:.0f}" for (name, a), b in zip(self.begun, ends,
                                                                      strict=True))  # fmt: skip


class Watch(threading.Thread):
    """Looks at the resident memory of this process and of all below it until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[int, int] = defaultdict(int)
        self.cpu: dict[int, float] = {}
        self.done = threading.Event()

    def run(self) -> None:
        own = psutil.Process()
        while not self.done.wait(0.25):
            for process in [own, *own.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                    self.cpu[process.pid] = times.user + times.system
                    rss = process.memory_info().rss
                except psutil.Error:
                    continue
                self.peak[process.pid] = max(self.peak[process.pid], rss)


def write_counts(path: str, locations: int) -> None:
    """Write the counts in pieces."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, locations, CHUNK):
        size = min(CHUNK, locations - start)
        # One spectrum of errors for all pieces: types drawn anew would not be one data set.
        counts, _ = simulate(
            rng, n_locations=size, n_variants=max(size // 1000, 1), depth=1000, type_spread=0.0
        )
        names = [("case" if c else "control", str(i % 3 + 1)) for i, c in enumerate(counts.case)]
        rows = to_table(counts.counts, counts.ref, "simulated", start, names)
        writer = writer or pq.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    if writer is not None:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locations", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2 GiB")
    parser.add_argument("--rows", type=int, default=25_000, help="locations in a partition")
    parser.add_argument("--test", default="two_groups")
    parser.add_argument("--counts", help="where counts are kept for another run")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = chosen.counts or os.path.join(folder, "counts.parquet")
        if not os.path.exists(source):
            write_counts(source, chosen.locations)
        size = os.path.getsize(source)
        pa.default_memory_pool().release_unused()
        seen, stages = Watch(), Stages()
        seen.start()
        begun = time.monotonic()
        outcome = run_pipeline(
            FAMILY, Events(stages), source, os.path.join(folder, "out"),
            VariantSettings.model_validate(
                {"rows_per_partition": chosen.rows, "test": chosen.test}
            ),
            ComputeSettings(workers=2, memory_limit=chosen.memory), None,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        seen.done.set()
        seen.join()
    cpu = sum(seen.cpu.values())
    others = sorted((v for pid, v in seen.peak.items() if pid != os.getpid()), reverse=True)
    sys.stdout.write(
        f"{chosen.locations:,} locations x 6 replicates ({size / 2**20:.0f} MiB of Parquet), two "
        f"workers of {chosen.memory}, {chosen.test}: {seconds:.0f} s of wall time "
        f"({stages.seconds(begun + seconds)}), {cpu:.0f} s of CPU time in all processes; "
        f"{outcome['iterations']} passes; largest resident memory: driver "
        f"{seen.peak[os.getpid()] / 2**20:.0f} MiB, workers "
        f"{', '.join(f'{v / 2**20:.0f}' for v in others[:2])} MiB. {outcome['results']}\n"
    )


if __name__ == "__main__":
    main()
