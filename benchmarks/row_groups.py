"""What it costs to read partitions of one row group: shared between them, and each by itself.

    python -m benchmarks.row_groups [--rows 100000] [--parts 100]

Base counts of ROWS locations are written as one row group and read back in PARTS partitions,
CPU and bytes (of this process, without the page cache's help in counting) in both ways, beside
one pass over the file.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.data import storage


def counts(rows: int) -> pa.Table:
    """Draw base counts of 6 replicates at ``rows`` locations."""
    rng = np.random.default_rng(0)
    columns = {f"{base}{j}": rng.poisson(900, rows) for base in "ACGT" for j in range(6)}
    return pa.table({"location": [f"chr1:{i}" for i in range(rows)], **columns})


def measured(read: Callable[[], object]) -> tuple[float, int]:
    """Return the CPU seconds and the bytes that a function takes and reads."""
    before, started = _bytes_read(), time.process_time()
    read()
    return time.process_time() - started, _bytes_read() - before


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def main() -> None:
    """Print one line a way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "counts.parquet")
        pq.write_table(counts(given.rows), url, row_group_size=given.rows)
        size = Path(url).stat().st_size
        edges = [given.rows * i // given.parts for i in range(given.parts + 1)]

        def parts() -> None:
            for start, stop in itertools.pairwise(edges):
                storage.read_rows(url, start, stop)

        def shared() -> None:
            with storage.sharing({url: "v1"}):
                parts()
            storage.decoded.release()

        pq.read_table(url)
        ways = {
            "one pass": lambda: storage.read_table(url),
            "shared": shared,
            "each by itself": parts,
        }
        print("| way | CPU s | input read, times |\n|---|---|---|")
        for name, way in ways.items():
            seconds, read = measured(way)
            print(f"| {name} | {seconds:.2f} | {read / size:.1f} |")


if __name__ == "__main__":
    main()
