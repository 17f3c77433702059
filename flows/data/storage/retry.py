"""How often, and after what pauses, storage that does not answer is asked again: by tenacity.

What the stores' own clients repeat within one request is set where they are made, in
``flows.data.storage.access``; Dask's own retries of a task are set in ``flows.engine.dask``.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from flows.data.storage.errors import TransientStorageError

R = TypeVar("R")


@dataclass(frozen=True)
class Retry:
    """How often something is tried again, after pauses of a random length.

    What they are at most doubles with each attempt, so that many do not ask at once.
    """

    times: int
    first: float  # seconds of the first pause, at most

    def trying(self, within: float = math.inf, **more: Any) -> Retrying:
        """Return what calls a function until storage answers; the last failure is raised as it was.

        Parameters
        ----------
        within
            Seconds from the first attempt during which others may begin: one may take long to fail.
        **more
            For `tenacity.Retrying`, in the place of what is set here.
        """
        usual: dict[str, Any] = {
            "retry": retry_if_exception_type(TransientStorageError),
            "wait": wait_random_exponential(multiplier=self.first),
            "stop": stop_after_attempt(self.times + 1) | stop_before_delay(within),
            "reraise": True,
        }
        return Retrying(**usual | more)


CALL = Retry(times=6, first=0.5)  # of one call of an object store
PATIENCE = 15.0  # seconds for which it is asked
TASK = Retry(times=4, first=2.0)  # of a task that met storage that did not answer

_within = threading.local()


def persistent(local: bool, call: Callable[[], R]) -> R:
    """Call, and call again for a while if an object store does not answer.

    A call within such a call is left to the outer one.
    """
    if local or getattr(_within, "call", False):
        return call()
    with impatient():
        return CALL.trying(PATIENCE)(call)


@contextmanager
def impatient() -> Iterator[None]:
    """Do not ask a second time within this block, in this thread."""
    before = getattr(_within, "call", False)
    _within.call = True
    try:
        yield
    finally:
        _within.call = before
