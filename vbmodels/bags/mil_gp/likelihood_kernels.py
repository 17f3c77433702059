"""log Phi and its derivative in one compiled pass; SciPy's ``log_ndtr`` is the tested reference."""

from __future__ import annotations

import math

import numba
import numpy as np

from vbmodels.bags.vmmic.likelihood_kernels import tail_ratio
from vbmodels.core.state import FloatArray

AT_ONCE = 4096
"""Numbers that go through all steps before the next ones, so that they stay in the cache."""
FURTHEST = 1e200
_LEAST = -1.0 + 2.0**-53
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


def log_cdf_and_mills(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Phi(x) and phi(x)/Phi(x), of any shape, in a quarter of SciPy's time.

    With R = Phi(-|x|) exp(x^2/2) (`tail_ratio`) and T = Phi(-|x|) = R exp(-x^2/2) they are

        x > 0:   log(1 - T),          phi / (1 - T)
        x <= 0:  log R - x^2/2,       1 / (sqrt(2 pi) R),

    to 3e-14 relative up to x = 20, to eps x^2 beyond. Logarithms are log1p(-T) and log1p(R - 1),
    so that one pass serves both sides; R - 1 loses eps/R, which is nothing beside x^2/2.
    """
    # What is infinite would be divided by itself in R; the square of this is infinite.
    flat = np.clip(np.ascontiguousarray(x, dtype=np.float64).ravel(), -FURTHEST, FURTHEST)
    log_cdf, mills = np.empty_like(flat), np.empty_like(flat)
    for first in range(0, flat.size, AT_ONCE):
        some = slice(first, first + AT_ONCE)
        own, ratio, bell = flat[some], log_cdf[some], mills[some]
        tail_ratio(own, ratio)
        with np.errstate(over="ignore"):
            np.multiply(own, own, out=bell)
        bell *= -0.5
        np.exp(bell, out=bell)
        _both_sides(own, ratio, bell)
        np.log1p(ratio, out=ratio)
        _less_square(own, ratio)
    return log_cdf.reshape(x.shape), mills.reshape(x.shape)


@numba.njit(cache=True)
def _both_sides(x: FloatArray, ratio: FloatArray, bell: FloatArray) -> None:
    """Turn R into what log1p is taken of, and exp(-x^2/2) into phi/Phi."""
    for j in range(x.size):
        # Choices between numbers, not between ways, so that the compiler works on several at once.
        right = x[j] > 0.0
        tail = ratio[j] * bell[j]
        above = bell[j] if right else 1.0
        below = 1.0 - tail if right else ratio[j]
        ratio[j] = -tail if right else max(ratio[j] - 1.0, _LEAST)
        bell[j] = _DENSITY * above / below


@numba.njit(cache=True)
def _less_square(x: FloatArray, log_cdf: FloatArray) -> None:
    """Take x^2/2 from where x <= 0."""
    for j in range(x.size):
        low = min(x[j], 0.0)
        log_cdf[j] -= 0.5 * low * low
