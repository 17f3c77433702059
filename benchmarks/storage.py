"""How fast Parquet comes in from an object store, beside a bare scan of the same objects.

One gigabyte of bags in 64 objects on a local S3 server (`rclone serve s3`: real requests,
real signatures). In one run, in turns: a scan by ``pyarrow.dataset`` in this process, which
drops what it has read; the same objects read partition by partition on one and on two
workers, as ingest reads them (`flows.data.partition.read`: slices, one schema, and a second look
at every object's ETag); and the whole ingest of the bags family, which also groups instances
by bag and writes arrays.

    python -m benchmarks.storage [--objects 64] [--megabytes 16] [--turns 3] [--ingest] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from flows.bags.family import FAMILY
from flows.bags.schema import INSTANCES_IN
from flows.bags.settings import BagSettings
from flows.data import partition, storage
from flows.data.partition import Part
from flows.data.runs import RunPaths
from flows.data.storage.access import arrow
from flows.engine.compute import Compute, computing, each_of
from flows.settings import ComputeSettings
from tests.faults import stores

FEATURES = 128
PER_BAG = 16


def write_objects(folder: Path, objects: int, megabytes: int) -> int:
    """Write bags of random features, which no compression makes smaller; return their bytes."""
    rows = megabytes * 2**20 // (8 * FEATURES) // PER_BAG * PER_BAG
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for i in range(objects):
        bag = np.repeat(np.arange(rows // PER_BAG), PER_BAG)
        values = pa.array(rng.standard_normal(rows * FEATURES))
        offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * FEATURES)
        table = pa.table(
            {
                "bag_id": pa.array([f"bag-{i}-{b}" for b in bag]),
                "instance_id": pa.array([f"instance-{r}" for r in range(rows)]),
                "label": pa.array((bag % 2).astype(np.int8)),
                "features": pa.ListArray.from_arrays(offsets, values),
            }
        )
        pq.write_table(table, folder / f"part-{i:03d}.parquet", compression="zstd")
    return sum(path.stat().st_size for path in folder.iterdir())


def scan(url: str) -> int:
    """Read every column of every object and drop it; return the rows."""
    filesystem, path = arrow(url)
    found = ds.dataset(path, filesystem=filesystem, format="parquet")
    return sum(batch.num_rows for batch in found.to_batches())


def read_part(part: Part) -> int:
    """Read a partition as ingest does; return its rows."""
    table = partition.read(part, INSTANCES_IN)
    for s in part.slices:
        storage.refuse_changed(s.url, s.fingerprint)
    return int(table.num_rows)


def ingest_part(part: Part, paths: RunPaths) -> int:
    """Do the whole ingest of the bags family; return the rows."""
    return FAMILY.ingest(part, BagSettings(), paths).rows_kept


@contextmanager
def workers(count: int) -> Iterator[Compute]:
    """Start workers that have loaded what they need."""
    with computing(ComputeSettings(workers=count)) as found:
        each_of(found)(time.sleep, [0.5] * count)
        yield found


def timed(call: Callable[[], int], rows: int) -> float:
    """Return the seconds of a call that must read all rows."""
    began = time.perf_counter()
    found = call()
    if found != rows:
        raise RuntimeError(f"expected {rows} rows, found {found}")
    return time.perf_counter() - began


def measure(url: str, size: int, target: str, turns: int, whole: bool) -> dict[str, object]:
    """Time all forms in turns; return MB/s and shares of the bare scan."""
    files = storage.expand(url, [".parquet"])
    rows = [storage.row_count(file.url) for file in files]
    parts = partition.cut(files, rows, max(rows), len(files))
    times: dict[str, list[float]] = {}
    with workers(1) as one, workers(2) as two:
        forms: dict[str, Callable[[], int]] = {"scan": lambda: scan(url)}
        for count, found in ((1, one), (2, two)):
            each = each_of(found)
            forms[f"read, {count} workers"] = lambda each=each: sum(each(read_part, parts))
            if whole:
                paths = RunPaths(target, f"with-{count}")
                forms[f"ingest, {count} workers"] = lambda each=each, paths=paths: sum(
                    each(ingest_part, parts, paths)
                )
        for _ in range(turns):
            for name, call in forms.items():
                times.setdefault(name, []).append(timed(call, sum(rows)))
                storage.delete(target)
    median = {name: statistics.median(found) for name, found in times.items()}
    return {
        "megabytes": round(size / 1e6, 1),
        "objects": len(files),
        "seconds": {name: [round(t, 2) for t in found] for name, found in times.items()},
        "megabytes a second": {name: round(size / 1e6 / t, 1) for name, t in median.items()},
        "share of the scan": {name: round(median["scan"] / t, 3) for name, t in median.items()},
    }


def main() -> None:
    """Make the objects, measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=16, help="of one object")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--ingest", action="store_true", help="also the whole ingest of bags")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_objects(folder / "s3" / "in" / "bags", given.objects, given.megabytes)
        # Its listing would otherwise read every object for an MD5.
        server = stores.Rclone(folder / "s3", "--etag-hash", "")
        os.environ.update(stores.environment(server.url))
        try:
            found = measure("s3://in/bags", size, str(folder / "out"), given.turns, given.ingest)
        finally:
            server.kill()
    print(json.dumps(found, indent=None if given.json else 2))


if __name__ == "__main__":
    # By its own name, so that workers import the functions above instead of copies of them.
    from benchmarks.storage import main as named_main

    named_main()
