"""Functions that the models share, in forms that keep their digits at every argument.

What SciPy has in that quality is used from SciPy by those who need it: ``log_ndtr``,
``expit``, ``log_expit``, ``logsumexp``, ``np.logaddexp`` (softplus), ``xlogy``, ``digamma``.
"""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
from scipy.special import erfcx, gammaln, log_ndtr, ndtri_exp

from vbmodels.core.state import FloatArray, IntArray

_SQRT_HALF = sqrt(0.5)
_SQRT_2_OVER_PI = sqrt(2.0 / pi)


def inverse_mills(x: FloatArray) -> FloatArray:
    """Return phi(x)/Phi(x), the derivative of log Phi (whose own form is SciPy's ``log_ndtr``).

    With Phi(x) = exp(-x^2/2) erfcx(-x/sqrt 2)/2 the exponential cancels and leaves
    sqrt(2/pi) / erfcx(-x/sqrt 2), on both sides and without a branch: 2e-15 relative for
    x <= 0, eps x^2 for x > 0 (erfcx is exp(x^2/2) there), 0 beyond 37.7; [...].
    """
    result: FloatArray = _SQRT_2_OVER_PI / erfcx(-_SQRT_HALF * np.asarray(x, dtype=np.float64))
    return result


def truncated_variance(x: FloatArray) -> FloatArray:
    """Return the variance 1 - r (r + x) of N(x, 1) truncated to z > 0; r = phi/Phi(x); [...].

    It is also 1 plus the second derivative of log Phi. The plain form loses x^4 eps on the
    left. There, with t = -x, the continued fraction r = t + 1/(t + 2/(t + 3/(t + ...)))
    (Abramowitz and Stegun 26.2.14) gives g = r - t = 1/(t + k), k = 2/(t + 3/(t + ...)), and
    the variance is g (k - g), where nothing cancels.
    """
    x = np.asarray(x, dtype=np.float64)
    r = inverse_mills(np.maximum(x, -4.0))
    near = 1.0 - r * (r + np.maximum(x, -4.0))
    t = np.maximum(-x, 4.0)
    fraction = t
    for n in range(40, 2, -1):
        fraction = t + n / fraction
    k = 2.0 / fraction
    g = 1.0 / (t + k)
    return np.where(x > -4.0, near, g * (k - g))


def truncated_mean(x: FloatArray) -> FloatArray:
    """Return the mean x + phi/Phi(x) of N(x, 1) truncated to z > 0; [...].

    Far on the left the two terms cancel; there it is (1 - v)/r with the variance v of
    `truncated_variance`, r = phi/Phi(x).
    """
    ratio = inverse_mills(x)
    far = (1.0 - truncated_variance(x)) / np.maximum(ratio, 1.0)
    return np.where(x > -2.0, x + ratio, far)


def truncated_draw(mean: FloatArray, side: FloatArray, log_u: FloatArray) -> FloatArray:
    """Return the draws of N(mean, 1) cut to the positive (side 1) or negative side (-1); [...].

    ndtri(u Phi(s mean)) with a uniform u is a standard normal below s mean; in logs for the tails.
    """
    result: FloatArray = mean - side * ndtri_exp(log_u + log_ndtr(side * mean))
    return result


def log1mexp(x: FloatArray) -> FloatArray:
    """Return log(1 - exp(-x)) for x >= 0, -inf at 0; [...].

    Maechler (2012), "Accurately computing log(1 - exp(-|a|))": expm1 up to log 2, log1p above.
    """
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore"):
        result: FloatArray = np.where(
            x <= log(2.0), np.log(-np.expm1(-np.minimum(x, 1.0))), np.log1p(-np.exp(-x))
        )
    return result


def polya_gamma_mean(c: FloatArray) -> FloatArray:
    """Return the mean tanh(c/2) / (2c) of PG(1, c), 1/4 at 0; [...].

    Polson, Scott and Windle (2013), section 2.3. Half of it is lambda; see `jaakkola_lambda`.
    """
    a = np.abs(np.atleast_1d(np.asarray(c, dtype=np.float64)))
    small = a < 1e-4
    few: FloatArray | None = a[small] if small.any() else None
    if few is not None:
        a[small] = 1.0
    result: FloatArray = 0.5 * a
    np.tanh(result, out=result)
    a *= 2.0
    result /= a
    if few is not None:
        # Two terms of the series: the third, c^4/480, is below rounding here.
        result[small] = 0.25 - few * few / 48.0
    return result.reshape(np.shape(c))


def jaakkola_lambda(xi: FloatArray) -> FloatArray:
    """Return lambda(xi) = tanh(xi/2) / (4 xi), 1/8 at 0; Jaakkola and Jordan (2000); [...]."""
    return 0.5 * polya_gamma_mean(xi)


def log_rising(a: FloatArray, k: IntArray, log_a: FloatArray | None = None) -> FloatArray:
    """Return log[Gamma(a + k) / Gamma(a)], a > 0, whole k >= 0, without its cancellation; [...].

    The difference of two log Gammas loses all of its digits where a is large: at a = 1e15 its
    error is some 10 nats. From a = 16 on Stirling's series is differenced term by term,
    (a - 1/2) log(1 + k/a) - k + k log(a + k) + S(a + k) - S(a), with
    S(z) = 1/(12 z) - 1/(360 z^3) + 1/(1260 z^5) - 1/(1680 z^7) (Abramowitz and Stegun 6.1.41):
    1e-14 and a few eps k log(a + k). Below it is log a + log Gamma(a + k) - log Gamma(a + 1).

    Parameters
    ----------
    a, k
        They broadcast.
    log_a
        log a, where a itself may underflow to 0.
    """
    a, steps = np.asarray(a, np.float64), np.asarray(k, np.float64)
    high = np.maximum(a, 16.0)
    end = high + steps
    result = (high - 0.5) * np.log1p(steps / high) + steps * np.log(end)
    result += _stirling(end) - _stirling(high) - steps
    small = (a < 16.0) & (steps > 0.0)
    if small.any():
        low = np.minimum(a, 16.0)
        near = (np.log(a) if log_a is None else log_a) + gammaln(low + steps) - gammaln(low + 1.0)
        result = np.where(small, near, result)
    return np.asarray(result)


def _stirling(z: FloatArray) -> FloatArray:
    s = 1.0 / (z * z)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s / 1680))) / z
