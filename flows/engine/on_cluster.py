"""A job on a cluster: which block is asked of whom, when again, and when to give up.

The cost of a sweep follows the number of tasks, so a sweep is a few of them, one to four
blocks of partitions a worker. A worker that has the job is asked directly (`Task.direct`);
whatever is late or lost, and all else, is a plain task of the scheduler with an explicit key.
The job travels inside the first task that a worker gets and stays in its memory; a worker
without it says so and is asked again. Small global parameters travel inside the order; large
ones are files in the run's store, as arrays with a checksum, and a task holds their URL
(`flows.engine.globals_log`): nothing that is read from storage is unpickled.
Blocks prefer the worker that has their data, but any worker can do any block, and a late
one is asked for again elsewhere: the first result wins. Tasks are never chained and are
released after each sweep, so the scheduler's memory stays flat.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flows.data.storage import delete, join
from flows.engine.block import Job, Order, PartitionMemoryError, joined, sweep
from flows.engine.executor import Executor, OnProgress
from flows.engine.globals_log import GlobalsLog
from flows.engine.handshake import ClusterError, refuse_other_environment
from flows.engine.placement import Placement
from flows.engine.seam import POLL, Deadly, Mailbox, Raised, Result, Sent, Task
from flows.engine.worker import Done, JobUnknown, LogNeeded, environment

if TYPE_CHECKING:
    from flows.engine.calls import Cluster

log = logging.getLogger(__name__)

DEATHS = 2  # times that a block may lose all workers until it counts as deadly
LATE = 6  # times that a block may be late, with twice the patience each time, and
ASKS = 24  # times that it is asked for, for whatever reason, until a run gives up
LOOK = 5.0  # seconds between two questions whether the scheduler has a block with a worker


@dataclass
class _Asked:
    """One block of a sweep: what was asked for, where, and when."""

    position: int
    order: Order
    tries: int = 0
    key: str = ""  # of the last try
    missing: bool = False  # whether the scheduler was found to have that with nobody
    since: float = 0.0
    worker: str | None = None
    direct: bool = False  # whether the worker was asked past the scheduler
    seen: frozenset[str] = frozenset()  # the workers when it was asked for
    deaths: int = 0  # times that all of those were gone
    late: int = 0
    sent: list[Sent] = field(default_factory=list)


class OnCluster(Executor):
    """The executor on a cluster.

    Parameters
    ----------
    job
        The job.
    cluster
        The cluster.
    """

    def __init__(self, job: Job, cluster: Cluster) -> None:
        super().__init__(job)
        self.cluster, self.seam = cluster, cluster.seam
        self._informed: set[str] = set()  # workers that have the job
        self.placement = Placement(cluster.workers, cluster.seam.now)
        self._said_cpu = False
        self._serial = 0
        self._spent: list[_Asked] = []
        self._suspect = False  # whether one partition is with the workers, and nothing else
        self._mailbox: Mailbox = self.seam.mailbox()

    def prepare(self) -> None:
        """Begin the log of global parameters, and remove one of an earlier attempt."""
        if self._log is not None:
            return
        delete(join(self.job.store, "work"))
        self._log = GlobalsLog(join(self.job.store, "work", self.attempt))

    def close(self) -> None:
        """Remove what was stored for the workers; the cluster stays."""
        for block in self._spent:
            _release(block)
        self._spent = []
        self.cluster.ended(self.attempt)
        super().close()

    def blocks_of(self, count: int) -> list[tuple[int, int]]:
        """Return one to four blocks a worker, the fewest that are best balanced."""
        return self.placement.blocks(count)

    def pieces(self) -> list[tuple[int, int]]:
        """Return many small blocks a worker."""
        return self.placement.pieces(len(self.job.partitions))

    def run(
        self, order: Order, blocks: Sequence[tuple[int, int]], on_progress: OnProgress | None = None
    ) -> Any:
        """Submit the order of each block, ask again for what is late or lost, and join."""
        return joined(self._run([replace(order, start=a, stop=b) for a, b in blocks], on_progress))

    def _run(self, orders: Sequence[Order], on_progress: OnProgress | None = None) -> list[Any]:
        self._serial += 1
        # A mailbox of its own: what is still to come of an earlier sweep is not heard.
        self._mailbox = self.seam.mailbox()
        asked = [_Asked(i, order) for i, order in enumerate(orders)]
        results: dict[int, Any] = {}
        rounds = self.placement.rounds(len(orders))
        spent, self._spent = self._spent, asked
        self._submit(asked, self.placement.placed(orders))
        # After the new ones: what the client sends next waits for 10 ms.
        for block in spent:
            _release(block)
        self._collect(asked, results, rounds, on_progress)
        return [results[i] for i in range(len(orders))]

    def _collect(
        self,
        asked: list[_Asked],
        results: dict[int, Any],
        rounds: int,
        on_progress: OnProgress | None,
    ) -> None:
        looked = sought = self.seam.now()
        while len(results) < len(asked):
            for block, sent in self._mailbox.take(POLL):
                if block.position not in results:
                    self._take(block, sent, results)
                    if on_progress is not None and block.position in results:
                        on_progress(len(results), len(asked))
            if self.seam.now() - looked > POLL:
                looked = self.seam.now()
                self.cluster.await_workers()
                for open_ in [b for b in asked if b.position not in results]:
                    self._look_after(open_, results, rounds)
            if self.seam.now() - sought > LOOK:
                sought = self.seam.now()
                self._ask_for_missing([b for b in asked if b.position not in results])

    def _take(self, block: _Asked, sent: Sent, results: dict[int, Any]) -> None:
        """Take what has become of a block: a result, an error, or nothing (then ask again)."""
        if sent not in block.sent:
            return
        outcome = sent.outcome()
        if isinstance(outcome, Result):
            done: Done | JobUnknown | LogNeeded = outcome.value
            if isinstance(done, JobUnknown):
                self._informed.discard(done.worker)
                self._submit([block], [None])
                return
            if isinstance(done, LogNeeded):
                self._informed.add(done.worker)
                block.order = replace(block.order, log=self._logged())
                self._submit([block], [done.worker])
                return
            results[block.position] = self._accept(block, done)
        elif isinstance(outcome, Deadly):
            self._find_deadly(block, results)
        elif isinstance(outcome, Raised):
            if isinstance(outcome.error, PartitionMemoryError):
                raise ClusterError(str(outcome.error)) from outcome.error
            raise outcome.error
        else:
            self.cluster.check()
            self._submit([block], [None])

    def _logged(self) -> str | None:
        """Return where all logged global parameters stand, stored now if they are not."""
        return None if self._log is None else self._log.stored()

    def _find_deadly(self, block: _Asked, results: dict[int, Any]) -> None:
        """Find out whether workers die of a block, and of which partition of it.

        A block that was with a worker when that died need not be the cause: all that a worker
        was given goes down with it. So each partition is tried with no other at work.
        """
        order = block.order
        if self._suspect:
            raise self._deadly(order)
        log.warning(
            f"workers died on partitions {order.start} to {order.stop - 1}; trying them one by one"
        )
        others = [b for b in self._spent if b.position not in results and b is not block]
        for open_ in (block, *others):
            _release(open_)
        parts = []
        for index in order.ids:
            parts += self._alone(replace(order, start=index, stop=index + 1))
        results[block.position] = joined(parts)
        for open_ in others:
            open_.deaths = 0
        self._submit(others, [None] * len(others))

    def _alone(self, order: Order) -> list[Any]:
        """Run one order while those of its sweep wait."""
        mailbox, spent = self._mailbox, self._spent
        self._spent, self._suspect = [], True
        try:
            return self._run([order])
        finally:
            for block in self._spent:
                _release(block)
            self._mailbox, self._spent, self._suspect = mailbox, spent, False

    def _deadly(self, order: Order) -> ClusterError:
        limits = [int(info.get("memory_limit") or 0) for info in self.cluster.workers().values()]
        limit = f"{max(limits) / 2**20:.0f} MB" if any(limits) else "none"
        return ClusterError(
            f"workers die on partition {order.start} ({self.job.partitions[order.start]}), most "
            f"likely out of memory (limit of a worker: {limit}); use more partitions or give "
            "workers more memory"
        )

    def _accept(self, block: _Asked, done: Done) -> Any:
        """Note where a block was done and how long it took; forward its log lines."""
        self._informed.add(done.worker)
        ours = environment()
        refuse_other_environment(self.cluster, f"worker {done.worker}", ours, done.environment)
        if done.environment["cpu"] != ours["cpu"] and not self._said_cpu:
            self._said_cpu = True
            log.warning(
                f"worker {done.worker} has another type of processor than this process: the last "
                "bits of a result may depend on which worker made it"
            )
        for level, line in done.lines:
            log.log(level, f"{done.worker}: {line}")
        self.placement.done(block.order, done.worker, done.seconds)
        return done.value

    def _submit(self, blocks: Sequence[_Asked], workers: Sequence[str | None]) -> None:
        """Ask for blocks in one message: Dask's client sends at most one each 10 ms."""
        if not blocks:
            return
        present = frozenset(self.cluster.workers())
        tasks = []
        for block, worker in zip(blocks, workers, strict=True):
            order = block.order
            if block.tries >= ASKS:
                raise self._unanswered(block)
            key = (
                f"vbflows-{order.action.__name__}-{self.attempt}-{self._serial}"
                f"-{order.start}-{order.stop}-{block.tries}"
            )
            block.tries += 1
            block.key, block.missing = key, False
            block.since, block.worker, block.seen = self.seam.now(), worker, present
            job = None if worker in self._informed else self.job
            block.direct = direct = self._may_be_direct(block)
            tasks.append(Task(key, (order, job), worker, direct))
        sent = self.seam.send(self.seam.work, tasks, self._mailbox, blocks)
        for block, one in zip(blocks, sent, strict=True):
            block.sent.append(one)

    def _may_be_direct(self, block: _Asked) -> bool:
        """Whether to ask a worker past the scheduler: the first time, in a sweep, if it is known.

        A desk does one thing after the other, so a worker with threads is asked for tasks.
        """
        info = self.cluster.workers().get(block.worker or "", {})
        of_a_sweep = block.order.action is sweep and not self._suspect
        known = block.worker in self._informed and info.get("nthreads") == 1
        return of_a_sweep and known and block.tries == 1

    def _look_after(self, block: _Asked, results: dict[int, Any], rounds: int) -> None:
        """Ask again for a block that is stranded or late; the first result wins."""
        present = set(self.cluster.workers())
        if present and not block.seen & present:
            # Dask leaves a task that prefers a worker unscheduled for good once there was a
            # moment without workers (state "no-worker"), so it is asked for without.
            block.deaths += 1
            if block.deaths > DEATHS:
                self._find_deadly(block, results)
            else:
                self._submit([block], [None])
            return
        if block.direct and block.worker not in present:
            self._submit([block], [None])
            return
        waited = self.seam.now() - block.since
        if waited < self.placement.patience(block.order, rounds) * 2**block.late:
            return
        if block.late >= LATE:
            raise self._unanswered(block)
        block.late += 1
        other = self.placement.instead(block.worker, block.position + block.tries)
        log.warning(
            f"partitions {block.order.start} to {block.order.stop - 1} are late after "
            f"{waited:.1f} s on {block.worker or 'a worker'}; asking for them again"
        )
        self._submit([block], [other])

    def _ask_for_missing(self, blocks: Sequence[_Asked]) -> None:
        """Ask again, of anyone, for what the scheduler has with nobody, twice in a row.

        A task that prefers a worker which has just gone, and arrives while those that are there
        are paused for lack of memory, is left unscheduled for good: `_look_after` does not see it,
        as there are workers.
        """
        at_scheduler = [block for block in blocks if not block.direct]
        if not at_scheduler:
            return
        underway = self.cluster.underway([block.key for block in at_scheduler])
        for block, known in zip(at_scheduler, underway, strict=True):
            if not known and block.missing:
                self._submit([block], [None])
            else:
                block.missing = not known

    def _unanswered(self, block: _Asked) -> ClusterError:
        return ClusterError(
            f"partitions {block.order.start} to {block.order.stop - 1} were asked of "
            f"{self.cluster.name} {block.tries} times without an answer; look at the scheduler's "
            "and the workers' logs, and go on with --resume"
        )


def _release(block: _Asked) -> None:
    for sent in block.sent:
        sent.release()
    block.sent.clear()
