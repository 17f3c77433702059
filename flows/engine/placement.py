"""Which worker does which block: sizes of blocks, where their data are, who is late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flows.engine.block import Order

BLOCKS_PER_WORKER = 4
PIECES_PER_WORKER = 64
LATE_FACTOR = 4.0  # a block is late after so many times the longest of its kind,
LATE_FLOOR = 4.0  # and so many seconds more;
# Or so many seconds when none of its kind was finished yet: a worker that is gone or stopped
# is found by its heartbeat long before, and a large block that is asked for twice costs double.
UNKNOWN = 600.0
SUSPECT = 60.0  # seconds that a late worker is not preferred


def balanced(partitions: int, slots: int) -> list[tuple[int, int]]:
    """Return one to four aligned blocks a slot, the fewest that are best balanced.

    >>> balanced(16, 1), balanced(16, 2), balanced(12, 3)
    ([(0, 16)], [(0, 8), (8, 16)], [(0, 4), (4, 8), (8, 12)])
    """
    size, best = 1, (partitions + 1, 0, 1)
    while True:
        count = -(-partitions // size)
        if count <= BLOCKS_PER_WORKER * slots:
            best = min(best, (-(-count // slots) * size, count, size))
        if size >= partitions:
            break
        size *= 2
    size = best[2]
    return [(start, min(start + size, partitions)) for start in range(0, partitions, size)]


class Placement:
    """What is known of the workers of one run.

    Parameters
    ----------
    workers
        Returns the present workers by address, each with ``nthreads``.
    now
        Returns the time in seconds.

    Attributes
    ----------
    home
        The worker that last did a partition, by the partition's id.
    """

    def __init__(
        self, workers: Callable[[], dict[str, dict[str, Any]]], now: Callable[[], float]
    ) -> None:
        self._workers, self._now = workers, now
        self.home: dict[int, str] = {}
        self._suspects: dict[str, float] = {}
        self._longest: dict[str, float] = {}

    def slots(self) -> dict[str, int]:
        """Return the threads of the workers that are not late, or of all if all are."""
        now = self._now()
        self._suspects = {a: t for a, t in self._suspects.items() if now - t < SUSPECT}
        slots = {a: int(info["nthreads"]) for a, info in self._workers().items()}
        prompt = {a: threads for a, threads in slots.items() if a not in self._suspects}
        return prompt or slots

    def rounds(self, blocks: int) -> int:
        """Return how many blocks the busiest thread does."""
        return -(-blocks // max(1, sum(self.slots().values())))

    def blocks(self, partitions: int) -> list[tuple[int, int]]:
        """Return one to four blocks a worker, the fewest that are best balanced."""
        return balanced(partitions, max(1, sum(self.slots().values())))

    def pieces(self, partitions: int) -> list[tuple[int, int]]:
        """Return many small blocks a worker, for work done once, which takes longer than a sweep.

        So a worker that dies or is late takes little with it, and the first block is soon
        done, which says how long the others may take. Their sizes are powers of two: each lies
        within one block of a sweep, whose worker has its data.
        """
        most, size = PIECES_PER_WORKER * max(1, sum(self.slots().values())), 1
        while size * most < partitions:
            size *= 2
        return [(start, min(start + size, partitions)) for start in range(0, partitions, size)]

    def placed(self, orders: Sequence[Order]) -> list[str | None]:
        """Give each block the worker that has its data, without overloading any."""
        slots = self.slots()
        if not slots:
            return [None] * len(orders)
        share = -(-len(orders) // sum(slots.values()))
        free = {address: share * threads for address, threads in slots.items()}
        placed: list[str | None] = [None] * len(orders)
        for i, order in enumerate(orders):
            home = self.home.get(order.start)
            if home is not None and free.get(home, 0) > 0:
                placed[i] = home
                free[home] -= 1
        for i, worker in enumerate(placed):
            if worker is None:
                chosen = max(free, key=lambda address: free[address])
                placed[i] = chosen
                free[chosen] -= 1
        return placed

    def done(self, order: Order, worker: str, seconds: float) -> None:
        """Note who did a block and how long it took."""
        self.home.update(dict.fromkeys(order.ids, worker))
        self._suspects.pop(worker, None)
        kind = order.action.__name__
        self._longest[kind] = max(seconds, 0.8 * self._longest.get(kind, 0.0))

    def patience(self, order: Order, rounds: int) -> float:
        """Return the seconds after which a block is late."""
        longest = self._longest.get(order.action.__name__)
        return UNKNOWN if longest is None else LATE_FLOOR + LATE_FACTOR * longest * rounds

    def instead(self, late: str | None, turn: int) -> str | None:
        """Return another worker than the late one, which is not preferred for a time."""
        if late is not None:
            self._suspects[late] = self._now()
        others = [address for address in self.slots() if address != late]
        return others[turn % len(others)] if others else None
