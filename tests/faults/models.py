"""Pooled VBSS as it is, and the same with a pause, so that there is a middle to be hit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.data import storage
from flows.engine.fit import Job
from vbmodels.core.state import to_bytes
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.pooled import PooledVBSS
from vbmodels.keywords.simulate import simulate_pooled, typical_coefficients

PARTITIONS = 64


@dataclass(frozen=True)
class Paced(PooledVBSS):
    """Pooled VBSS that takes its time: the same numbers, ``pause`` seconds a partition later."""

    pause: float = 0.0

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        if self.pause:
            time.sleep(self.pause)
        return super().local_step(q, batch, local)


@dataclass(frozen=True)
class Greedy(PooledVBSS):
    """Pooled VBSS that asks for far too much memory on partitions of many documents."""

    documents: int = 80
    nbytes: int = 4 << 30

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        if batch.n_documents >= self.documents:
            block = [np.ones(1 << 22) for _ in range(self.nbytes >> 25)]
            assert len(block)
        return super().local_step(q, batch, local)


def store_corpus(folder: Path, partitions: int = PARTITIONS, seed: int = 5) -> tuple[str, ...]:
    """Store ragged partitions of 20 to 80 documents; return their URLs."""
    rng = np.random.default_rng(seed)
    w = typical_coefficients(7)
    urls = []
    for i in range(partitions):
        batch, _ = simulate_pooled(
            rng, int(rng.integers(20, 80)), coefficients=w, mean_words=15.0, n_complete=5
        )
        urls.append(storage.join(str(folder), f"part-{i:05d}.npz"))
        storage.write_bytes(urls[-1], to_bytes(batch))
    return tuple(urls)


def job(urls: tuple[str, ...], folder: Path | str, run_id: str, **changes: Any) -> Job:
    """Return the job of the fault tests."""
    given: dict[str, Any] = {
        "model": PooledVBSS(),
        "batch": KeywordBatch,
        "partitions": urls,
        "store": storage.join(str(folder), "runs", run_id),
        "run_id": run_id,
        "tol": 1e-11,
        "max_iter": 40,
        "checkpoint_every": 4,
    }
    return Job(**{**given, **changes})


def probabilities(model: Any, q: Any, batch: Any, local: Any, index: int) -> bytes:
    """Return the bits of a partition's published probabilities."""
    result: bytes = model.probabilities(q, batch, local).tobytes()
    return result
