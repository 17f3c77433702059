"""Compile functions that call those of other files, and cache them until one of the files changes.

Numba reads a function from its cache while the function's own file is as it was. What it calls is
part of its code: after an update of another file it would go on with the old code, and have other
bits than a process with an empty cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import event
from numba.core.dispatcher import Dispatcher


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Do what `numba.njit` does; what is cached is valid while the files of all callees are."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if not isinstance(dispatcher, Dispatcher):  # NUMBA_DISABLE_JIT
            return dispatcher
        file = _cache_file(dispatcher)
        callees = {
            (other.py_func.__module__, repr(_cache_file(other)._source_stamp))
            for other in function.__globals__.values()
            if isinstance(other, Dispatcher) and other.py_func.__module__ != function.__module__
        }
        file._source_stamp = (file._source_stamp, *sorted(callees))
        return dispatcher

    return compiled


def _cache_file(function: Any) -> Any:
    return function._cache._cache_file


class _Timed(event.Listener):  # type: ignore[misc]
    """Adds up the seconds of what is compiled, by a clock; says once that something is."""

    def __init__(self, clock: Callable[[], float], say: Callable[[str], None] | None) -> None:
        self.clock, self.seconds, self._began, self._depth = clock, 0.0, 0.0, 0
        self._say = say

    def on_start(self, event: Any) -> None:
        if self._say is not None:
            self._say("compiling kernels, once")
            self._say = None
        self._began = self._began if self._depth else self.clock()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        self.seconds += 0.0 if self._depth else self.clock() - self._began


@contextmanager
def compiling(
    clock: Callable[[], float], say: Callable[[str], None] | None = None
) -> Iterator[Callable[[], float]]:
    """Yield what returns the seconds, by a clock, that kernels have been compiled for since.

    ``say`` is given a line when the first of them is.
    """
    timed = _Timed(clock, say)
    with event.install_listener("numba:compile", timed):
        yield lambda: timed.seconds
