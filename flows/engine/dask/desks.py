"""Workers that are asked directly: a plugin lets each take orders that no scheduler plans.

A task and its result take some ten milliseconds through the scheduler's planning; a message to
a worker is passed on by it and no more. Nobody looks after such a message: it is lost with the
worker. It is no actor, because Dask does not retire a worker that has one.
"""

from __future__ import annotations

import asyncio
import logging
import queue
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from distributed import Client, Worker, WorkerPlugin, get_worker
from distributed.protocol import Serialize, to_serialize

from flows.engine.block import Job, Order
from flows.engine.seam import Lost, Outcome, Result, Sent, Task
from flows.engine.worker import Done, JobUnknown, LogNeeded, held, settle, work_on

log = logging.getLogger(__name__)

WORK = "vbflows_work"


def work(order: Order, job: Job | None) -> Done | JobUnknown | LogNeeded:
    """Run one block in a Dask worker; see `flows.engine.worker.work_on`."""
    return _work_at(get_worker(), order, job)


def _work_at(worker: Worker, order: Order, job: Job | None) -> Done | JobUnknown | LogNeeded:
    settle()
    limit = worker.memory_manager.memory_limit
    return work_on(held, job, order, worker.address, limit, worker.local_directory)


class Desk(WorkerPlugin):
    """Lets a worker take orders one after the other, in a thread of their own."""

    name = "vbflows-desk"

    def setup(self, worker: Worker) -> None:
        """Answer to messages with orders."""
        self.worker = worker
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        worker.handlers[WORK] = self.answer

    def teardown(self, worker: Worker) -> None:
        """Leave it to whoever comes next; what is at work ends."""
        self.thread.shutdown(wait=False)

    async def answer(self, order: Order, job: Job | None) -> Any:
        """Run one block; see `work`. What it raises is for the task that is then sent."""
        one = partial(_work_at, self.worker, order, job)
        try:
            done = await asyncio.get_running_loop().run_in_executor(self.thread, one)
        except Exception as error:
            log.debug("a block that was asked for directly failed: %s", error)
            return None
        return to_serialize(done)


class Direct:
    """What was asked of a desk."""

    def __init__(self) -> None:
        self.heard: Outcome = Lost()

    def outcome(self) -> Outcome:
        """Return the result; all else is lost."""
        return self.heard

    def release(self) -> None:
        """Leave it: what is with a worker is done to its end."""


class Desks:
    """The desks of a client's workers.

    Parameters
    ----------
    client
        Dask's client.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._installing: asyncio.Future[Any] | None = None

    def ask(self, task: Task, mailbox: queue.SimpleQueue[tuple[Any, Sent]], tag: Any) -> Direct:
        """Ask the desk of the task's worker; what becomes of it is put into a mailbox."""
        order, job = task.arguments
        one = Direct()
        scheduler: Any = self.client.scheduler
        loop: Any = self.client.loop

        async def hear() -> None:
            message = {"op": WORK, "order": to_serialize(order), "job": to_serialize(job)}
            try:
                await self._installed()
                answer = await scheduler.proxy(worker=task.worker, msg=message)
                if isinstance(answer, Serialize):  # of a worker in this process
                    answer = answer.data
                if isinstance(answer, Done | JobUnknown | LogNeeded):
                    one.heard = Result(answer)
            except Exception as error:
                log.debug("worker %s did not answer directly: %s", task.worker, error)
            finally:  # also where the client drops it, as it does when its connection breaks
                mailbox.put((tag, one))

        loop.add_callback(hear)
        return one

    async def _installed(self) -> None:
        """Wait until every worker has a desk; those that are still to come will have one, too."""
        broken = self._installing is not None and self._installing.cancelled()
        if self._installing is None or broken:
            self._installing = asyncio.ensure_future(self.client.register_plugin(Desk()))
        await asyncio.shield(self._installing)
