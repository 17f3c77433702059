"""What a fit is: a model, its partitions, and where its files are."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  # has a BLAS of its own; only a library that is loaded is limited
from threadpoolctl import ThreadpoolController

from flows import storage
from flows.faults import ComputeError
from vbmodels.core.state import State


class ClusterError(ComputeError):
    """The cluster cannot be used, or was lost; one sentence for the user."""


class ClusterLost(ClusterError):
    """It does not answer, or has no workers, and may later; other errors stay as they are."""


@dataclass(frozen=True)
class Job:
    """One fit: what is fitted to what, where it is kept, and when it stops."""

    model: Any  # it must be picklable
    batch: type[State]  # class of a partition's data
    partitions: tuple[str, ...]  # the URL of each; its position is its id
    store: str  # URL of the run's folder, with the checkpoints
    run_id: str  # for messages
    seed: int = 0  # of the start
    tol: float = 1e-8  # relative, on the bound; see `vbmodels.core.driver.Driver`
    max_iter: int = 1000  # most sweeps
    checkpoint_every: int | None = None  # sweeps; None: by seconds
    settings: tuple[tuple[str, str], ...] = ()  # names and values that a resumed run must share
    start: str | None = None  # URL of an earlier fit's posterior to start near, where a model can


def checkpoint_url(store: str, number: int) -> str:
    """Return the folder of the checkpoint made after a sweep."""
    return storage.join(store, "checkpoints", f"{number:08d}")


def local_url(store: str, number: int, index: int) -> str:
    """Return the URL of a partition's local state in a checkpoint."""
    return storage.join(checkpoint_url(store, number), f"local-{index:06d}.npz")


def digest_of(data: bytes) -> str:
    """Return a short digest of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


def one_thread() -> AbstractContextManager[object]:
    """Let linear algebra use one thread: more of them would change bits."""
    return _controller().limit(limits=1)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
