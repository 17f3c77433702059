"""Several threads of this process, for work that releases Python's lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

R = TypeVar("R")


def in_threads(
    calls: Sequence[Callable[[], R]],
    threads: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[R]:
    """Make all calls, so many at once, and return their results in the calls' order.

    ``on_progress`` is called in this thread with how many are done and all there are. What it or a
    call raises is raised when the calls that have begun have ended: no others begin.
    """
    tell = on_progress or (lambda done, total: None)
    if threads == 1 or len(calls) == 1:
        results = []
        for call in calls:
            results.append(call())
            tell(len(results), len(calls))
        return results
    with ThreadPoolExecutor(threads, thread_name_prefix="vbflows") as pool:
        futures = [pool.submit(call) for call in calls]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                tell(done, len(calls))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
