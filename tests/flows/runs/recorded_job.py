"""A recorded run of FOLDER/in in a process of its own: ``recorded_job.py WHAT FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from flows import pipelines
from flows.events import Message, Stage, Sweep, listening
from flows.faults import Interrupted
from flows.keywords.settings import KeywordSettings


class Listener:
    """Prints lines; at the fourth sweep it does what the test wants."""

    def __init__(self, what: str, folder: str) -> None:
        self.what, self.folder, self.sweeps = what, Path(folder), 0

    def on_event(self, event):
        if isinstance(event, Message):
            print(event.text, flush=True)
        self.sweeps += isinstance(event, Sweep)
        if isinstance(event, Sweep) and self.sweeps == 4:
            getattr(self, self.what)()
        if isinstance(event, Stage):
            print(event.name, flush=True)

    def waits(self):
        """Wait for a signal."""
        (self.folder / "waiting").touch()
        time.sleep(60)

    def loses_server(self):
        """End the server, and go on."""
        os.kill(int(os.environ["SERVER_PID"]), int(os.environ.get("SERVER_SIGNAL", signal.SIGKILL)))

    def left_alone(self):
        """End or stop the server, then wait for a signal."""
        self.loses_server()
        self.waits()

    def dies(self):
        """Die as by a loss of power."""
        os.kill(os.getpid(), signal.SIGKILL)

    def goes_on(self):
        """Do nothing."""


def main(what: str, folder: str) -> None:
    settings = KeywordSettings(unit="word", keyword_rate=0.2, checkpoint_every=1)
    try:
        with listening(Listener(what, folder)):
            outcome = pipelines.keywords(f"{folder}/in", f"{folder}/out", settings)
    except Interrupted as error:
        print(error, flush=True)
        sys.exit(130)
    print(outcome["run_id"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
