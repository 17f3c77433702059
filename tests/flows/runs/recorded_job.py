"""A recorded run of FOLDER/in in a process of its own: ``recorded_job.py WHAT FOLDER``."""

import os
import signal
import sys
import time
from pathlib import Path

from flows import cli
from flows.events import Message, Stage, Sweep, listening


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
    with listening(Listener(what, folder)):
        settings = ("unit=word", "keyword_rate=0.2", "checkpoint_every=1")
        sys.argv[1:] = ["keywords", f"{folder}/in", f"{folder}/out", "--resume", "auto"]
        sys.argv += [word for one in settings for word in ("--set", one)]
        cli.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
