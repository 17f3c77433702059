"""The holders of a fit as Dask's actors: one on each worker, called past the scheduler."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import os
import platform
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError
from concurrent.futures import Future as Called
from contextlib import suppress
from functools import cache, partial
from typing import Any

from distributed import Future, get_worker
from distributed import wait as await_futures

from flows.fit.holder import Answer, Holder, collect_lines
from flows.fit.job import ClusterError, Job
from flows.fit.rolling import POLL, Lost, Rolling, Worker

START = 120.0  # seconds in which a worker makes a holder
REACH = 5.0  # seconds in which a worker answers a message
AWAKE = 5.0  # seconds after which a scheduler is shown that a fit goes on: actors do not count
MEMORY_SHARE = 0.4  # of a worker's memory limit, for data and local states


class OnWorker(Holder):
    """A holder in a worker of Dask, within its share of the worker's memory."""

    def __init__(self, job: Job, attempt: str, threads: int) -> None:
        worker = get_worker()
        limit = worker.memory_manager.memory_limit
        share = int(limit * MEMORY_SHARE) if limit else None
        super().__init__(job, threads, share, limit, worker.local_directory)
        self.attempt = attempt
        collect_lines()
        _keep_freed_memory()

    def call(self, method: str, *args: Any) -> Answer:
        """Call a method; an error that cannot be copied could not be sent and comes in words."""
        answer = super().call(method, *args)
        try:
            copy.deepcopy(answer.error)
        except Exception:
            error = RuntimeError(f"{type(answer.error).__name__}: {answer.error}")
            return Answer(None, error, answer.lines, answer.done)
        return answer


@cache
def _keep_freed_memory() -> None:
    """Let the memory of one temporary array serve the next.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_, which ends glibc's own adjustment of the size
    from which arrays are mapped one by one (mallopt(3)): each then costs its page faults.
    """
    if platform.libc_ver()[0] == "glibc" and "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, the largest that there is
        libc.mallopt(-1, 2**26)  # M_TRIM_THRESHOLD


class OnDask(Rolling):
    """The executor on a Dask cluster."""

    def __init__(self, job: Job, cluster: Any) -> None:
        super().__init__(job)
        self.cluster, self.client, self.name = cluster, cluster.client, cluster.name
        self._made: dict[str, Future[Any]] = {}
        self._old: list[Future[Any]] = []
        self._actors: dict[str, Any] = {}
        self._awake, self._attempt = 0.0, uuid.uuid4().hex

    def workers(self, silence: float) -> dict[str, Worker]:
        """Return the workers whose heart beat within so many seconds, by address."""
        found = self.cluster.workers(silence)
        self._show_life()
        return found

    def open(self, workers: Mapping[str, Worker]) -> None:
        """Make a holder on each of these workers."""
        if absent := workers.keys() - self.cluster.check_workers(list(workers)):
            raise Lost(f"{', '.join(sorted(absent))} does not answer", absent, died=False)
        self._old += self._made.values()
        make = partial(self.cluster.submit, "holder", OnWorker, self.job, self._attempt, actor=True)
        self._made = {a: make(worker.threads, workers=[a]) for a, worker in workers.items()}
        deadline = time.monotonic() + START
        with self.client.as_current():
            while open_ := {a for a, made in self._made.items() if made.status == "pending"}:
                with suppress(TimeoutError, CancelledError):
                    await_futures([self._made[address] for address in open_], timeout=POLL)
                    continue
                gone = open_ - self.cluster.workers().keys()
                if gone or time.monotonic() > deadline:
                    lost = gone or open_
                    raise Lost(f"{', '.join(sorted(lost))} took no holder", lost, died=False)
            self._actors = {address: self._actor(address) for address in self._made}
        self.client.direct_to_workers = self.cluster.sync(self._reachable)

    def _actor(self, address: str) -> Any:
        try:
            return self._made[address].result(timeout=REACH)
        except Exception as error:
            on_the_way = isinstance(error, OSError | TimeoutError | RuntimeError)
            own = None if on_the_way else ClusterError(f"worker {address} cannot fit: {error!r}")
            raise Lost(f"{address} took no holder: {error!r}", {address}, False, own) from error

    async def _reachable(self) -> bool:
        """Whether this process can speak to the workers itself; else the scheduler passes on."""

        async def one(address: str) -> bool:
            with suppress(OSError, TimeoutError):
                await asyncio.wait_for(self.client.rpc(address).identity(), REACH)
                return True
            return False

        return all(await asyncio.gather(*map(one, self._actors)))

    def call(self, method: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Called[Answer]]:
        """Call a method of holders, by address."""
        self._show_life()
        loop: Any = self.client.loop

        async def one(address: str) -> Any:
            return await self._actors[address].call(method, *args[address])

        return {a: asyncio.run_coroutine_threadsafe(one(a), loop.asyncio_loop) for a in args}

    def done(self, address: str) -> int:
        """Return how many partitions a holder has finished: Dask reads it while that works."""
        actor = self._actors[address]

        async def read() -> int:
            found = await actor._worker_rpc.actor_attribute(attribute="done", actor=actor.key)
            return int(found["result"])

        return int(self.client.sync(read, callback_timeout=REACH))

    def restart(self, address: str) -> None:
        """End a worker that hangs: it has one thread for all its actors."""
        self.cluster.restart([address])

    def forget(self) -> None:
        """Drop earlier holders now: actors are in cycles, which wait for Python's collector."""
        self.client.cancel(self._old, force=True)
        self._old = []

    def close(self) -> None:
        """Drop all holders; the cluster stays."""
        self._ready = False
        self._old += self._made.values()
        self._made, self._actors = {}, {}
        with suppress(Exception):  # of a client that has lost its scheduler
            self.forget()

    def _show_life(self) -> None:
        """Submit a task of nothing, so that a scheduler with an idle timeout does not end."""
        if time.monotonic() - self._awake > AWAKE:
            self._awake = time.monotonic()
            self.cluster.submit("awake", int)
