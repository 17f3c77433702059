"""Imported first, and only, in the process that local workers are forked from (see `connect`).

Every worker is given the environment of the moment at which it starts. What this process has is
what it was started with, so it keeps nothing of it that another run may lack. A Ctrl-C in the
terminal reaches it, too; it ends with the process that started it.
"""

import os
import signal
import sys
from types import TracebackType

_KEPT = ("PATH", "HOME", "LANG", "LC_", "LD_", "NUMBA_", "PYTHON", "TMPDIR")
_OF_BITS = ("BLIS_", "MKL_", "NPY_", "OPENBLAS_")  # what NumPy and BLAS choose their kernels by
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

for _name in [name for name in os.environ if not name.startswith(_KEPT + _OF_BITS)]:
    del os.environ[_name]
os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # read when NumPy is imported, which comes next
signal.signal(signal.SIGINT, signal.SIG_IGN)


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error, but not that of a worker whose run ended before it came up.

    A nanny replaces a worker that died; where the run ends meanwhile, the semaphores that the new
    one was sent are gone.
    """
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = "" if last is None else last.tb_frame.f_globals.get("__name__", "")
    if kind is not FileNotFoundError or module != "multiprocessing.synchronize":
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say
