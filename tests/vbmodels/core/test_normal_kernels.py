"""Compiled log Phi and phi/Phi against SciPy and against `inverse_mills`."""

import warnings

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import erfcx, log_ndtr

from vbmodels.core.normal_kernels import (
    FAR,
    bells,
    log_cdf_and_mills,
    lower_tail,
    tail_over_bell,
    tail_ratio,
)
from vbmodels.core.special import inverse_mills


def test_against_sixty_digits():
    x = np.concatenate([np.linspace(-40.0, 20.0, 301), [-1e4, -1e-9, 0.0, 1e-9]])
    log_cdf, mills = log_cdf_and_mills(x)
    with mp.workdps(60):
        for at, value, slope in zip(x, log_cdf, mills, strict=True):
            v = mp.mpf(float(at))
            cdf = mp.erfc(-v / mp.sqrt(2)) / 2
            want = mp.log(cdf) if at < 0 else mp.log1p(-mp.erfc(v / mp.sqrt(2)) / 2)
            assert_allclose(value, float(want), rtol=4e-14)
            assert_allclose(slope, float(mp.npdf(v) / cdf), rtol=4e-14)


def test_far_out_there_is_a_number_and_no_warning():
    x = np.array([-1e200, -1e20, -1e8, 30.0, 37.0, 1e8, 1e200])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log_cdf, mills = log_cdf_and_mills(x)
    assert_allclose(log_cdf, log_ndtr(x), rtol=5e-13, atol=1e-300)
    assert_allclose(mills, inverse_mills(x), rtol=5e-13, atol=1e-300)


def test_what_is_infinite_has_its_limits():
    log_cdf, mills = log_cdf_and_mills(np.array([-np.inf, np.inf, np.nan]))
    assert log_cdf[0] == -np.inf
    assert log_cdf[1] == 0.0
    assert mills[0] > 1e100
    assert mills[1] == 0.0
    assert np.isnan([log_cdf[2], mills[2]]).all()


def test_the_lower_tail_is_the_normal_one():
    for x in np.linspace(0.0, FAR, 193):
        over = float(mp.ncdf(-x) * mp.exp(mp.mpf(x) ** 2 / 2))
        assert tail_over_bell(x) == pytest.approx(over, rel=1e-15)
        assert lower_tail(x, np.exp(-0.5 * x * x)) == pytest.approx(float(mp.ncdf(-x)), rel=1e-13)


def test_the_bell_is_the_exponential_wherever_it_is_used():
    eta = np.concatenate([np.linspace(-FAR, FAR, 4001), [0.0, 1e-200, -1e-9]])
    found = np.empty(len(eta))
    bells(eta, np.empty(len(eta)), found)
    assert_allclose(found, np.exp(-0.5 * eta * eta), rtol=4e-16)


def test_the_tail_over_the_bell_holds_as_far_as_the_bell():
    for x in np.linspace(FAR, 38.0, 57):
        over = float(mp.ncdf(-x) * mp.exp(mp.mpf(x) ** 2 / 2))
        assert tail_over_bell(x) == pytest.approx(over, rel=1e-11)


def test_the_tail_of_an_array_is_scipys_wherever_it_is():
    x = np.concatenate([np.linspace(-60.0, 60.0, 4001), [0.0, -0.0, 1e-300, 1e200, -1e8]])
    found = np.empty_like(x)
    tail_ratio(x, found)
    assert_allclose(found, 0.5 * erfcx(np.abs(x) * np.sqrt(0.5)), rtol=1e-14)
