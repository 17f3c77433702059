"""Compiled log Phi and phi/Phi against SciPy and against `inverse_mills`."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from vbmodels.core.normal_kernels import log_cdf_and_mills
from vbmodels.core.special import inverse_mills


def test_against_sixty_digits():
    x = np.concatenate([np.linspace(-40.0, 20.0, 301), [-1e4, -1e-9, 0.0, 1e-9]])
    log_cdf, mills = log_cdf_and_mills(x)
    with mp.workdps(60):
        for at, told, slope in zip(x, log_cdf, mills, strict=True):
            v = mp.mpf(float(at))
            cdf = mp.erfc(-v / mp.sqrt(2)) / 2
            want = mp.log(cdf) if at < 0 else mp.log1p(-mp.erfc(v / mp.sqrt(2)) / 2)
            assert_allclose(told, float(want), rtol=4e-14)
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
