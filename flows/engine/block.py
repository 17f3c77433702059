"""The worker's side of a fit: run one block of partitions, wherever that is.

A block is a complete aligned subtree of the tree over partition ids, so the sums of blocks finish
to the same bits whatever the size of the blocks (`vbmodels.core.in_process.tree_sum`). Running one
twice is harmless: everything here is a function of the job, the stored partitions, the last
checkpoint and the logged global parameters; what the cache holds only saves work. Nothing here
knows a cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache as once
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from flows.data import storage
from flows.data.states import read_state, state_of
from flows.data.storage import StorageError
from flows.engine.cache import Cache
from flows.faults import ComputeError
from vbmodels.core.in_process import TreeSum, tree_sum
from vbmodels.core.protocol import Rebuilding
from vbmodels.core.state import State, Stats, aligned, to_bytes

COLD = -1  # stands for "no warm start" where a number is stored


class PartitionMemoryError(ComputeError):
    """A partition does not fit into a worker's memory; one sentence for the user."""


class LogMissing(LookupError):
    """A local state must be replayed, and the order says of no log of global parameters."""


@dataclass(frozen=True)
class Job:
    """One fit: what is fitted to what, where it is kept, and when it stops.

    Attributes
    ----------
    model
        The model; it must be picklable.
    batch
        Class of a partition's data.
    partitions
        URL of every partition; its position is its id.
    store
        URL of the run's folder: checkpoints and global parameters live below it.
    run_id
        Name of the run, for messages.
    seed
        Seed of the start.
    tol
        Relative tolerance on the bound; see `vbmodels.core.convergence.UntilConverged`.
    max_iter
        Most sweeps.
    checkpoint_every
        Sweeps between two checkpoints.
    settings
        Further (name, value) pairs that a resumed run must share.
    start
        URL of the global parameters of an earlier fit to start near, where the model can.
    """

    model: Any
    batch: type[State]
    partitions: tuple[str, ...]
    store: str
    run_id: str
    seed: int = 0
    tol: float = 1e-8
    max_iter: int = 1000
    checkpoint_every: int = 10
    settings: tuple[tuple[str, str], ...] = ()
    start: str | None = None


@dataclass(frozen=True)
class Globals(State):
    """Global parameters as logged for a sweep, with the start that it took."""

    q: State
    number: int
    warm: int  # COLD for a cold start


@dataclass(frozen=True)
class Order:
    """What one block of partitions is asked to do.

    Attributes
    ----------
    action
        `observe`, `sweep`, `keep_locals`, `load_locals` or `apply`.
    start, stop, every
        The block's partition ids: start, start + every, ... below stop.
    groups
        In how many parts sweeps are done; partition i belongs to part i mod groups.
    attempt
        Names one executor's life; caches are not shared between attempts.
    number
        The sweep, or the sweep whose local states are meant.
    warm
        The sweep whose local states are the start; None for a cold start.
    q
        The global parameters; None means that they are stored at ``place``.
    place
        URL of the stored global parameters.
    log
        URL of the folder with those of earlier sweeps, for replay; None where they are not
        stored.
    checkpoints
        Numbers of the complete checkpoints, newest first.
    carries
        Whether the model has local states; False lets a miss skip the replay.
    function
        What `apply` calls.
    """

    action: Callable[[Order, Job, Cache], Any]
    start: int
    stop: int
    attempt: str
    number: int | None = None
    warm: int | None = None
    q: Any = None
    place: str | None = None
    log: str | None = None
    checkpoints: tuple[int, ...] = ()
    carries: bool = True
    function: Callable[..., Any] | None = None
    every: int = 1
    groups: int = 1

    @property
    def ids(self) -> range:
        """The block's partition ids."""
        return range(self.start, self.stop, self.every)


@dataclass(frozen=True)
class Observed:
    """Sum of a block's first statistics, and what its files hold."""

    stats: Stats
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Swept:
    """Sum of a block's statistics, and whether any partition has a local state."""

    stats: Stats
    carries: bool


