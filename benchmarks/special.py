"""Our special functions beside SciPy's, in CPU nanoseconds an element."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, log_ndtr, polygamma, zeta

from vbmodels.core.special import inverse_mills, trigamma
from vbmodels.core.state import FloatArray

SIZE = 100_000


def nanoseconds(function: Callable[[FloatArray], FloatArray], x: FloatArray) -> float:
    """Return the best of nine runs."""
    best = np.inf
    for _ in range(9):
        begin = time.process_time()
        function(x)
        best = min(best, time.process_time() - begin)
    return best * 1e9 / x.size


def main() -> None:
    """Write one line a function: its time, and the ratio to the rival of the same run."""
    rng = np.random.default_rng(0)
    positive = np.exp(rng.uniform(-7, 12, SIZE))
    real = 5.0 * rng.standard_normal(SIZE)
    groups = [
        ("trigamma", positive, trigamma, lambda x: polygamma(1, x), "scipy polygamma(1, x)"),
        ("trigamma", positive, trigamma, lambda x: zeta(2.0, x), "scipy zeta(2, x)"),
        ("inverse_mills", real, inverse_mills, erfcx, "scipy erfcx alone (the floor)"),
        (
            "inverse_mills",
            real,
            inverse_mills,
            lambda x: np.exp(-0.5 * x * x - log_ndtr(x)),
            "exp of SciPy's log_ndtr (loses its digits on the left)",
        ),
    ]
    for name, x, ours, rival, label in groups:
        mine, theirs = nanoseconds(ours, x), nanoseconds(rival, x)
        sys.stdout.write(
            f"{name:14s} {mine:6.1f} ns   {label:56s} {theirs:6.1f} ns   "
            f"rival / ours {theirs / mine:.2f}\n"
        )


if __name__ == "__main__":
    main()
