"""The sum over partitions, and the executor that makes it in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from vbmodels.core.protocol import Model
from vbmodels.core.state import Stats, aligned

S = TypeVar("S", bound=Stats)
R = TypeVar("R")


class TreeSum(Generic[S]):
    """A sum of statistics over the fixed binary tree of their positions.

    The tree splits n parts at the largest power of two below n, so the sum over complete
    subtrees can be made elsewhere and finished here with the same bits. Parts arrive one at a
    time: at most log2(n) + 1 partial sums are held.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[int, S]] = []

    def add(self, part: S) -> None:
        """Add the next part."""
        size, total = 1, part
        while self._pending and self._pending[-1][0] == size:
            size, total = 2 * size, self._pending.pop()[1] + total
        self._pending.append((size, total))

    def value(self) -> S:
        """Return the sum; nothing can be added after it."""
        if not self._pending:
            raise ValueError("there is nothing to add: expected at least one partition")
        total = self._pending.pop()[1]
        while self._pending:
            total = self._pending.pop()[1] + total
        return total


def tree_sum(parts: Iterable[S]) -> S:
    """Return the `TreeSum` of parts."""
    total = TreeSum[S]()
    for part in parts:
        total.add(part)
    return total.value()


class InProcess:
    """The executor in this process, with threads over partitions where that helps.

    Parameters
    ----------
    model
        The model.
    batches
        One partition's data each; their order is the order of the partition ids.
    threads
        Partitions that are worked on at once. It changes no bit of the result.
    """

    def __init__(self, model: Model, batches: Sequence[Any], threads: int = 1) -> None:
        self.model = model
        self.batches = list(batches)
        self._locals: dict[int, list[Any]] = {}
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.batches)

    def map(self, function: Callable[..., R], *columns: Sequence[Any]) -> Iterator[R]:
        """Apply ``function(batch, ...)`` to every partition, results in partition order."""
        return self._map(function, self.batches, *columns)

    def _map(self, function: Callable[..., R], *columns: Sequence[Any]) -> Iterator[R]:
        run = self._pool.map if self._pool else map
        return iter(run(function, *columns))

    def observe(self) -> Any:
        """Return the summed statistics that are needed before the first sweep."""
        return tree_sum(self.map(self.model.observe))

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `Reduce`."""
        return self.visit(q, number=number, warm=warm, group=0, groups=1)

    def visit(self, q: Any, *, number: int, warm: int | None, group: int, groups: int) -> Any:
        """Run a part of a sweep; see `Visiting`."""
        of = slice(group, None, groups)
        start = [None] * self.partitions if warm is None else self.local_states(warm)

        def sweep(batch: Any, local: Any) -> tuple[Any, Any]:
            local = self.model.local_step(q, batch, local)
            if local is not None:
                local = aligned(local)
            return local, self.model.suff_stats(q, batch, local)

        states: list[Any] = []
        total: TreeSum[Any] = TreeSum()
        for local, stats in self._map(sweep, self.batches[of], start[of]):
            states.append(local)
            total.add(stats)
        if group == 0:
            self._locals = {k: v for k, v in self._locals.items() if k == warm}
            self._locals[number] = [None] * self.partitions
        self._locals[number][of] = states
        return total.value()

    def local_states(self, number: int) -> list[Any]:
        """Return the partitions' local states after sweep ``number``."""
        if number not in self._locals:
            raise LookupError(
                f"the local states of sweep {number} are gone; kept: {sorted(self._locals)}"
            )
        return self._locals[number]

    def restore(self, number: int, states: Sequence[Any]) -> None:
        """Take local states that were stored after sweep ``number``."""
        if len(states) != len(self.batches):
            raise ValueError(
                f"expected {len(self.batches)} local states, one a partition, got {len(states)}"
            )
        self._locals = {number: list(states)}
