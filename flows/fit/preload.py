"""The process that local workers are forked from, which imports once what all of them need.

That takes seconds in a worker that is spawned. A run starts it before it loads its family, so that
its imports pass while this process does its own and looks at the input.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver
from typing import Any

import psutil

OF_ALL = ("flows.fit.cluster", "distributed", "pandas")  # pyarrow's first array loads pandas


def start(*names: str) -> None:
    """Start it with these modules; one that runs already is kept, with those that it has.

    Raises `RuntimeError` in a script without a main guard, whose workers would start it again.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["flows.fit.fork_environment", *names, *OF_ALL])
    forkserver.ensure_running()


@contextmanager
def started(*names: str) -> Iterator[None]:
    """Start it; where what follows fails, end it: a command that is refused does not wait for it.

    Where it cannot be started, connecting says so.
    """
    server: Any = forkserver._forkserver
    before = server._forkserver_pid
    with suppress(OSError, RuntimeError):
        start(*names)
    try:
        yield
    except BaseException:
        pid = server._forkserver_pid
        if before is None and pid is not None:
            with suppress(psutil.NoSuchProcess):
                if not psutil.Process(pid).children():  # else processes of others came from it
                    psutil.Process(pid).kill()
                    server._stop()
        raise
