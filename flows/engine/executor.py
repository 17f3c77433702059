"""Executors: they carry out a job's work on its partitions, here or elsewhere.

An executor is a `vbmodels.core.protocol.Reduce`. What it asks of a block is an `Order`, the same
on every executor; subclasses say only how partitions are grouped into blocks and where
orders run.
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flows.data.storage import delete, join
from flows.engine import block
from flows.engine.block import Job, Observed, Order, Swept, joined, one_thread
from flows.engine.cache import Cache
from flows.engine.globals_log import GlobalsLog
from flows.engine.placement import balanced
from flows.engine.threads import in_threads
from vbmodels.core.protocol import Rebuilding

log = logging.getLogger(__name__)

OnProgress = Callable[[int, int], None]  # hears how many of how many are done


class Executor(ABC):
    """What every executor does; see `InProcess` and `flows.engine.on_cluster.OnCluster`.

    Attributes
    ----------
    job
        The job.
    checkpoints
        Numbers of the complete checkpoints that workers may start from, newest first.
    """

    def __init__(self, job: Job) -> None:
        if not job.partitions:
            raise ValueError("there is nothing to fit: expected at least one partition")
        self.job = job
        self.attempt = uuid.uuid4().hex[:12]
        self.checkpoints: tuple[int, ...] = ()
        self._carries = True
        self._groups = 1
        self._log: GlobalsLog | None = None

    @property
    def most_sweeps(self) -> int:
        """Sweeps that the fit may take; see `vbmodels.core.ascent.search`."""
        return self.job.max_iter

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.job.partitions)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the blocks as (start, stop) of partition ids: complete aligned subtrees."""
        return self.blocks_of(self.partitions)

    @abstractmethod
    def blocks_of(self, count: int) -> list[tuple[int, int]]:
        """Cut so many partitions into blocks, (start, stop) of their positions."""

    @abstractmethod
    def pieces(self) -> list[tuple[int, int]]:
        """Return the blocks for work that is done once, not in every sweep; aligned likewise."""

    @abstractmethod
    def run(
        self, order: Order, blocks: Sequence[tuple[int, int]], on_progress: OnProgress | None = None
    ) -> Any:
        """Carry out an order on the blocks, and return their joined result."""

    @abstractmethod
    def prepare(self) -> None:
        """Store what workers need, if they do not have it; called before any work."""

    def close(self) -> None:
        """Release what the executor holds."""
        if self._log is not None:
            delete(join(self.job.store, "work"))
            self._log = None

    def observe(self) -> Observed:
        """Return the summed statistics of the start, and the digest of every partition."""
        observed: Observed = self.run(self._order(block.observe), self.blocks())
        return observed

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `vbmodels.core.protocol.Reduce`."""
        return self.visit(q, number=number, warm=warm, group=0, groups=1)

    def visit(self, q: Any, *, number: int, warm: int | None, group: int, groups: int) -> Any:
        """Run a part of a sweep; see `vbmodels.core.protocol.Visiting`.

        Every worker's partitions are spread over all parts, so each has work in each of them. The
        blocks are subtrees of the tree over a part's partitions.
        """
        self._groups = groups
        ids = range(group, self.partitions, groups)
        blocks = [(ids[a], ids[b - 1] + 1) for a, b in self.blocks_of(len(ids))]
        where = self._place(q, number, warm, len(blocks), group)
        order = self._order(block.sweep, number=number, warm=warm, every=groups, **where)
        swept: Swept = self.run(order, blocks)
        self._carries = swept.carries
        return swept.stats

    def map(
        self,
        function: Callable[..., Any],
        q: Any,
        number: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """Return ``function(model, q, batch, local, index)`` of each partition, in order.

        Parameters
        ----------
        function
            A function of a module, or a `functools.partial` of one. Its results should be
            small; it writes large ones through `flows.data.storage` itself.
        q
            The global parameters.
        number
            The sweep whose local states are meant; None for none.
        on_progress
            Called with the pieces of work that are done and all there are, after each; what it
            raises ends the work.
        """
        pieces = self.pieces()
        where = self._place(q, None, None, len(pieces))
        order = self._order(block.apply, number=number, function=function, **where)
        results: list[Any] = self.run(order, pieces, on_progress)
        return results

    def checkpoint_locals(self, number: int) -> dict[str, str]:
        """Write the local states that must be kept; return the digest of each file."""
        if not self._carries or isinstance(self.job.model, Rebuilding):
            return {}
        written: dict[str, str] = self.run(
            self._order(block.keep_locals, number=number), self.blocks()
        )
        return written

    def restore(self, number: int, carries: bool) -> dict[str, str]:
        """Take the local states of a checkpoint; return the digest of each file read."""
        self._carries = carries
        if not carries:
            return {}
        read: dict[str, str] = self.run(
            self._order(block.load_locals, number=number), self.blocks()
        )
        return read

    def checkpointed(self, numbers: Sequence[int]) -> None:
        """Note which checkpoints are complete, newest first, and drop what they replace."""
        self.checkpoints = tuple(numbers)
        if self._log is not None and self.checkpoints:
            self._log.forget(self.checkpoints[-1])

    def _order(self, action: Callable[..., Any], **fields: Any) -> Order:
        self.prepare()
        return Order(
            action=action,
            start=0,
            stop=0,
            attempt=self.attempt,
            log=None if self._log is None else self._log.whole,
            checkpoints=self.checkpoints,
            carries=self._carries,
            groups=self._groups,
            **fields,
        )

    def _place(
        self, q: Any, number: int | None, warm: int | None, blocks: int, group: int = 0
    ) -> dict[str, Any]:
        """Say where the orders of so many blocks find the global parameters."""
        self.prepare()
        return {"q": q} if self._log is None else self._log.place(q, number, warm, blocks, group)


class InProcess(Executor):
    """The executor in this process.

    Parameters
    ----------
    job
        The job.
    memory
        Most bytes of data and local states held in memory; by default half of the
        machine's. What does not fit is read, or kept on the local disk.
    threads
        How many blocks are done at once; sums are the same.
    """

    def __init__(self, job: Job, memory: int | None = None, threads: int = 1) -> None:
        super().__init__(job)
        self.cache = Cache(memory)
        self.threads = threads

    def prepare(self) -> None:
        """Store nothing: all is in this process."""

    def blocks_of(self, count: int) -> list[tuple[int, int]]:
        """Return one block of all, or a few for each thread."""
        return [(0, count)] if self.threads == 1 else balanced(count, self.threads)

    def pieces(self) -> list[tuple[int, int]]:
        """Return every partition by itself."""
        return [(i, i + 1) for i in range(self.partitions)]

    def run(
        self, order: Order, blocks: Sequence[tuple[int, int]], on_progress: OnProgress | None = None
    ) -> Any:
        """Carry out an order here, one block after the other or some at once."""
        calls = [
            partial(order.action, replace(order, start=start, stop=stop), self.job, self.cache)
            for start, stop in blocks
        ]
        with one_thread():
            results = in_threads(calls, self.threads, on_progress)
        for line in self.cache.take_notes():
            log.info(line)
        return joined(results)

    def close(self) -> None:
        """Forget data and local states."""
        super().close()
        self.cache = Cache(self.cache.memory)