def joined(parts: Sequence[Any]) -> Any:
    """Join the results of neighbouring blocks, in order, to the result of one order."""
    if isinstance(parts[0], Observed):
        digests = tuple(digest for part in parts for digest in part.digests)
        return Observed(tree_sum(aligned(part.stats) for part in parts), digests)
    if isinstance(parts[0], Swept):
        stats = tree_sum(aligned(part.stats) for part in parts)
        return Swept(stats, any(part.carries for part in parts))
    if isinstance(parts[0], dict):
        return {name: digest for part in parts for name, digest in part.items()}
    return [result for part in parts for result in part]


def one_thread() -> AbstractContextManager[object]:
    """Let linear algebra use one thread: more of them would change bits."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1)
    return limited


@once
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def observe(order: Order, job: Job, cache: Cache) -> Observed:
    """Read every partition once: its first statistics and its digest."""
    digests, total = [], TreeSum[Any]()
    for index in order.ids:
        with _blamed(job, index, cache):
            batch, digest = _read(order, job, index, cache)
            digests.append(digest)
            total.add(job.model.observe(batch))
    return Observed(total.value(), tuple(digests))


def sweep(order: Order, job: Job, cache: Cache) -> Swept:
    """Run local steps at the order's global parameters and sum the statistics."""
    cache.begin_sweep(order.attempt, _number(order), order.warm)
    q = _point(order, cache)
    carries, total = False, TreeSum[Any]()
    for index in order.ids:
        with _blamed(job, index, cache):
            batch = _batch(order, job, index, cache)
            if order.warm is None:
                before = None
            else:
                before = local_state(order, job, index, order.warm, cache)
            local = _aligned(job.model.local_step(q, batch, before))
            carries = carries or local is not None
            stats = job.model.suff_stats(q, batch, local)
            cache.put_local(order.attempt, index, _number(order), local, keep=order.warm)
            total.add(stats)
    return Swept(total.value(), carries)


def keep_locals(order: Order, job: Job, cache: Cache) -> dict[str, str]:
    """Write the block's local states into a checkpoint; return the digest of each file."""
    written = {}
    for index in order.ids:
        local = local_state(order, job, index, _number(order), cache)
        if local is not None:
            data = to_bytes(local)
            # A local state that a loss of power takes is missed by the manifest's digest.
            storage.write_bytes(local_url(job.store, _number(order), index), data, durable=False)
            written[local_name(index)] = digest_of(data)
    return written


def load_locals(order: Order, job: Job, cache: Cache) -> dict[str, str]:
    """Read the block's local states from a checkpoint; return the digest of each file."""
    read = {}
    number = _number(order)
    for index in order.ids:
        url = local_url(job.store, number, index)
        data = storage.read_bytes(url)
        local = aligned(state_of(data, State, url))
        cache.put_local(order.attempt, index, number, local)
        read[local_name(index)] = digest_of(data)
    return read


def apply(order: Order, job: Job, cache: Cache) -> list[Any]:
    """Call ``function(model, q, batch, local, index)`` on each partition of the block.

    Without a sweep number the local state is None.
    """
    if order.function is None:
        raise ValueError("expected a function to apply, got none")
    q = _point(order, cache)
    results = []
    for index in order.ids:
        with _blamed(job, index, cache):
            batch = _batch(order, job, index, cache)
            local = None
            if order.number is not None:
                local = local_state(order, job, index, order.number, cache)
            results.append(order.function(job.model, q, batch, local, index))
    return results


