"""How often, and after what pauses, storage that does not answer is asked again.

What the stores' own clients repeat within one request is set where they are made, in
``flows.data.storage.access``; Dask's own retries of a task are set in ``flows.engine.dask``.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from flows.data.storage.errors import TransientStorageError

R = TypeVar("R")


@dataclass(frozen=True)
class Retry:
    """How often something is tried again; pauses double with each attempt."""

    times: int
    first: float  # seconds of the first pause, at most

    def pauses(self, within: float = math.inf) -> Iterator[float]:
        """Return the seconds to wait before each further attempt.

        Each is shortened at random, so that many do not ask at once.

        Parameters
        ----------
        within
            Seconds from now during which attempts may begin: one may take long to fail.
        """
        end = time.monotonic() + within
        nominal = (self.first * 2.0**attempt for attempt in range(self.times))
        return (p * random.uniform(0.5, 1.0) for p in nominal if time.monotonic() + p <= end)


CALL = Retry(times=6, first=0.25)  # of one call of an object store
PATIENCE = 15.0  # seconds for which it is asked
TASK = Retry(times=4, first=1.5)  # of a task that met storage that did not answer

_within = threading.local()


def persistent(local: bool, call: Callable[[], R]) -> R:
    """Call, and call again for a while if an object store does not answer.

    A call within such a call is left to the outer one.
    """
    if local or getattr(_within, "call", False):
        return call()
    pauses = CALL.pauses(PATIENCE)
    with impatient():
        while True:
            try:
                return call()
            except TransientStorageError:
                if not waited(pauses):
                    raise


def waited(pauses: Iterator[float]) -> bool:
    """Wait for the next pause; no where there is none left."""
    pause = next(pauses, None)
    if pause is not None:
        time.sleep(pause)
    return pause is not None


@contextmanager
def impatient() -> Iterator[None]:
    """Do not ask a second time within this block, in this thread."""
    before = getattr(_within, "call", False)
    _within.call = True
    try:
        yield
    finally:
        _within.call = before
