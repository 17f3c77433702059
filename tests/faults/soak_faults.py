"""What is done to real processes in the middle of a run, and to the disk under them."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.processes import Deployment, Process, is_worker

FLIP = "driver SIGKILL, a bit flipped"
STAGES = ("check", "ingest", "prepare", "fit", "score", "publish")


@dataclass
class Scene:
    """Whom a fault may meet: a driver, and a cluster or a small disk if it has one."""

    random: random.Random
    driver: Process
    form: str  # alone, workers or scheduler
    cluster: Deployment | None
    disk: Path | None

    def workers(self) -> list[int]:
        """Return the processes that compute."""
        if self.form == "scheduler" and self.cluster is not None:
            roots = [worker.pid for worker in self.cluster.workers]
        else:
            roots = [self.driver.pid]
        found = []
        for root in roots:
            with suppress(psutil.Error):
                for process in psutil.Process(root).children(recursive=True):
                    with suppress(psutil.Error):
                        if is_worker(process):
                            found.append(process.pid)
        return found

    def worker(self) -> list[int]:
        """Return one of them."""
        found = self.workers()
        return [self.random.choice(found)] if found else []


def _send(number: signal.Signals, pids: list[int]) -> bool:
    sent = False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            sent = True
    return sent


def _stop(scene: Scene, pids: list[int]) -> bool:
    """Stop processes, and let them go on a little later."""
    if not _send(signal.SIGSTOP, pids):
        return False
    time.sleep(scene.random.choice([0.2, 2.0, 6.0]))
    return _send(signal.SIGCONT, pids)


def _scheduler(scene: Scene) -> list[int]:
    return [] if scene.cluster is None else [scene.cluster.scheduler.pid]


def _fill(scene: Scene) -> bool:
    """Leave no room on the small disk."""
    assert scene.disk is not None
    with suppress(OSError), open(scene.disk / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    return True


def _remount(scene: Scene, how: str) -> bool:
    return subprocess.run(["mount", "-o", f"remount,{how}", str(scene.disk)]).returncode == 0


def repair(disk: Path) -> None:
    """Make room on the small disk, and let it be written again."""
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    (disk / "filler").unlink(missing_ok=True)


def flip(draw: random.Random, target: Path) -> None:
    """Flip a bit of a file that a stopped run has made for itself."""
    files = sorted(path for path in target.glob("runs/*/work/**/*") if path.is_file())
    files = [path for path in files if path.name != "lock.json" and path.stat().st_size]
    if files:
        path = draw.choice(files)
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)


# Each returns whether it met somebody.
FAULTS: dict[str, Callable[[Scene], bool]] = {
    "driver SIGKILL": lambda s: _send(signal.SIGKILL, [s.driver.pid]),
    FLIP: lambda s: _send(signal.SIGKILL, [s.driver.pid]),
    "driver SIGTERM": lambda s: _send(signal.SIGTERM, [s.driver.pid]),
    "driver SIGINT": lambda s: _send(signal.SIGINT, [s.driver.pid]),
    "driver stopped": lambda s: _stop(s, [s.driver.pid]),
    "worker SIGKILL": lambda s: _send(signal.SIGKILL, s.worker()),
    "worker stopped": lambda s: _stop(s, s.worker()),
    "all workers SIGKILL": lambda s: _send(signal.SIGKILL, s.workers()),
    "scheduler SIGKILL": lambda s: _send(signal.SIGKILL, _scheduler(s)),
    "scheduler stopped": lambda s: _stop(s, _scheduler(s)),
    "disk full": _fill,
    "disk read-only": lambda s: _remount(s, "ro"),
}
DRIVER = [kind for kind in FAULTS if kind.startswith("driver")]
WORKERS = [kind for kind in FAULTS if "worker" in kind]
SCHEDULER = [kind for kind in FAULTS if kind.startswith("scheduler")]
STORE = [kind for kind in FAULTS if kind.startswith("disk")]


def possible(form: str, disk: Path | None) -> list[str]:
    """Return the faults that can happen to a form of run."""
    kinds = list(DRIVER)
    if form != "alone":
        kinds += WORKERS * 2
    if form == "scheduler":
        kinds += SCHEDULER
    if disk is not None:
        kinds += STORE * 3
    return kinds
