"""A store that is far away: ``python -m tests.faults.far_store [--objects 2000]``.

Each request waits 20 to 80 ms, and one in a hundred fails: by 500, by 503 or by a connection that
is reset, in turn. Every pipeline reads from it and publishes to it. Prints a table: requests, how
many failed, seconds of the run near the store and far from it, and whether the bits are the same.

With ``--objects`` the input is as many small objects, each request waits 50 ms and none fails.
"""

import argparse
import io
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows import storage
from tests.faults import pipelines, stores
from tests.faults.proxy import Proxy

FAULTS = ("error", "slow down", "reset")


def fail(number: int, request: str) -> str | None:
    """Fail one request in a hundred."""
    return FAULTS[number // 100 % 3] if number % 100 == 30 else None


def delay(number: int) -> float:
    """Return the seconds that a request waits."""
    return random.Random(number).uniform(0.02, 0.08)


def put(name: str, source: str, bucket: str) -> str:
    """Copy the input of a pipeline to a bucket; return its URL."""
    url = f"s3://{bucket}/{name}/{source.rsplit('/', 1)[-1]}"
    storage.write_bytes(url, storage.read_bytes(source))
    return url


def run(name: str, url: str, target: str) -> tuple[dict[str, Any], float]:
    """Run a pipeline; return what it published, and the seconds of the run."""
    began = time.monotonic()
    outcome = pipelines.run(name, url, target)
    took = time.monotonic() - began
    return outcome, took


def row(name: str, folder: Path, server: stores.Rclone) -> str:
    """Return the line of a pipeline."""
    source = pipelines.simulate(name, str(folder / "drawn" / name))
    expected = pipelines.published(pipelines.run(name, source, str(folder / "here" / name)))
    with pytest.MonkeyPatch.context() as patch:
        stores.enter(patch, server.url)
        url = put(name, source, "in")
        _, near = run(name, url, f"s3://out/near/{name}")
        proxy = Proxy(server.port, fail, delay)
        stores.enter(patch, proxy.url)
        outcome, far = run(name, url, f"s3://out/far/{name}")
        requests, failed = len(proxy.seen), len(proxy.done)
        proxy.close()
        stores.enter(patch, server.url)
        same = "yes" if pipelines.published(outcome) == expected else "no"
    return f"| {name} | {requests} | {failed} | {near:.1f} | {far:.1f} | {same} |"


def of_objects(name: str, folder: Path, server: stores.Rclone, count: int) -> str:
    """Return the line of a pipeline whose input is many small objects."""
    table = pq.read_table(pipelines.simulate(name, str(folder / "drawn" / name), count))
    rows = len(table) // count
    url = f"s3://in/many-{name}/"
    with pytest.MonkeyPatch.context() as patch:
        stores.enter(patch, server.url)
        for i in range(count):
            sink = io.BytesIO()
            pq.write_table(table.slice(i * rows, rows), sink)
            storage.write_bytes(f"{url}part-{i:05d}.parquet", sink.getvalue())
        near, took = run(name, url, f"s3://out/near-many/{name}")
        proxy = Proxy(server.port, delay=lambda number: 0.05)
        stores.enter(patch, proxy.url)
        far, long = run(name, url, f"s3://out/far-many/{name}")
        requests = len(proxy.seen)
        proxy.close()
        stores.enter(patch, server.url)
        same = "yes" if pipelines.published(far) == pipelines.published(near) else "no"
    return f"| {name} | {requests} | 0 | {took:.1f} | {long:.1f} | {same} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=0)
    count = parser.parse_args().objects
    print("| pipeline | requests | failed | near, s | far, s | the same bits |")
    print("|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        for bucket in ("in", "out"):
            (folder / "s3" / bucket).mkdir(parents=True)
        server = stores.Rclone(folder / "s3")
        try:
            for name in sorted(pipelines.SETTINGS):
                made = (
                    of_objects(name, folder, server, count) if count else row(name, folder, server)
                )
                print(made, flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
