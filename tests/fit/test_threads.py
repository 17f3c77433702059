"""Calls in threads: results in order, and the first failure ends what has not begun."""

import os
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

from flows.fit.executor import in_threads


def test_results_come_in_the_order_of_the_calls():
    def one(i):
        time.sleep(0.02 * (i % 2 == 0))
        return i, threading.get_ident()

    reports = []
    found = in_threads([partial(one, i) for i in range(9)], 3, lambda *done: reports.append(done))
    assert [i for i, _ in found] == list(range(9))
    assert threading.get_ident() not in {thread for _, thread in found}
    assert reports == [(i + 1, 9) for i in range(9)]
    assert {thread for _, thread in in_threads([partial(one, 1)], 3)} == {threading.get_ident()}


@pytest.mark.parametrize("by_progress", [False, True])
def test_what_fails_is_raised_and_no_other_begins(by_progress):
    begun = []

    def one(i):
        begun.append(i)
        if i == 1 and not by_progress:
            raise ArithmeticError("expected a number")
        time.sleep(0.1)

    def report(done, total):
        if by_progress:
            raise ArithmeticError("expected a number")

    with pytest.raises(ArithmeticError, match="expected a number"):
        in_threads([partial(one, i) for i in range(40)], 2, report)
    assert len(begun) < 30
    assert np.all(np.diff(sorted(begun)) == 1)


def test_one_thread_holds_for_libraries_that_a_run_loads_later():
    """SciPy has a BLAS of its own, which a process that has begun with NumPy alone loads later."""
    code = (
        "from flows.fit.job import one_thread\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_thread():\n"
        "    import scipy.linalg\n"
        "    print(*{p['num_threads'] for p in threadpool_info() if p['user_api'] == 'blas'})\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]
