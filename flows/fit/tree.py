"""The fixed tree of sums over partition ids, and which worker holds which partitions.

The tree splits n leaves at the largest power of two below n, as `vbmodels.core.fit` does.
A worker sums the largest subtrees that it holds whole, the driver finishes the tree: so the bits of
a sum depend on the partitions alone, never on who holds them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

Subtree = tuple[int, int]
CHUNKS = 8  # a worker's thread is given at least so many chunks, where partitions are enough


def _middle(low: int, high: int) -> int:
    return low + (1 << ((high - low - 1).bit_length() - 1))


def cover(leaves: Sequence[int], low: int, high: int) -> list[Subtree]:
    """Return the largest subtrees of the tree over [low, high) whose leaves are all held.

    >>> cover([0, 1, 2, 3, 5], 0, 6)
    [(0, 4), (5, 6)]
    """
    inside = bisect_left(leaves, high) - bisect_left(leaves, low)
    if inside in (0, high - low):
        return [(low, high)] if inside else []
    middle = _middle(low, high)
    return cover(leaves, low, middle) + cover(leaves, middle, high)


def finish(sums: Mapping[Subtree, Any], low: int, high: int) -> Any:
    """Return the sum over [low, high) from the sums of subtrees."""
    if (low, high) in sums:
        return sums[low, high]
    middle = _middle(low, high)
    return finish(sums, low, middle) + finish(sums, middle, high)


def place(n: int, threads: Mapping[str, int], homes: Mapping[int, str]) -> dict[str, list[int]]:
    """Spread n partitions over workers in proportion to their threads.

    Chunks of neighbours stay at home as far as that is balanced; the others follow one another,
    so that few subtrees are cut.

    >>> place(8, {"a": 1, "b": 1}, {})
    {'a': [0, 1, 2, 3], 'b': [4, 5, 6, 7]}
    """
    total, size = sum(threads.values()), 1
    while 2 * size * CHUNKS * total <= n:
        size *= 2
    room = {worker: n * count / total for worker, count in threads.items()}
    placed: dict[str, list[int]] = {worker: [] for worker in threads}
    chunks = [range(start, min(start + size, n)) for start in range(0, n, size)]
    for at_home in (True, False):
        for chunk in list(chunks):
            home = [homes[chunk[0]]] if chunk[0] in homes else []
            able = [w for w in (home if at_home else threads) if room.get(w, 0) >= len(chunk) / 2]
            if at_home and not able:
                continue
            worker = able[0] if able else max(room, key=room.__getitem__)
            room[worker] -= len(chunk)
            placed[worker] += chunk
            chunks.remove(chunk)
    return {worker: sorted(ids) for worker, ids in placed.items() if ids}
