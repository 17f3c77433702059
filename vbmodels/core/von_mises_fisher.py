"""The von Mises-Fisher distribution on the unit sphere, for 2 to thousands of dimensions."""

from __future__ import annotations

from math import log, pi

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import gammaln, ive

from vbmodels.core.state import FloatArray

# Below this a scaled Bessel function is near underflow and has lost digits.
_SMALLEST = 1e-280


def _debye_polynomials(count: int) -> list[Polynomial]:
    """U_0, U_1, ... of Abramowitz and Stegun 9.3.10:

    U_{k+1} = t^2 (1 - t^2) U_k' / 2 + (1/8) int_0^t (1 - 5 s^2) U_k(s) ds.
    """
    found = [Polynomial([1.0])]
    for _ in range(count - 1):
        u = found[-1]
        grown = Polynomial([0, 0, 0.5, 0, -0.5]) * u.deriv()
        found.append(grown + (Polynomial([1, 0, -5]) * u).integ() / 8.0)
    return found


_DEBYE = _debye_polynomials(9)


def log_bessel_over_power(order: float, x: FloatArray) -> FloatArray:
    """Return log(I_order(x) / x^order), finite also at x = 0; [...].

    The power series where x^2 <= 4 (order + 1) (its terms fall faster than 1/k!); SciPy's
    ``ive`` where that does not underflow; else Debye's expansion (Abramowitz and Stegun
    9.3.7), whose order is then above 100. Error at most 5e-13 relative for orders
    0 to 2500 and x up to 1e5.
    """
    x = np.asarray(x, dtype=np.float64)
    square = 0.25 * np.minimum(x * x, 4.0 * (order + 1.0))
    term = np.ones_like(x)
    series = np.zeros_like(x)
    for k in range(1, 25):
        term = term * square / (k * (order + k))
        series += term
    small = np.log1p(series) - order * log(2.0) - gammaln(order + 1.0)
    safe = np.maximum(x, 1e-3)
    scaled = ive(order, safe)
    exact = scaled >= _SMALLEST
    large = safe + np.log(np.where(exact, scaled, 1.0))
    if not exact.all() and order > 0:
        large = np.where(exact, large, _log_bessel_debye(order, safe))
    result: FloatArray = np.where(x * x <= 4.0 * (order + 1.0), small, large - order * np.log(safe))
    return result


def _log_bessel_debye(order: float, x: FloatArray) -> FloatArray:
    z = x / order
    root = np.sqrt(1.0 + z * z)
    t = 1.0 / root
    eta = root + np.log(z / (1.0 + root))
    series = np.zeros_like(x)
    for k in range(len(_DEBYE) - 1, 0, -1):
        series = (series + _DEBYE[k](t)) / order
    result: FloatArray = (
        order * eta - 0.5 * (np.log(2.0 * pi * order) + np.log(root)) + np.log1p(series)
    )
    return result


def bessel_ratio(order: float, x: FloatArray) -> FloatArray:
    """Return I_{order+1}(x) / I_order(x); [...].

    The ratio of SciPy's ``ive`` where neither underflows; else the continued fraction
    r_n = x / (2 (order + n + 1) + x r_{n+1}), from Amos's (1974) bound at n = 60 down. Error
    at most 1e-12 relative for orders up to 2500 and x up to 1e5.
    """
    x = np.asarray(x, dtype=np.float64)
    top, bottom = ive(order + 1.0, x), ive(order, x)
    exact = top >= _SMALLEST
    result: FloatArray = np.divide(top, bottom, out=np.zeros_like(x), where=exact)
    if exact.all():
        return result
    last = order + 60.0
    ratio = x / (last + 1.0 + np.sqrt((last + 1.0) ** 2 + x * x))
    for n in range(59, -1, -1):
        ratio = x / (2.0 * (order + n + 1.0) + x * ratio)
    return np.where(exact, result, ratio)


def log_sphere_norm(dimension: int, concentration: FloatArray) -> FloatArray:
    """Return log of the integral of exp(concentration mu'x) over the unit sphere; [...].

    (p/2) log 2 pi + log I_{p/2-1}(k) - (p/2 - 1) log k: minus the log of C_p(k) of Xie, Zhu
    and Xing (2016).
    """
    order = 0.5 * dimension - 1.0
    return 0.5 * dimension * log(2.0 * pi) + log_bessel_over_power(order, concentration)


def mean_length(dimension: int, concentration: FloatArray) -> FloatArray:
    """Return A_p(k) = I_{p/2}(k) / I_{p/2-1}(k), the mean's length (eq I of the same); [...]."""
    return bessel_ratio(0.5 * dimension - 1.0, concentration)


def second_moment(direction: FloatArray, concentration: FloatArray) -> FloatArray:
    """Return E[x x'] = (A_p/k) I + (1 - p A_p/k) mu mu' (eqs II, 14), directions [..., p]."""
    p = direction.shape[-1]
    k = np.asarray(concentration, dtype=np.float64)
    safe = np.maximum(k, 1e-6)
    # At k = 0, A_p/k is 1/p; below 1e-6 the next term of its series is below rounding.
    across = np.where(k > 1e-6, mean_length(p, safe) / safe, 1.0 / p)[..., None, None]
    outer = direction[..., :, None] * direction[..., None, :]
    result: FloatArray = across * np.eye(p) + (1.0 - p * across) * outer
    return result