def local_state(order: Order, job: Job, index: int, number: int, cache: Cache) -> Any:
    """Return a partition's local state after a sweep, from the cache, made again or by replay.

    Replay goes back along the chain of warm starts to a state that is there (the cache, a
    checkpoint, or a cold start) and runs the local steps from it again.
    """
    if not order.carries:
        return None
    if isinstance(job.model, Rebuilding):
        return _rebuilt(order, job, index, number, cache)
    chain: list[Globals] = []
    at: int | None = number
    while True:
        if at is None:
            local = None
            break
        found, local = cache.get_local(order.attempt, index, at)
        if found:
            break
        if at in order.checkpoints:
            local = _stored_local(job, index, at, cache)
            if local is not None:
                break
        logged = _logged(order, cache, at, index)
        chain.append(logged)
        at = None if logged.warm == COLD else logged.warm
    if chain:
        cache.note(
            f"partition {index}: replayed {len(chain)} local steps to sweep {number} "
            "because its local state was not in this worker's memory"
        )
        batch = _batch(order, job, index, cache)
        for logged in reversed(chain):
            local = _aligned(job.model.local_step(logged.q, batch, local))
    cache.put_local(order.attempt, index, number, local)
    return local


def _rebuilt(order: Order, job: Job, index: int, number: int, cache: Cache) -> Any:
    """Return a local state that follows from the data, made again if it is not there."""
    found, local = cache.get_local(order.attempt, index, number)
    if not found:
        batch, q = _batch(order, job, index, cache), _point(order, cache)
        local = _aligned(job.model.local_step(q, batch, None))
        cache.put_local(order.attempt, index, number, local)
    return local


def _stored_local(job: Job, index: int, number: int, cache: Cache) -> Any:
    url = local_url(job.store, number, index)
    try:
        return aligned(read_state(url, State))
    except StorageError as error:
        cache.note(f"{error}; going back to the checkpoint before")
        return None


def checkpoint_url(store: str, number: int) -> str:
    """Return the folder of the checkpoint made after a sweep."""
    return storage.join(store, "checkpoints", f"{number:08d}")


def local_name(index: int) -> str:
    """Return the name of a partition's local state in a checkpoint."""
    return f"local-{index:06d}.npz"


def local_url(store: str, number: int, index: int) -> str:
    """Return the URL of a partition's local state in a checkpoint."""
    return storage.join(checkpoint_url(store, number), local_name(index))


def globals_url(log: str, number: int, group: int) -> str:
    """Return the URL of the global parameters logged for a part of a sweep."""
    return storage.join(log, f"globals-{number:08d}-{group:03d}.npz")


def digest_of(data: bytes) -> str:
    """Return a short digest of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


def _number(order: Order) -> int:
    if order.number is None:
        raise ValueError("expected the number of a sweep, got none")
    return order.number


def _aligned(local: Any) -> Any:
    return None if local is None else aligned(local)


def _point(order: Order, cache: Cache) -> Any:
    """Return the global parameters that an order is about."""
    if order.q is not None:
        return aligned(order.q)
    if order.place is None:
        raise ValueError("expected global parameters or where they are, got neither")
    return _stored(order.place, cache).q


def _logged(order: Order, cache: Cache, number: int, index: int) -> Globals:
    if order.log is None:
        raise LogMissing(f"the global parameters of sweep {number} are not stored")
    return _stored(globals_url(order.log, number, index % order.groups), cache)


def _stored(url: str, cache: Cache) -> Globals:
    found: Globals = cache.globals(url, lambda: aligned(read_state(url, Globals)))
    return found


def _batch(order: Order, job: Job, index: int, cache: Cache) -> Any:
    batch = cache.get_data(order.attempt, index)
    return _read(order, job, index, cache)[0] if batch is None else batch


def _read(order: Order, job: Job, index: int, cache: Cache) -> tuple[Any, str]:
    url = job.partitions[index]
    data = storage.read_bytes(url)
    batch = aligned(state_of(data, job.batch, url))
    cache.put_data(order.attempt, index, batch)
    return batch, digest_of(data)


@contextmanager
def _blamed(job: Job, index: int, cache: Cache) -> Iterator[None]:
    """Say which partition an error came from."""
    try:
        yield
    except MemoryError as error:
        raise PartitionMemoryError(
            f"partition {index} ({job.partitions[index]}) does not fit into the memory of a "
            f"worker ({cache.limit_text}); use more partitions or give workers more memory"
        ) from error
    except np.linalg.LinAlgError as error:
        error.add_note(f"in partition {index} ({job.partitions[index]})")
        raise
