# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Elementary and gamma functions for the other kernels.

`exp`, `log` and `softplus` have no branch and call no library, so a loop over nodes that
calls them is compiled to vector instructions: about 1 ns an element, where the library's
take 5. What must not be reassociated is compiled here without that licence.
"""

from __future__ import annotations

import math

from numba import njit, types
from numba.extending import intrinsic

_TO_WHOLE = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number
_SQRT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_FRACTION = 0x000FFFFFFFFFFFFF


@intrinsic
def _bits(typing_context, value):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def _float(typing_context, value):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def exp(x):
    """Return e^x to 4e-16 of itself, for -700 <= x <= 700; beyond, what it is there.

    x = n log 2 + f, and the Pade form of e^f of the Cephes library (Moshier 1989).
    """
    x = min(max(x, -700.0), 700.0)
    t = x * 1.4426950408889634 + _TO_WHOLE
    n = t - _TO_WHOLE
    f = (x - n * 0.693145751953125) - n * 1.4286068203094172e-06
    w = f * f
    p = f * (1.0 + w * (3.02994407707441961300e-2 + w * 1.26177193074810590878e-4))
    q = 2.0 + w * (
        2.27265548208155028766e-1 + w * (2.52448340349684104192e-3 + w * 3.00198505138664455042e-6)
    )
    return _float(_bits(1.0 + 2.0 * p / (q - p)) + (_bits(t) << 52))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log(x):
    """Return log x to one unit in the last place, for normal x > 0.

    x = 2^n m with m in [sqrt(1/2), sqrt 2), and log m by the series in (m-1)/(m+1) of
    the fdlibm library (Ng 1993).
    """
    shifted = _bits(x) - _SQRT_HALF
    n = float(shifted >> 52)
    f = _float((shifted & _FRACTION) + _SQRT_HALF) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (
        3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01)
    )
    odd = z * (
        6.666666666666735130e-01
        + w
        * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    low = n * 1.90821492927058770002e-10
    return n * 6.93147180369123816490e-01 - ((half - (s * (half + odd + even) + low)) - f)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def softplus(e):
    """Return log(1 + e) for 0 <= e <= 1, accurate for small e too."""
    u = 1.0 + e
    return log(u) + (e - (u - 1.0)) / u


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def stirling(z):
    """Return lgamma(z) - (z - 1/2) log z + z - log(2 pi)/2, for z >= 10 to 1e-15."""
    w = 1.0 / (z * z)
    return (1 / 12.0 - w * (1 / 360.0 - w * (1 / 1260.0 - w * (1 / 1680.0 - w / 1188.0)))) / z


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log_gamma_large(z):
    """Return lgamma(z) - log(2 pi)/2 for z >= 10, without a branch."""
    return (z - 0.5) * log(z) - z + stirling(z)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True)
def log_gamma_any(z):
    """Return lgamma(z) - log(2 pi)/2 for z > 0, without a branch: shifted by ten."""
    product = z * (z + 1.0) * (z + 2.0) * (z + 3.0) * (z + 4.0)
    product *= (z + 5.0) * (z + 6.0) * (z + 7.0) * (z + 8.0) * (z + 9.0)
    return log_gamma_large(z + 10.0) - log(product)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=False, forceinline=True)
def log_gamma(z):
    """Return lgamma(z) - log(2 pi)/2 for z > 0."""
    product = 1.0
    while z < 10.0:
        product *= z
        z += 1.0
    value = (z - 0.5) * math.log(z) - z + stirling(z)
    return value if product == 1.0 else value - math.log(product)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=False, forceinline=True)
def log_rising(a, r):
    """Return lgamma(a + r) - lgamma(a) for a > 0 and a whole r >= 0."""
    if r == 0:
        return 0.0
    if r <= 12:
        product = a
        for i in range(1, r):
            product *= a + i
        return math.log(product)
    return log_gamma(a + r) - log_gamma(a)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=False)
def polygammas(z):
    """Return psi(z) and psi'(z) for z > 0, by recurrence to z >= 8 and asymptotic series."""
    psi = 0.0
    tri = 0.0
    while z < 8.0:
        inverse = 1.0 / z
        psi -= inverse
        tri += inverse * inverse
        z += 1.0
    v = 1.0 / z
    w = v * v
    psi += (
        math.log(z)
        - 0.5 * v
        - w
        * (
            1 / 12.0
            - w
            * (
                1 / 120.0
                - w * (1 / 252.0 - w * (1 / 240.0 - w * (1 / 132.0 - w * (691 / 32760.0))))
            )
        )
    )
    series = 1 / 6.0 - w * (
        1 / 30.0
        - w * (1 / 42.0 - w * (1 / 30.0 - w * (5 / 66.0 - w * (691 / 2730.0 - w * (7 / 6.0)))))
    )
    return psi, tri + v * (1.0 + 0.5 * v + w * series)


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    forceinline=True,
    fastmath={"reassoc", "nsz", "contract"},
)
def total(values):
    """Return the sum of an array, several partial sums at a time."""
    result = 0.0
    for k in range(values.shape[0]):
        result += values[k]
    return result


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    forceinline=True,
    fastmath={"reassoc", "nsz", "contract"},
)
def dot(one, other):
    """Return the inner product of two arrays, several partial sums at a time."""
    result = 0.0
    for k in range(one.shape[0]):
        result += one[k] * other[k]
    return result
