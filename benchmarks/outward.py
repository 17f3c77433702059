"""What OpenLineage and OpenTelemetry cost a run: their share of its time and CPU, in that run.

A run of bags tells both over HTTP on this machine. Counted as theirs are the CPU of every thread
that loads, fills and sends them (the first run of a process loads their libraries, a later one does
not), the time that the run's own threads take to tell an event, and the time that its end waits
for what is not sent. With ``--down`` nobody answers.

    python -m benchmarks.outward [--rows 20000] [--turns 3] [--down] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from flows.catalogue import pipeline_named
from flows.run import outward
from flows.run.launch import launch
from flows.settings import ComputeSettings

THEIRS = ("OpenLineage", "OpenTelemetry", "Otel")
RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Take(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
print(server.server_port, flush=True)
server.serve_forever()
"""


def timed(method: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    """Return a method that adds the seconds that it takes."""

    def call(*args: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*args)
        finally:
            spent[name] += time.perf_counter() - began

    return call


def one_run(source: str, target: str) -> dict[str, float]:
    """Run, and return the seconds of the run and of what is theirs."""
    spent = dict.fromkeys(("telling", "waiting", "threads"), 0.0)
    lock, run = threading.Lock(), threading.Thread.run

    def counted(thread: threading.Thread) -> None:
        run(thread)
        if thread.name.startswith(THEIRS):
            with lock:
                spent["threads"] += time.thread_time()

    settings = pipeline_named("bags").settings(model="vmmic")
    began, cpu = time.perf_counter(), time.process_time()
    with (
        patch.object(threading.Thread, "run", counted),
        patch.object(outward.Aside, "hear", timed(outward.Aside.hear, spent, "telling")),
        patch.object(outward.Aside, "wait", timed(outward.Aside.wait, spent, "waiting")),
    ):
        launch("bags", source, target, settings, ComputeSettings())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    delay = spent["telling"] + spent["waiting"]
    return {
        "seconds": seconds,
        "cpu": cpu,
        **spent,
        "share of time": delay / seconds,
        "share of CPU": (spent["threads"] + spent["telling"]) / cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="bags")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--down", action="store_true", help="nobody answers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE) as receiver,
    ):
        assert receiver.stdout is not None
        port = 9 if options.down else int(receiver.stdout.readline())
        for name in ("OPENLINEAGE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"):
            os.environ[name] = f"http://127.0.0.1:{port}"
        urls = pipeline_named("bags").simulate(f"{folder}/in", options.rows, 1)
        source = next(url for url in urls if "truth" not in url)
        runs = [one_run(source, f"{folder}/out{turn}") for turn in range(options.turns)]
        receiver.terminate()
    for run in runs:
        if options.json:
            print(json.dumps(run))
        else:
            print(", ".join(f"{name} {value:.4f}" for name, value in run.items()))


if __name__ == "__main__":
    main()
