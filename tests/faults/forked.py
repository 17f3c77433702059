"""The command as a process of its own, forked from one that has loaded it: seconds earlier."""

import atexit
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from contextlib import suppress

from tests.faults.processes import Process, environment

LOADED = [
    "flows.cli",
    "flows.fit.connect",
    "flows.run",
    "tests.faults.pipelines",
]


def prepare() -> None:
    """Have later commands forked from a process with one thread in every library."""
    os.environ.update(environment())
    multiprocessing.set_forkserver_preload(LOADED)


def _run(arguments: list[str], writing: multiprocessing.connection.Connection) -> None:
    """Be the command: in a session of its own, with its output in a pipe."""
    os.setsid()
    output = writing.fileno()
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from flows.cli import main

    try:
        main(arguments)
    finally:
        atexit._run_exitfuncs()


class Forked(Process):
    """A command whose output is collected, and of which nothing is left behind."""

    def __init__(self, *arguments: str) -> None:
        self.lines: list[str] = []
        reading, writing = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=_run, args=(list(arguments), writing))
        self._process.start()
        writing.close()
        self.pid = int(self._process.pid or 0)
        self._source = os.fdopen(os.dup(reading.fileno()), encoding="utf-8", errors="replace")
        reading.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._source:
            self.lines.append(line.rstrip("\n"))
        self._source.close()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise TimeoutError
        self._reader.join(10)
        return self._process.exitcode

    def end(self) -> None:
        """Kill the process with all of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # it may have no session yet
        self._process.join()
        self._reader.join(10)
