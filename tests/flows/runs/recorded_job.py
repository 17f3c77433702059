"""A small pipeline that tests run in a process of its own: ``recorded_job.py WHAT FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from flows.events import Begun, Events, Line, Listener, PartDone, Sweep
from flows.faults import RunError
from flows.keywords.settings import KeywordSettings
from flows.prefect import server
from flows.prefect.flow import record
from flows.run import run as launch
from flows.run import tasks
from flows.settings import ComputeSettings


def count(item: int) -> int:
    return item + 1


class Printed(Listener):
    def hear(self, event):
        if isinstance(event, Line):
            print(event.text, flush=True)


def waits(events, source, target, *_):
    """Say that it runs, then wait inside of a task for a signal."""
    events.tell(Begun("run-waits"))

    def wait() -> None:
        Path(target, "waiting").touch()
        time.sleep(60)

    events.task("fit", wait)


def loses_server(events, source, target, *_):
    """End the server in mid-run and go on."""
    events.tell(Begun("run-loses"))
    first = tasks.each(events, "ingest", count, [1, 2])
    os.kill(int(os.environ["SERVER_PID"]), signal.SIGKILL)
    events.tell(PartDone("ingest", 1, 2))
    second = tasks.each(events, "score", count, [3, 4])
    return first + second


class LeftAlone(Listener):
    """Ends or stops the server at the first sweep, then waits for a signal."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def hear(self, event):
        if isinstance(event, Sweep):
            os.kill(int(os.environ["SERVER_PID"]), int(os.environ["SERVER_SIGNAL"]))
            (self._folder / "waiting").touch()
            time.sleep(60)


def left_alone(folder):
    """Fit, as the command does, and print how it ends."""
    settings, source, target = KeywordSettings(keyword_rate=0.3), f"{folder}/in", f"{folder}/out"
    try:
        launch("keywords", source, target, settings, ComputeSettings(), listener=LeftAlone(folder))
    except RunError as error:
        print(error, flush=True)
        sys.exit(1)


def main(what: str, folder: str) -> None:
    if what == "serve":
        with server.running() as url:
            Path(folder, "url").write_text(url)
            time.sleep(60)
        return
    if what == "left_alone":
        left_alone(folder)
        return
    body = {"waits": waits, "loses_server": loses_server}[what]
    request = ("source", folder, KeywordSettings(), ComputeSettings(), None)
    try:
        outcome = record("keywords", body, *request, events=Events(Printed()))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
    print(outcome, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
