"""The shared functions against mpmath at 60 digits, over their whole stated range."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core import special

mp.mp.dps = 60
WIDE = np.concatenate([[0.0], *(s * np.logspace(-8, 8, 49) for s in (-1.0, 1.0))])
POSITIVE = np.logspace(-10, 8, 73)


def exact(function, x):
    return np.array([float(function(mp.mpf(float(v)))) for v in x])


def mp_cdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def mp_mills(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / mp_cdf(x)


def mp_truncated_variance(x):
    r = mp_mills(x)
    return 1 - r * (r + x)


def test_log_rising():
    a = np.concatenate(
        [np.logspace(-300, 2, 90), np.linspace(15.9, 16.1, 9), np.logspace(2, 30, 57)]
    )
    for k in (0, 1, 2, 7, 400, 10**6):
        exact_values = [
            float(mp.loggamma(mp.mpf(float(x)) + k) - mp.loggamma(mp.mpf(float(x)))) for x in a
        ]
        assert_allclose(special.log_rising(a, k), exact_values, rtol=2e-14, atol=2e-14)


def test_inverse_mills_left():
    x = WIDE[WIDE <= 0]
    assert_allclose(special.inverse_mills(x), exact(mp_mills, x), rtol=2e-15)


def test_inverse_mills_right():
    x = np.concatenate([np.linspace(0, 37, 200), [38.5, 100.0, 1e8]])
    assert_allclose(special.inverse_mills(x), exact(mp_mills, x), rtol=5e-13, atol=1e-300)


@pytest.mark.parametrize("x", [np.linspace(-8, 8, 201), -np.logspace(0, 8, 60)])
def test_truncated_variance(x):
    with mp.workdps(120):
        want = exact(mp_truncated_variance, x)
    assert_allclose(special.truncated_variance(x), want, rtol=1e-13)


def test_truncated_mean():
    x = np.concatenate([-np.logspace(0, 8, 40), np.linspace(-8, 36, 90)])
    with mp.workdps(120):
        want = exact(lambda v: v + mp_mills(v), x)
    assert_allclose(special.truncated_mean(x), want, rtol=2e-14)


def test_log1mexp():
    want = exact(lambda v: mp.log1p(-mp.exp(-v)), POSITIVE[POSITIVE < 700])
    assert_allclose(special.log1mexp(POSITIVE[POSITIVE < 700]), want, rtol=1e-15)
    assert special.log1mexp(np.array([0.0, 1e8])).tolist() == [-np.inf, 0.0]


def test_polya_gamma_mean_and_lambda():
    x = np.concatenate([[0.0], POSITIVE, -POSITIVE])
    want = exact(lambda v: mp.tanh(v / 2) / (2 * v) if v else mp.mpf(1) / 4, x)
    assert_allclose(special.polya_gamma_mean(x), want, rtol=1e-15)
    assert_allclose(special.jaakkola_lambda(x), want / 2, rtol=1e-15)
