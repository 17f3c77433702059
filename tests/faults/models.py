"""A small model with warm local states, and the same with a pause or a great need of memory."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows import storage
from flows.fit.job import Job
from tests.contract.toy import Groups, Looping
from vbmodels.core.state import to_bytes

PARTITIONS = 64


@dataclass(frozen=True)
class Paced(Looping):
    """The toy that takes its time: the same numbers, ``pause`` seconds a partition later."""

    pause: float = 0.0

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        if self.pause:
            time.sleep(self.pause)
        return super().local_step(q, batch, local)


@dataclass(frozen=True)
class Greedy(Looping):
    """The toy that takes far too much memory for partitions of many groups."""

    groups: int = 80
    nbytes: int = 4 << 30

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        if len(batch.y) >= self.groups:
            block = [np.ones(1 << 22) for _ in range(self.nbytes >> 25)]
            assert len(block)
        return super().local_step(q, batch, local)


def store_corpus(folder: Path, partitions: int = PARTITIONS, seed: int = 5) -> tuple[str, ...]:
    """Store ragged partitions of 20 to 80 groups; return their URLs."""
    rng = np.random.default_rng(seed)
    urls = []
    for i in range(partitions):
        z = rng.normal(1.0, 1.0, int(rng.integers(20, 80)))
        batch = Groups(z[:, None] + rng.standard_normal((len(z), 1)))  # one each: a slow fit
        urls.append(storage.join(str(folder), f"part-{i:05d}.npz"))
        storage.write_bytes(urls[-1], to_bytes(batch))
    return tuple(urls)


def job(urls: tuple[str, ...], folder: Path | str, run_id: str, **changes: Any) -> Job:
    """Return the job of the fault tests."""
    given: dict[str, Any] = {
        "model": Looping(),
        "batch": Groups,
        "partitions": urls,
        "store": storage.join(str(folder), "runs", run_id),
        "run_id": run_id,
        "tol": 1e-13,
        "max_iter": 40,
        "checkpoint_every": 4,
    }
    return Job(**{**given, **changes})


def probabilities(model: Any, q: Any, batch: Any, local: Any, index: int) -> bytes:
    """Return the bits of a partition's published means."""
    result: bytes = local.z.mean.tobytes()
    return result
