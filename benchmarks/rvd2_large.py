"""The variants pipeline from Parquet on two workers that have little memory.

    python benchmarks/rvd2_large.py [--locations 10000000] [--memory "2 GiB"] [--rows 25000]

Writes counts of the papers' simulation (3 + 3 replicates, one row a location and replicate),
runs the pipeline with default settings and prints what it took: wall and CPU time, and the
largest resident memory of the driver and of each worker, looked at ten times a second.
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

from flows.families.variants import FAMILY
from flows.ingest.variant_counts import to_table
from flows.pipelines.run import run_pipeline
from flows.pipelines.stages import Plain
from flows.settings import ComputeSettings, VariantSettings
from vbmodels.variants.simulate import simulate

CHUNK = 50_000


class Watch(threading.Thread):
    """Looks at the resident memory of this process and of all below it until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak: dict[int, int] = defaultdict(int)
        self.cpu: dict[int, float] = {}
        self.done = threading.Event()

    def run(self) -> None:
        own = psutil.Process()
        while not self.done.wait(0.1):
            for process in [own, *own.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                    self.cpu[process.pid] = times.user + times.system
                    rss = process.memory_info().rss
                except psutil.Error:
                    continue
                self.peak[process.pid] = max(self.peak[process.pid], rss)


def write_counts(path: str, locations: int) -> int:
    """Write the counts in pieces; return the bytes of the file."""
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, locations, CHUNK):
        size = min(CHUNK, locations - start)
        counts, _ = simulate(rng, n_locations=size, n_variants=max(size // 1000, 1), depth=1000)
        names = [("case" if c else "control", str(i % 3 + 1)) for i, c in enumerate(counts.case)]
        rows = to_table(counts.counts, counts.ref, "simulated", start, names)
        writer = writer or pq.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    if writer is not None:
        writer.close()
    return os.path.getsize(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--locations", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2 GiB")
    parser.add_argument("--rows", type=int, default=25_000, help="locations in a partition")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "counts.parquet")
        size = write_counts(source, chosen.locations)
        pa.default_memory_pool().release_unused()
        watch = Watch()
        watch.start()
        begun = time.monotonic()
        outcome = run_pipeline(
            FAMILY, Plain(), source, os.path.join(folder, "out"),
            VariantSettings(rows_per_partition=chosen.rows),
            ComputeSettings(workers=2, memory_limit=chosen.memory), None,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        watch.done.set()
        watch.join()
    cpu = sum(watch.cpu.values())
    others = sorted((v for pid, v in watch.peak.items() if pid != os.getpid()), reverse=True)
    sys.stdout.write(
        f"{chosen.locations:,} locations x 6 replicates ({size / 2**20:.0f} MiB of Parquet), two "
        f"workers of {chosen.memory}: {seconds:.0f} s of wall time, {cpu:.0f} s of CPU time in all "
        f"processes; {outcome['iterations']} passes; largest resident memory: driver "
        f" {watch.peak[os.getpid()] / 2**20:.0f} MiB, workers "
        f"{', '.join(f'{v / 2**20:.0f}' for v in others[:2])} MiB. {outcome['results']}\n"
    )


if __name__ == "__main__":
    main()
