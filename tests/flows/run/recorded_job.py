"""A small pipeline that tests run in a process of its own: ``recorded_job.py WHAT FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from flows.keywords.settings import KeywordSettings
from flows.run.prefect import server
from flows.run.prefect.record import record
from flows.settings import ComputeSettings


def count(item: int) -> int:
    return item + 1


def quick(stages, source, target, *_):
    stages.begin("run-quick", target)
    total = sum(stages.map("ingest", count, [1, 2, 3], cache_key=str))
    stages.progress(1.0, "done")
    stages.log("all is well")
    return stages.call("fit", count, total)


def waits(stages, source, target, *_):
    """Say that it runs, then wait inside of a task for a signal."""
    stages.begin("run-waits", target)

    def wait() -> None:
        Path(target, "waiting").touch()
        time.sleep(60)

    stages.call("fit", wait)


def loses_server(stages, source, target, *_):
    """End the server in mid-run and go on."""
    stages.begin("run-loses", target)
    first = stages.map("ingest", count, [1, 2])
    os.kill(int(os.environ["SERVER_PID"]), signal.SIGKILL)
    stages.progress(0.5, "half")
    stages.log("still here")
    second = stages.map("score", count, [3, 4])
    stages.markdown("summary", "lost")
    return first + second


def main(what: str, folder: str) -> None:
    if what == "serve":
        with server.running() as url:
            Path(folder, "url").write_text(url)
            time.sleep(60)
        return
    body = {"quick": quick, "waits": waits, "loses_server": loses_server}[what]
    request = ("source", folder, KeywordSettings(), ComputeSettings(), None)
    try:
        outcome = record("keywords", body, *request, say=lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
    print(outcome, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
