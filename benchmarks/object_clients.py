"""Clients of object storage beside each other: whole objects, conditional writes, faults.

    python -m benchmarks.object_clients [--objects 48] [--megabytes 4 16] [--turns 3]

What reads and writes here (s3fs, by fsspec) beside Arrow's own file system and, where installed,
obstore (the Rust crate object_store; it is not among the project's packages). On a local S3
server (`rclone serve s3`), in turns in one run, one object after the other: MB/s and CPU seconds a
GB. Then through a proxy that answers every tenth request with 503, or cuts every eighth body: how
many of the objects arrive whole. Then two writers of one new object: whether the second is told.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flows.data import storage
from flows.data.storage.access import arrow
from tests.faults import stores
from tests.faults.proxy import Proxy

try:
    import obstore
    from obstore.store import S3Store
except ImportError:
    obstore = None

Read = Callable[[str], int]


def clients(endpoint: str) -> dict[str, Read]:
    """Return what reads a whole object, by the name of the client."""

    def of_arrow(key: str) -> int:
        filesystem, path = arrow(f"s3://in/{key}")
        with filesystem.open_input_stream(path) as stream:
            return len(stream.read())

    found: dict[str, Read] = {
        "s3fs": lambda key: len(storage.read_bytes(f"s3://in/{key}")),
        "pyarrow": of_arrow,
    }
    if obstore is not None:
        store = _store(endpoint)
        found["obstore"] = lambda key: len(obstore.get(store, key).bytes())
    return found


def _store(endpoint: str) -> Any:
    return S3Store(
        "in",
        endpoint=endpoint,
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )


def speed(read: Read, keys: list[str]) -> tuple[float, float, int]:
    """Return seconds, CPU seconds of this process and bytes."""
    began, cpu = time.perf_counter(), time.process_time()
    size = sum(read(key) for key in keys)
    return time.perf_counter() - began, time.process_time() - cpu, size


def speeds(forms: dict[str, Read], keys: list[str], turns: int) -> dict[str, dict[str, float]]:
    """Read all objects with each client, in turns."""
    times: dict[str, list[tuple[float, float, int]]] = {}
    for _ in range(turns):
        for name, read in forms.items():
            times.setdefault(name, []).append(speed(read, keys))
    return {
        name: {
            "MB/s": round(found[0][2] / 1e6 / statistics.median(t for t, _, _ in found), 1),
            "CPU s/GB": round(1e9 / found[0][2] * statistics.median(c for _, c, _ in found), 2),
        }
        for name, found in times.items()
    }


def survivors(read: Read, keys: list[str], size: int) -> str:
    """Say how many objects arrive whole, and the first error."""
    whole, first = 0, ""
    for key in keys:
        try:
            whole += read(key) == size
        except Exception as error:
            first = first or f"{type(error).__name__}: {error}"[:90]
    return f"{whole} of {len(keys)}" + (f" ({first})" if first else "")


def second_writer(endpoint: str) -> dict[str, str]:
    """Say what a second writer of a new object hears."""
    said = {}
    storage.write_bytes("s3://in/new-s3fs", b"first")
    said["s3fs"] = "created" if storage.create_bytes("s3://in/new-s3fs", b"second") else "told"
    if obstore is not None:
        store = _store(endpoint)
        obstore.put(store, "new-obstore", b"first", mode="create")
        try:
            obstore.put(store, "new-obstore", b"second", mode="create")
            said["obstore"] = "created"
        except obstore.exceptions.AlreadyExistsError:
            said["obstore"] = "told"
    return said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=48)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[4, 16])
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    report: dict[str, Any] = {"obstore": getattr(obstore, "__version__", "not installed")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rng = np.random.default_rng(0)
        keys = {size: [f"{size}-{i}" for i in range(given.objects)] for size in given.megabytes}
        for size, own in keys.items():
            for key in own:
                (folder / "in" / key).write_bytes(rng.bytes(size * 2**20))
        server = stores.Rclone(folder, "--etag-hash", "")
        proxies = []
        try:
            os.environ.update(stores.environment(server.url))
            forms = clients(server.url)
            for size, own in keys.items():
                report[f"{size} MB"] = speeds(forms, own, given.turns)
            report["two writers"] = second_writer(server.url)
            small, own = min(keys.items())
            for fault, plan in (("503 every tenth", _every(10)), ("cut every eighth", _cutting(8))):
                for client in forms:
                    proxies.append(Proxy(server.port, plan))
                    os.environ.update(stores.environment(proxies[-1].url))
                    read = clients(proxies[-1].url)[client]
                    found = survivors(read, own, small * 2**20)
                    report.setdefault(fault, {})[client] = found
        finally:
            for proxy in proxies:
                proxy.close()
            server.kill()
    print(json.dumps(report, indent=2))


def _every(number: int) -> Callable[[int, str], str | None]:
    return lambda count, line: "slow down" if count % number == 0 else None


def _cutting(number: int) -> Callable[[int, str], str | None]:
    return lambda count, line: "drop" if count % number == 0 and line.startswith("GET") else None


if __name__ == "__main__":
    main()
