"""The normal distribution's tails by compiled loops; SciPy's functions are the tested reference."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from vbmodels.core.state import FloatArray

AT_ONCE = 4096
"""Numbers that go through all steps before the next ones, so that they stay in the cache."""
FURTHEST = 1e200
FAR = 24.0
"""Beyond it `tail_over_bell` and `bells` do not hold: take `tail_series`."""
_LEAST = -1.0 + 2.0**-53
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
LOG_DENSITY = -0.5 * math.log(2.0 * math.pi)
_REASSOCIATE = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=False)
def tail_series(x: float) -> float:
    """Return s of Phi(-x) = phi(x) / x (1 + s), to 1e-14 for x >= 24, by its asymptotic series."""
    u = 1.0 / (x * x)
    return u * (-1.0 + u * (3.0 + u * (-15.0 + u * (105.0 + u * (-945.0 + 10395.0 * u)))))


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def tail_over_bell(x: float) -> float:
    """Return Phi(-x) exp(x^2 / 2), to 1e-15 for 0 <= x <= `FAR`, to 1e-11 for x <= 38.

    Phi(-x) / phi(x) falls like 1 / x, and its product with x + 1 is smooth in
    v = (3 x / 2 - 6) / (x + 6), which runs from -1 to 1: a polynomial through the Chebyshev nodes,
    after Shepherd and Laframboise (1981, Mathematics of Computation 36, 249).
    """
    inverse = 1.0 / ((x + 6.0) * (x + 1.0))
    v = (1.5 * x - 6.0) * (x + 1.0) * inverse
    p = -2.3024949281282766e-10 * v + 1.2496100017490767e-09
    p = (p * v + 3.082365911727147e-09) * v - 2.4675787473823633e-08
    p = (p * v - 1.1180061567490981e-08) * v + 3.5813722736801374e-07
    p = (p * v - 5.5759470305672e-07) * v - 3.7362609445404412e-06
    p = (p * v + 1.948848915909319e-05) * v - 1.314637016538232e-05
    p = (p * v - 0.00026024945048649093) * v + 0.0016275809268616582
    p = (p * v - 0.005897880764469266) * v + 0.015588779068463602
    p = (p * v - 0.03186834629238659) * v + 0.050323299526636646
    p = (p * v - 0.056699496241962855) * v + 0.02775332308237952
    p = (p * v + 0.058035982179934886) * v - 0.20199972543483763
    p = p * v + 1.1832619145678034
    return DENSITY * p * (x + 6.0) * inverse


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def tail_ratio(x: FloatArray, ratio: FloatArray) -> None:
    """Fill ``ratio`` with Phi(-|x|) exp(x^2 / 2) = erfcx(|x| / sqrt 2) / 2, to 1e-14."""
    for i in range(x.size):
        ratio[i] = tail_over_bell(min(abs(x[i]), FAR))
    for i in range(x.size):
        far = abs(x[i])
        if far > FAR:
            ratio[i] = DENSITY / far * (1.0 + tail_series(far))


@njit(cache=True, fastmath=_REASSOCIATE)
def cdf_and_density(x: FloatArray, bell: FloatArray, ratio: FloatArray) -> None:
    """Turn `tail_ratio`'s result into Phi(x), and ``bell`` = exp(-x^2 / 2) into phi(x)."""
    for j in range(x.size):
        tail = ratio[j] * bell[j]
        ratio[j] = 1.0 - tail if x[j] > 0.0 else tail
        bell[j] *= DENSITY


def log_cdf_and_mills(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Phi(x) and phi(x)/Phi(x), of any shape, in a quarter of SciPy's time.

    With R = Phi(-|x|) exp(x^2/2) (`tail_ratio`) and T = Phi(-|x|) = R exp(-x^2/2) they are

        x > 0:   log(1 - T),          phi / (1 - T)
        x <= 0:  log R - x^2/2,       1 / (sqrt(2 pi) R),

    to 3e-14 relative up to x = 20, to eps x^2 beyond. Logarithms are log1p(-T) and log1p(R - 1),
    so that one pass serves both sides; R - 1 loses eps/R, which is nothing against x^2/2.
    """
    # What is infinite would be divided by itself in R; the square of this is infinite.
    flat = np.clip(np.ascontiguousarray(x, dtype=np.float64).ravel(), -FURTHEST, FURTHEST)
    log_cdf, mills = np.empty_like(flat), np.empty_like(flat)
    for first in range(0, flat.size, AT_ONCE):
        chunk = slice(first, first + AT_ONCE)
        values, ratio, bell = flat[chunk], log_cdf[chunk], mills[chunk]
        tail_ratio(values, ratio)
        with np.errstate(over="ignore"):
            np.multiply(values, values, out=bell)
        bell *= -0.5
        np.exp(bell, out=bell)
        _both_sides(values, ratio, bell)
        np.log1p(ratio, out=ratio)
        _less_square(values, ratio)
    return log_cdf.reshape(x.shape), mills.reshape(x.shape)


@njit(cache=True)
def _both_sides(x: FloatArray, ratio: FloatArray, bell: FloatArray) -> None:
    """Turn R into what log1p is taken of, and exp(-x^2/2) into phi/Phi."""
    for j in range(x.size):
        # Choices between numbers, not between ways, so that the compiler works on several at once.
        right = x[j] > 0.0
        tail = ratio[j] * bell[j]
        above = bell[j] if right else 1.0
        below = 1.0 - tail if right else ratio[j]
        ratio[j] = -tail if right else max(ratio[j] - 1.0, _LEAST)
        bell[j] = DENSITY * above / below


@njit(cache=True)
def _less_square(x: FloatArray, log_cdf: FloatArray) -> None:
    """Take x^2/2 from where x <= 0."""
    for j in range(x.size):
        low = min(x[j], 0.0)
        log_cdf[j] -= 0.5 * low * low


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy")
def lower_tail(x: float, bell: float) -> float:
    """Return Phi(-x) for 0 <= x <= `FAR`; ``bell`` is exp(-x^2 / 2)."""
    tail: float = bell * tail_over_bell(x)
    return tail


@njit(cache=True, nogil=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def bells(eta: FloatArray, bits: FloatArray, out: FloatArray) -> None:
    """Fill exp(-eta^2 / 2) for |eta| <= `FAR`, by loops that a processor runs four words at a time.

    exp(z) = 2^n exp(r), n being the whole number next to z / log 2, so that |r| <= log 2 / 2 and
    Taylor's series to r^12 is exact to 2e-16. Adding 1.5 2^52 leaves n in the last bits.
    """
    whole, power = bits.view(np.int64), bits
    for i in range(len(eta)):
        z = -0.5 * eta[i] * eta[i]
        shifted = z * 1.4426950408889634 + 6755399441055744.0
        n = shifted - 6755399441055744.0
        r = (z - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
        p = r * 2.08767569878681e-09 + 2.505210838544172e-08
        p = (p * r + 2.755731922398589e-07) * r + 2.7557319223985893e-06
        p = (p * r + 2.48015873015873e-05) * r + 1.984126984126984e-04
        p = (p * r + 1.388888888888889e-03) * r + 8.333333333333333e-03
        p = (p * r + 4.1666666666666664e-02) * r + 1.6666666666666666e-01
        out[i] = ((p * r + 0.5) * r + 1.0) * r + 1.0
        bits[i] = shifted
    for i in range(len(eta)):
        whole[i] = (whole[i] + 1023) << 52
    for i in range(len(eta)):
        out[i] *= power[i]
