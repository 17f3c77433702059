"""The holders of a fit as Dask's actors: one on each worker, called past the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future as Called
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Future, get_worker

from flows.fit.holder import Answer, Holder, collect_lines
from flows.fit.job import ClusterError, Job
from flows.fit.rolling import POLL, Lost, Rolling, Worker

START = 120.0  # seconds in which a worker makes a holder
REACH = 5.0  # seconds in which a worker answers a message
AWAKE = 5.0  # seconds after which a scheduler is shown that a fit goes on: actors do not count


def make_holder(job: Job, threads: int) -> Holder:
    """Return a holder, in a worker of Dask."""
    collect_lines()
    return Holder(job, threads, limit=get_worker().memory_manager.memory_limit)


class OnDask(Rolling):
    """The executor on a Dask cluster."""

    def __init__(self, job: Job, cluster: Any) -> None:
        super().__init__(job)
        self.cluster, self.client, self.name = cluster, cluster.client, cluster.name
        self._made: dict[str, Future[Any]] = {}
        self._actors: dict[str, Any] = {}
        self._awake = 0.0

    def workers(self, silence: float) -> dict[str, Worker]:
        """Return the workers whose heart beat within so many seconds, by address."""
        found: dict[str, Worker] = self.cluster.workers(silence)
        self._show_life()
        return found

    def open(self, workers: Mapping[str, Worker]) -> None:
        """Make a holder on each of these workers that has none."""
        if absent := workers.keys() - self.cluster.check_workers(list(workers)):
            raise Lost(f"{', '.join(sorted(absent))} does not answer", absent, died=False)
        alive = ("pending", "finished")
        self.drop([a for a, made in self._made.items() if made.status not in alive])
        for address in workers.keys() - self._made.keys():
            self._made[address] = self.cluster.submit(
                "holder", make_holder, self.job, workers[address].threads, actor=True,
                workers=[address],
            )  # fmt: skip
        deadline = time.monotonic() + START
        while open_ := {a for a in workers if self._made[a].status == "pending"}:
            gone = open_ - self.cluster.workers().keys()
            if gone or time.monotonic() > deadline:
                lost = gone or open_
                raise Lost(f"{', '.join(sorted(lost))} took no holder", lost, died=False)
            time.sleep(POLL / 20)
        for address in workers.keys() - self._actors.keys():
            self._actors[address] = self._actor(address)
        self.client.direct_to_workers = self.cluster.sync(partial(self._reachable, workers))

    def _actor(self, address: str) -> Any:
        try:
            with self.client.as_current():
                return self._made[address].result(timeout=REACH)
        except Exception as error:
            on_the_way = isinstance(error, OSError | TimeoutError | RuntimeError)
            own = None if on_the_way else ClusterError(f"worker {address} cannot fit: {error!r}")
            raise Lost(f"{address} took no holder: {error!r}", {address}, False, own) from error

    async def _reachable(self, workers: Iterable[str]) -> bool:
        """Whether this process can speak to the workers itself; else the scheduler passes on."""
        calls = [asyncio.wait_for(self.client.rpc(a).identity(), REACH) for a in workers]
        found = await asyncio.gather(*calls, return_exceptions=True)
        return not any(isinstance(one, BaseException) for one in found)

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

    def drop(self, workers: Iterable[str]) -> None:
        """Forget holders now: actors are in cycles, which wait for Python's collector."""
        dropped = [self._made.pop(address) for address in list(workers) if address in self._made]
        self._actors = {a: actor for a, actor in self._actors.items() if a in self._made}
        with suppress(Exception):  # of a client that has lost its scheduler
            self.client.cancel(dropped, force=True)

    def close(self) -> None:
        """Drop all holders; the cluster stays."""
        self._ready = False
        self.drop(list(self._made))

    def _show_life(self) -> None:
        """Submit a task of nothing, so that a scheduler with an idle timeout does not end."""
        if time.monotonic() - self._awake > AWAKE:
            self._awake = time.monotonic()
            self.cluster.submit("awake", int)
