"""Compile functions that call those of other files, and cache them until one of the files changes.

Numba reads a function from its cache while the function's own file is as it was. What it calls is
part of its code: after an update of another file it would go on with the old code, and have other
bits than a process with an empty cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Do what `numba.njit` does; what is cached is valid while the files of all callees are."""

    def compiled(function: Callable[..., Any]) -> Any:
        made = numba.njit(**options)(function)
        if not isinstance(made, Dispatcher):  # NUMBA_DISABLE_JIT
            return made
        file = _cache_file(made)
        callees = {
            (other.py_func.__module__, repr(_cache_file(other)._source_stamp))
            for other in function.__globals__.values()
            if isinstance(other, Dispatcher) and other.py_func.__module__ != function.__module__
        }
        file._source_stamp = (file._source_stamp, *sorted(callees))
        return made

    return compiled


def _cache_file(function: Any) -> Any:
    return function._cache._cache_file
