"""Faults on real processes, one after the other: ``python -m tests.faults.soak``.

Each round is a run of the command (forked from a process that has loaded it), hit again and
again in stages that its seed draws, and resumed until it is done. After every fault there are
the same bits, or one sentence and a resume that works; a reader of ``latest.json`` meanwhile
finds a whole run. It prints every round's seed, what is wrong as it finds it, and a table.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import pipelines
from tests.faults.forked import Forked, prepare
from tests.faults.processes import Deployment, Process
from tests.faults.soak_faults import FAULTS, FLIP, STAGES, Scene, flip, possible, repair

LIMIT = 400.0  # seconds until a command that does not end counts as hanging
ATTEMPTS = 4  # of one run that are hit
FORMS = ("alone", "workers", "scheduler")


class Wrong(Exception):
    """An outcome that nothing explains."""


@dataclass
class Record:
    """What was done, and what came of it."""

    rows: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # kind, stage, outcome
    wrong: list[str] = field(default_factory=list)
    reads: int = 0

    @property
    def faults(self) -> int:
        """How many have met somebody."""
        return sum(self.rows.values())


class Soak:
    """Sources, what runs of them publish, and a cluster that is made again when it is gone."""

    def __init__(self, folder: Path, disks: bool, forms: Sequence[str] = FORMS) -> None:
        self.folder, self.disks, self.forms = folder, disks, forms
        self.record = Record()
        self.sources = {
            name: pipelines.simulate(name, str(folder / "data" / name))
            for name in pipelines.SETTINGS
        }
        self.expected = {
            name: pipelines.published(pipelines.run(name, source, str(folder / "alone" / name)))
            for name, source in self.sources.items()
        }
        self._cluster: Deployment | None = None
        self._clusters = 0

    def cluster(self) -> Deployment:
        """Return a cluster whose scheduler and workers run."""
        if self._cluster is None:
            self._clusters += 1
            self._cluster = Deployment(self.folder / f"cluster{self._clusters}").start(2)
        return self._cluster

    def close(self) -> None:
        """End the cluster."""
        if self._cluster is not None:
            self._cluster.end()
            self._cluster = None

    def round(self, seed: int) -> None:
        """Play one round; what is wrong is recorded."""
        draw = random.Random(seed)
        name, form = draw.choice(list(self.sources)), draw.choice(self.forms)
        target = self.folder / f"target{seed}"
        target.mkdir()
        small = self.disks and draw.random() < 0.3
        try:
            with _disk(target, small) as disk, self._readers(target):
                play = draw.choices([self._hit, self._together, self._twice], [8, 1, 1])[0]
                play(draw, name, form, target, disk)
        except (Wrong, AssertionError) as error:
            text = f"seed {seed} ({name}, {form}): {error}"
            self.record.wrong.append(text)
            print(text, flush=True)
            self.close()
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _hit(
        self, draw: random.Random, name: str, form: str, target: Path, disk: Path | None
    ) -> None:
        """Hit a run, and each of its resumes, until one is left in peace."""
        resume = None
        for attempt in range(ATTEMPTS + 1):
            driver = self._start(name, form, target, resume)
            try:
                met = self._fault(draw, driver, form, disk) if attempt < ATTEMPTS else None
                code = _ended(driver)
            finally:
                driver.end()
            if disk is not None:
                repair(disk)
            if met is not None and met[0] == "scheduler SIGKILL":
                self.close()
            if met is not None and met[0] == FLIP and code == -9:
                flip(draw, target)
            outcome = self._outcome_of(name, target, code, driver, met)
            if met is not None:
                self.record.rows[*met, outcome] += 1
            if code == 0:
                return
            resume = _unfinished(target)
        raise Wrong(f"not done after {ATTEMPTS} faults and an attempt in peace: {driver.output}")

    def _fault(
        self, draw: random.Random, driver: Process, form: str, disk: Path | None
    ) -> tuple[str, str] | None:
        """Do something in the middle of a stage; say what and when, if it met somebody."""
        kind, stage = draw.choice(possible(form, disk)), draw.choice(STAGES)
        driver.await_count(rf"^{stage}$", 1, LIMIT)
        time.sleep(draw.choice([0.0, 0.02, 0.1, 0.4]) * draw.random())
        cluster = self._cluster if form == "scheduler" else None
        if not driver.running or not FAULTS[kind](Scene(draw, driver, form, cluster, disk)):
            return None
        return kind, stage

    def _together(
        self, draw: random.Random, name: str, form: str, target: Path, disk: Path | None
    ) -> None:
        """Kill a run, and resume it three times at once."""
        driver = self._start(name, form, target, None)
        driver.await_count(rf"^{draw.choice(STAGES[1:])}$", 1, LIMIT)
        driver.end()
        resume = _unfinished(target)
        if resume is None:
            return
        drivers = [self._start(name, form, target, resume) for _ in range(3)]
        codes = self._all_ended(drivers)
        for code, one in zip(codes, drivers, strict=True):
            self._outcome_of(name, target, code, one, None)
        if 0 not in codes:
            raise Wrong(f"of three resumes none is done: {[d.output for d in drivers]}")
        outcome = f"{codes.count(0)} done, {codes.count(1)} refused"
        self.record.rows["three resumes at once", "any", outcome] += 1

    def _twice(
        self, draw: random.Random, name: str, form: str, target: Path, disk: Path | None
    ) -> None:
        """Start two runs to one target."""
        drivers = [self._start(name, form, target, None) for _ in range(2)]
        codes = self._all_ended(drivers)
        if codes != [0, 0]:
            raise Wrong(f"of two runs to one target: {[d.output for d in drivers]}")
        for run_id in os.listdir(target / "runs"):
            self._compare(name, target, run_id)
        self.record.rows["two runs to one target", "any", "the same bits"] += 1

    def _all_ended(self, drivers: list[Process]) -> list[int]:
        try:
            return [_ended(driver) for driver in drivers]
        finally:
            for driver in drivers:
                driver.end()

    def _start(self, name: str, form: str, target: Path, resume: str | None) -> Process:
        settings = {"partitions": 3, "checkpoint_every": 10, **pipelines.SETTINGS[name]}
        options = [text for key, value in settings.items() for text in ("--set", f"{key}={value}")]
        where = {
            "alone": [],
            "workers": ["--workers", "2"],
            "scheduler": ["--scheduler", self.cluster().address] if form == "scheduler" else [],
        }[form]
        again = [] if resume is None else ["--resume", resume]
        command = (name, self.sources[name], str(target))
        return Forked(*command, *options, *where, *again)

    def _outcome_of(
        self, name: str, target: Path, code: int, driver: Process, met: tuple[str, str] | None
    ) -> str:
        """Return what became of a command; raise `Wrong` where nothing explains it."""
        text = driver.output
        if "Traceback" in text or "should not have happened" in text:
            raise Wrong(f"{met}: {text}")
        if code == 0:
            self._compare(name, target, json.loads((target / "latest.json").read_text())["run_id"])
            return "the same bits"
        if code == -9 and met is not None and met[0].startswith("driver SIGKILL"):
            return "killed; a resume"
        said = [line for line in driver.lines if line.startswith("vbflows: ")]
        # A target that cannot be written is reported before anything is computed.
        refused = code == 2 and met is not None and met[0].startswith("disk") and met[1] == "check"
        if not (code == 1 or refused) or len(said) != 1:
            raise Wrong(f"{met}: exit {code} with {len(said)} sentences: {text}")
        return "a sentence; a resume"

    def _compare(self, name: str, target: Path, run_id: str) -> None:
        found = pipelines.published({"target": str(target), "run_id": run_id})
        if found != self.expected[name]:
            wanted = self.expected[name]
            differ = sorted(k for k in {**wanted, **found} if found.get(k) != wanted.get(k))
            raise Wrong(f"other bits in {differ}")

    @contextmanager
    def _readers(self, target: Path) -> Iterator[None]:
        """Read ``latest.json`` all the time: it is not there, or names a run that is whole."""
        done, wrong = threading.Event(), []

        def read() -> None:
            while not done.wait(0.01):
                with suppress(FileNotFoundError):
                    text = (target / "latest.json").read_text()
                    try:
                        run_id = json.loads(text)["run_id"]
                    except ValueError:
                        wrong.append(f"latest.json held {text!r}")
                        return
                    if not (target / "runs" / run_id / "run.json").exists():
                        wrong.append(f"latest.json named {run_id}, which is not whole")
                        return
                    self.record.reads += 1

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if wrong:
            raise Wrong(wrong[0])


@contextmanager
def _disk(target: Path, small: bool) -> Iterator[Path | None]:
    """Mount a small disk at the target, if it is to have one."""
    if not small:
        yield None
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(target)], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=True)


def _ended(driver: Process) -> int:
    try:
        return driver.wait(LIMIT)
    except TimeoutError:
        raise Wrong(f"hangs: {driver.output}") from None


def _unfinished(target: Path) -> str | None:
    """Return the run that can be resumed, if there is one."""
    with suppress(FileNotFoundError):
        for run_id in os.listdir(target / "runs"):
            if (target / "runs" / run_id / "work").is_dir():
                return run_id
    return None


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a small disk."""
    try:
        with _disk(folder, True):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def table(record: Record, seconds: float) -> list[str]:
    """Return what was done and what came of it, in Markdown."""
    by_kind: dict[str, Counter[str]] = {}
    for (kind, stage, outcome), count in record.rows.items():
        by_kind.setdefault(kind, Counter()).update({outcome: count, stage: count})
    outcomes = sorted({outcome for _, _, outcome in record.rows})
    head = ["fault", *STAGES, *outcomes]
    lines = [
        f"{record.faults} faults in {seconds / 60:.0f} minutes, {record.reads:,} reads of "
        f"latest.json, {len(record.wrong)} outcomes that nothing explains",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    for kind, counts in sorted(by_kind.items()):
        cells = [kind, *(str(counts[column] or "") for column in head[1:])]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    """Play rounds until so many faults have met somebody."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="of the first round")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--form", choices=FORMS, help="where runs compute; drawn by default")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else int(time.time()) % 1_000_000
    forms = FORMS if given.form is None else (given.form,)
    began = time.monotonic()
    prepare()
    with tempfile.TemporaryDirectory(prefix="vbflows-soak-") as folder:
        (Path(folder) / "mount").mkdir()
        soak = Soak(Path(folder), can_mount(Path(folder) / "mount"), forms)
        try:
            while (
                soak.record.faults < given.faults and time.monotonic() - began < 60 * given.minutes
            ):
                print(f"round {seed}: {soak.record.faults} faults so far", flush=True)
                soak.round(seed)
                seed += 1
        finally:
            soak.close()
            print("\n".join(table(soak.record, time.monotonic() - began)))
    return 1 if soak.record.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
