"""A lack of memory, said in one sentence with the stage; refused before a library aborts."""

from __future__ import annotations

import errno
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from flows.faults import MEMORY_ADVICE, ComputeError
from flows.runs.context import Run

HEADROOM = 512 * 2**20  # bytes of address space that the libraries of a run take, and some data
_TEXT = re.compile(
    r"can't start new thread|failed to map segment|[Cc]annot allocate memory|bad_alloc|"
    r"out of memory"
)


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; threads and libraries need some, too."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and bool(
        _TEXT.search(str(error))
    )


@contextmanager
def memory_errors(run: Run) -> Iterator[None]:
    """Turn a lack of memory into one sentence that names the stage.

    Raises
    ------
    ComputeError
        If memory ran out.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, ComputeError) or not lacks_memory(error):
            raise
        what = (str(error) or "no more could be allocated").splitlines()[0]
        raise ComputeError(
            f"memory ran out in the stage {run.events.stage} ({what}{_limit_text()}); "
            f"{MEMORY_ADVICE}"
        ) from error


def require_memory() -> None:
    """Refuse to begin where the limit of this process leaves too little for its libraries.

    The linear algebra, the compiler and the allocator abort the process where they get no memory,
    without a word that could be caught.

    Raises
    ------
    ComputeError
        If less than `HEADROOM` is left.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    left = limit - psutil.Process().memory_info().vms
    if left < HEADROOM:
        raise ComputeError(
            f"too little memory to begin: the limit of this process (ulimit -v {limit >> 10}) "
            f"leaves {max(left, 0) / 2**20:.0f} MiB, and a run needs {HEADROOM / 2**20:.0f} MiB "
            "and room for the data; raise the limit"
        )


def _limit_text() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit == resource.RLIM_INFINITY else f"; limit {limit >> 20} MiB by ulimit -v"
