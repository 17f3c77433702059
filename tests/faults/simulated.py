"""Runs on a simulated cluster: the same bits or a sentence, and no wait beyond its limit.

What decides is the real thing (calls, placement, late and lost blocks, giving up, replay on
the worker's side); so are the loop, checkpoints and storage.

Thousands of seeds: ``python -m tests.faults.simulated --seeds 10000``.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from flows.data import lock, storage
from flows.data.storage import StorageError
from flows.engine.block import Job
from flows.engine.calls import Cluster
from flows.engine.executor import Executor, InProcess
from flows.engine.fit import run_fit
from flows.faults import ComputeError
from tests.faults.simulated_cluster import Violation, World
from tests.flows.engine.jobs import rates, toy_job
from vbmodels.core.state import to_bytes

PARTITIONS = 6
LOOPS = ("cavi", "squarem", "memoised")


@dataclass(frozen=True)
class Ended:
    """How one seed ended: the same bits, or a sentence; what happened on the way."""

    seed: int
    sentence: str | None
    faults: Counter[str]
    events: int
    seconds: float  # simulated
    longest: float  # simulated, between two things that the driver heard or said


class Scene:
    """A job, and what it gives without any fault."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = {
            loop: toy_job(
                folder / loop, PARTITIONS, loop=loop, max_iter=5, checkpoint_every=2, tol=1e-300
            )
            for loop in LOOPS
        }
        self.expected = {
            loop: _bits(replace(job, store=f"{job.store}-alone"), None)
            for loop, job in self.jobs.items()
        }

    def run(self, seed: int, world: World | None = None) -> Ended:
        """Run one seed; raise `Violation` if the property does not hold."""
        world = world or World(seed)
        loop = LOOPS[seed % len(LOOPS)]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        job = replace(self.jobs[loop], store=str(folder / "run"))
        sentence = None
        try:
            cluster = Cluster(world)
            try:
                job = _copied(cluster, job, folder)
                world.stage = "fit"
                found = _bits(job, cluster)
            except (ComputeError, StorageError) as error:
                sentence = str(error)
                _judge(sentence, world)
                # What was not copied is, as the next attempt would find out.
                found = _bits(_copied(None, self.jobs[loop], folder), None, folder, resume=True)
            if found != self.expected[loop]:
                raise Violation("other bits")
        except Violation as error:
            raise Violation(f"seed {seed}: {error}") from error
        except Exception as error:
            raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
        finally:
            shutil.rmtree(folder)
        return Ended(seed, sentence, world.faults, world.events, world.time, world.longest)


@contextmanager
def scene() -> Iterator[Scene]:
    """Make the job in memory where the machine has such a folder; take no time over locks."""
    memory = Path("/dev/shm")
    parent = str(memory) if memory.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="vbflows-", dir=parent) as folder,
        patch.object(lock, "SETTLE", 0.0),
    ):
        yield Scene(Path(folder))


def copy(url: str, to: str) -> str:
    """Copy a file as ingest would; return its digest."""
    data = storage.read_bytes(url)
    storage.write_bytes(to, data, durable=False)
    return hashlib.sha256(data).hexdigest()


def _copied(cluster: Cluster | None, job: Job, folder: Path) -> Job:
    """Ingest: copy the partitions by calls on the cluster."""
    pairs = [(url, str(folder / f"part-{i}.npz")) for i, url in enumerate(job.partitions)]
    found = cluster.each(copy, pairs) if cluster else [copy(*pair) for pair in pairs]
    if found != [hashlib.sha256(Path(url).read_bytes()).hexdigest() for url, _ in pairs]:
        raise Violation("calls returned what they should not")
    return replace(job, partitions=tuple(to for _, to in pairs))


def _bits(
    job: Job, cluster: Cluster | None, folder: Path | None = None, resume: bool = False
) -> bytes:
    if folder is not None:
        job = replace(job, store=str(folder / "run"))
    executor: Executor = InProcess(job) if cluster is None else cluster.executor(job)
    result = run_fit(job, executor, resume=resume)
    mapped = executor.map(rates, result.q, result.number)
    executor.close()
    digest = hashlib.sha256(to_bytes(result.q))
    digest.update(result.trace.elbo.tobytes())
    for index, mean in mapped:
        digest.update(str(index).encode() + (b"" if mean is None else mean.tobytes()))
    return digest.digest()


def _judge(sentence: str, world: World) -> None:
    if "\n" in sentence or len(sentence) > 500 or "should not have happened" in sentence:
        raise Violation(f"not one sentence: {sentence}")
    if not world.faults and world.deadly is None:
        raise Violation(f"a sentence without a fault: {sentence}")
    if "workers die on partition" in sentence and world.deadly is not None:
        named = int(sentence.split("partition ")[1].split()[0])
        if named != world.deadly and not any("die" in kind for kind in world.faults):
            raise Violation(f"partition {named} is blamed, {world.deadly} is deadly")


def main() -> int:
    """Run many seeds, and print what they met and how they ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    logging.getLogger("flows").setLevel(logging.CRITICAL)
    began = time.process_time()
    ended: list[Ended] = []
    violations = []
    with scene() as made, suppress(KeyboardInterrupt):  # what was run counts
        for seed in range(given.first, given.first + given.seeds):
            try:
                ended.append(made.run(seed))
            except Violation as error:
                violations.append(str(error))
                print(error, flush=True)
    seconds = time.process_time() - began
    print("\n".join(table(ended, violations, seconds)))
    return 1 if violations else 0


def table(ended: list[Ended], violations: list[str], seconds: float) -> list[str]:
    """Return the figures of many seeds in Markdown."""
    faults, sentences = Counter[str](), Counter[str]()
    for one in ended:
        faults.update(one.faults)
        if one.sentence is not None:
            sentences[_kind(one.sentence)] += 1
    total = len(ended) + len(violations)
    same = sum(one.sentence is None for one in ended)
    events = sorted(one.events for one in ended) or [0]
    return [
        "| | |",
        "|---|---|",
        f"| seeds | {total:,} in {seconds:.0f} s of CPU ({60 * total / seconds:,.0f} a minute) |",
        f"| events a seed: median, most | {events[len(events) // 2]:,}, {events[-1]:,} |",
        f"| simulated hours | {sum(one.seconds for one in ended) / 3600:,.0f} |",
        f"| longest wait, simulated s | {max((one.longest for one in ended), default=0):,.0f} |",
        f"| the same bits at once | {same:,} |",
        f"| a sentence, then the same bits by resuming | {total - same - len(violations):,} |",
        f"| violations | {len(violations)} |",
        *(f"| fault: {kind} | {count:,} |" for kind, count in faults.most_common()),
        *(f"| sentence: {kind} | {count:,} |" for kind, count in sentences.most_common()),
    ]


def _kind(sentence: str) -> str:
    known = {
        "no worker for": "no workers for too long",
        "went away": "the scheduler went away",
        "another source": "a worker of another source",
        "does not answer": "storage does not answer",
        "without an answer": "a block without an answer",
        "lost a piece of work": "a call lost again and again",
        "die on partition": "a deadly partition, named",
        "one after the other": "a deadly call",
    }
    return next((kind for text, kind in known.items() if text in sentence), sentence[:60])


if __name__ == "__main__":
    sys.exit(main())
