"""Real schedulers, workers and drivers as processes of their own, to be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
from distributed import Client

ROOT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that has this package and one thread."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DASK_")}
    single = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {
        **kept,
        **single,
        "PYTHONPATH": str(ROOT),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "30s",
        "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "false",
        **more,
    }


def is_worker(process: psutil.Process) -> bool:
    """Whether a process computes: ``dask worker`` spawns those, a run forks its local ones."""
    words = " ".join(process.cmdline())
    parent = process.parent()
    forked = parent is not None and "forkserver" in " ".join(parent.cmdline())
    return "spawn_main" in words or ("forkserver" in words and forked)


class Process:
    """A process whose output is collected, and of which nothing is left behind."""

    def __init__(self, *command: str, folder: Path | None = None, **more: str) -> None:
        self.lines: list[str] = []
        self._popen = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder or ROOT,
            env=environment(**more),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            self.lines.append(line.rstrip("\n"))
        self._popen.stdout.close()

    @property
    def output(self) -> str:
        """All lines so far."""
        return "\n".join(self.lines)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._popen.poll()

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.poll() is None

    def await_line(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """Wait for a line of the output that matches."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in list(self.lines):
                found = re.search(pattern, line)
                if found:
                    return found
            if not self.running and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no line matches {pattern!r} in:\n{self.output}")

    def await_count(self, pattern: str, count: int, seconds: float = 90.0) -> None:
        """Wait for so many lines that match, or for the end of the process."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if sum(bool(re.search(pattern, line)) for line in list(self.lines)) >= count:
                return
            if not self.running:
                return
            time.sleep(0.02)
        raise AssertionError(f"fewer than {count} lines match {pattern!r} in:\n{self.output}")

    def wait(self, seconds: float) -> int:
        """Wait for the end; return the exit code."""
        code = self._popen.wait(seconds)
        self._reader.join(10)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        os.kill(self.pid, number)

    def end(self) -> None:
        """Kill the process with all of its session."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self._popen.wait()
            self._reader.join(10)


class Deployment:
    """A scheduler and workers, each a process."""

    def __init__(self, folder: Path, protocol: str = "tcp", **more: str) -> None:
        self.folder, self.protocol, self.more = folder, protocol, more
        folder.mkdir(parents=True, exist_ok=True)
        self.workers: list[Process] = []
        self.start_scheduler()

    def start_scheduler(self, port: str = "0") -> None:
        """Start the scheduler; also at the port of one that is gone."""
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = Process(
            *("-m", "dask", "scheduler", "--port", port, "--host", "127.0.0.1"),
            *("--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file)),
            *("--protocol", self.protocol),
            folder=self.folder,
            **self.more,
        )
        self.scheduler.await_line(r"Scheduler at: +t[cl][ps]://")
        deadline = time.monotonic() + 120
        # The scheduler creates the file before it fills it.
        while not (file.exists() and file.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.address: str = json.loads(file.read_text())["address"]

    def add(self, *options: str, code: Path = ROOT, **more: str) -> Process:
        """Start a worker with one thread and a nanny."""
        number = len(self.workers)
        worker = Process(
            *("-m", "dask", "worker", self.address, "--nthreads", "1", "--name", f"w{number}"),
            *("--local-directory", str(self.folder / "scratch"), "--no-dashboard"),
            *("--memory-limit", "1GiB", *options),
            folder=self.folder,
            **{"PYTHONPATH": str(code), **more},
        )
        self.workers.append(worker)
        return worker

    def start(self, count: int) -> Deployment:
        """Start workers and wait until they are registered."""
        for _ in range(count):
            self.add()
        for worker in self.workers:
            worker.await_line(r"Registered to:")
        return self

    def pids(self) -> dict[str, int]:
        """Return the process that computes, by the name of its worker."""
        with Client(self.address, set_as_default=False, timeout=60) as client:
            info = client.scheduler_info(n_workers=-1)["workers"]
            by_address = client.run(os.getpid)
        return {info[a]["name"]: pid for a, pid in by_address.items() if a in info}

    def end(self) -> None:
        """Kill everything."""
        for process in [*self.workers, self.scheduler]:
            process.end()


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(psutil.Process(pid).memory_info().rss)
