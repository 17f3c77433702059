"""The compiled terms of the corpus model against mpmath, near, far, and where documents differ."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.keywords import coded_feature_kernels as coded_kernels
from vbmodels.keywords.corpus import likelihood_kernels as kernels

ETA = (-60.0, -37.0, -24.001, -23.999, -8.0, -1.3, -1e-9, 0.0, 0.4, 3.0, 8.0, 23.999, 24.001, 38.0)
DELTA = (1.0, 0.97, 0.4, 1e-6)


def terms_of(eta, y, delta, expected):
    """Return log p(y) of one word, and its terms."""
    out = np.empty((kernels.TERMS, 1))
    with np.errstate(divide="ignore"):
        log_delta = np.log([delta])
    value = kernels.terms(
        np.array([eta]), np.array([y]), np.zeros(1, np.int64), log_delta, np.array([delta]),
        np.array([1.0 - delta]), expected, out,
    )  # fmt: skip
    return np.append(value, out[:, 0])


def log_probability(eta, log_delta, y):
    """Return log p(y) of one word, in as many digits as are set."""
    p = mp.exp(log_delta) * mp.ncdf(eta)
    # ncdf(-eta) and not 1 - ncdf(eta): whatever the digits, nothing cancels.
    return mp.log(p) if y else mp.log(mp.ncdf(-eta) - mp.expm1(log_delta) * mp.ncdf(eta))


@pytest.mark.parametrize("y", [True, False])
@pytest.mark.parametrize("delta", DELTA)
@pytest.mark.parametrize("eta", ETA)
def test_terms_are_derivatives_of_the_log_probability(eta, delta, y):
    orders = [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    # Complete documents have no derivatives by log delta, which is fixed there.
    shown = [0, 1, 3] if delta == 1.0 else range(6)
    found = terms_of(eta, y, delta, False)
    with mp.workdps(60):
        e, level = mp.mpf(eta), mp.log(mp.mpf(delta))
        for i in shown:
            by_eta, by_level = orders[i]
            sign = (-1) ** (by_level + (by_eta + by_level == 2))
            if by_level == 0:
                slope = mp.diff(lambda one: log_probability(one, level, y), e, by_eta)
            else:
                slope = mp.diff(
                    lambda one, other: log_probability(one, other, y), (e, level), orders[i]
                )
            # Of log p(y), which is only added up, the digits before 1 are what counts.
            near = 1e-60 if i or abs(eta) > kernels.FAR else 1e-15
            assert_allclose(found[i], float(sign * slope), rtol=1e-11, atol=near)


def test_rows_are_standardised_with_the_columns_added():
    rng = np.random.default_rng(0)
    x, added = rng.standard_normal((9, 3)), rng.standard_normal((9, 2))
    location, scale = rng.standard_normal(5), np.array([1.0, 2.0, np.inf, 0.5, 3.0])
    rows = np.array([7, 0, 3])
    whole = (np.hstack([x, added])[rows] - location) / scale
    plain = np.full(3, coded_kernels.PLAIN), np.arange(3), np.zeros(3, np.int64)
    no_codes = np.zeros((0, 9), np.uint8), np.zeros((0, 9), np.uint16)
    held = *plain, *no_codes, np.ascontiguousarray(x.T), np.zeros(0)
    for columns in ([0, 1, 2, 3, 4], [0, 1, 3, 4], [1, 2], [4]):
        out = np.empty((len(columns), 3))
        used = np.array(columns)
        of = coded_kernels.Columns(
            *held, np.ascontiguousarray(added.T), location, 1.0 / scale, used
        )
        coded_kernels.standardised(of, rows, out)
        assert_allclose(out.T, whole[:, columns], rtol=1e-14)


def test_a_sum_of_logarithms_stands_for_many_small_probabilities():
    """A product of a thousand of them would be nothing; far words stand between near ones."""
    rng = np.random.default_rng(2)
    eta, y = rng.uniform(-26.0, 26.0, 3000), rng.random(3000) < 0.5
    document, delta = np.sort(rng.integers(4, size=3000)), np.array([0.1, 0.5, 0.97, 1.0])
    out = np.empty((kernels.TERMS, 3000))
    listing = document, np.log(delta), delta, 1.0 - delta
    whole = kernels.terms(eta, y, *listing, False, out)
    each = [terms_of(e, one, delta[d], False) for e, one, d in zip(eta, y, document, strict=True)]
    assert whole == pytest.approx(sum(one[0] for one in each), rel=1e-12)
    assert_allclose(out.T, np.array(each)[:, 1:], rtol=1e-12)
