"""Many small objects, each request 50 ms away: ``python -m benchmarks.objects [--objects 2000]``.

An S3 server of this machine behind a proxy that delays each request. Prints the requests for the
input by stage and the seconds of each stage: in one process, with two local workers, and on a
cluster of two workers with two threads each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from flows import stages
from flows.keywords.settings import KeywordSettings
from flows.pipelines import HERE
from flows.run import run
from flows.settings import ComputeSettings
from tests.faults import pipelines, stores
from tests.faults.proxy import Proxy

DELAY = 0.05  # seconds of a request


def write_objects(folder: Path, table: pa.Table, objects: int, kind: str) -> None:
    """Write a table as so many objects of a bucket's folder."""
    folder.mkdir(parents=True)
    rows = -(-table.num_rows // objects)
    for k in range(objects):
        part = table.slice(k * rows, rows)
        if kind == "parquet":
            pq.write_table(part, folder / f"part-{k:05d}.parquet")
        else:
            texts = {"doc_id": part["doc_id"], "text": pc.binary_join(part["tokens"], " ")}
            pa.csv.write_csv(pa.table(texts), folder / f"part-{k:05d}.csv")


@contextmanager
def computing(where: str) -> Iterator[ComputeSettings]:
    """Return where the run computes: ``process``, ``workers`` or ``cluster``."""
    if where == "process":
        yield HERE
    elif where == "workers":
        yield ComputeSettings(workers=2)
    else:
        two = {"n_workers": 2, "threads_per_worker": 2}
        with LocalCluster(**two, dashboard_address=None) as cluster:
            yield ComputeSettings(scheduler=cluster.scheduler_address)


def measure(kind: str, where: str, objects: int, folder: Path) -> None:
    """Run keywords on the objects; print requests and seconds by stage."""
    server = stores.Rclone(folder / kind)
    stage, requests, seconds = ["start"], Counter[str](), Counter[str]()

    def count(_: int, request: str) -> None:
        if "/in" in request and "objects" in request:
            requests[stage[0], request.split(" ")[0]] += 1

    call = stages.Stage.__call__

    def timed(self, begun):
        stage[0], began = self.function.__name__, time.monotonic()
        try:
            return call(self, begun)
        finally:
            seconds[stage[0]] += time.monotonic() - began

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages.Stage, "__call__", timed)
        stores.enter(patch, Proxy(server.port, count, lambda _: DELAY).url)
        settings = KeywordSettings(keyphrases=13)
        with computing(where) as compute:
            run(
                "keywords",
                "s3://in/objects",
                str(folder / f"out-{kind}-{where}"),
                settings,
                compute,
            )
    server.kill()
    total = sum(requests.values()) / objects
    print(f"{kind}, {where}: {total:.2f} requests an object {dict(requests)}")
    print(f"    seconds { ({name: round(s, 1) for name, s in seconds.items()}) }", flush=True)


def main() -> None:
    """Measure Parquet and CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        source = pipelines.simulate("keywords", f"{made}/drawn", 2 * given.objects)
        for kind in ("parquet", "csv"):
            folder = Path(made, kind, "in", "objects")
            write_objects(folder, pq.read_table(source), given.objects, kind)
            for where in ("process", "workers", "cluster"):
                measure(kind, where, given.objects, Path(made))


if __name__ == "__main__":
    main()
