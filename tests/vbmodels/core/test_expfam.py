"""Distributions against scipy.stats, finite differences, draws and mpmath."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vbmodels.core.expfam import Beta, Gamma, Gaussian, Normal
from vbmodels.experts.bmem.mutual_angular import (
    bessel_ratio,
    log_bessel_over_power,
    log_sphere_norm,
    mean_length,
    second_moment,
)


def a(*values):
    return np.array(values, dtype=float)


def gaussian(seed):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((3, 3, 5))
    precision = half @ np.swapaxes(half, -1, -2)
    return Gaussian.from_linear(rng.standard_normal((3, 3)), precision), np.linalg.inv(precision)


# Four members along a leading axis, others, and the rival of each in scipy.stats.
ROWS = {
    "normal": (
        Normal(a(0, 1.5, -3, 40), a(1, 0.2, 7, 100)),
        Normal(a(0.3, 1, -2, 39.9), a(2, 0.1, 7, 50)),
        lambda d, i: stats.norm(d.mean[i], d.precision[i] ** -0.5),
    ),
    "gamma": (
        Gamma(a(0.4, 1, 3.5, 200), a(2, 0.1, 1, 30)),
        Gamma(a(0.7, 1.2, 3, 190), a(1, 0.2, 1, 31)),
        lambda d, i: stats.gamma(d.shape[i], scale=1 / d.rate[i]),
    ),
    "beta": (
        Beta(a(0.6, 1, 3, 100), a(0.8, 2, 30, 90)),
        Beta(a(0.7, 2, 3, 95), a(0.9, 2, 25, 90)),
        lambda d, i: stats.beta(d.a[i], d.b[i]),
    ),
}
families = pytest.mark.parametrize(("q", "p", "rival"), ROWS.values(), ids=ROWS)


@families
def test_moments_and_entropy_are_scipys_and_divergence_is_by_draws(q, p, rival):
    for i in range(4):
        own, other = rival(q, i), rival(p, i)
        assert_allclose(q.mean[i], own.mean(), rtol=1e-9)
        assert_allclose(q.variance[i], own.var(), rtol=1e-8)
        assert_allclose(q.entropy()[i], own.entropy(), rtol=1e-9, atol=1e-10)
        x = own.rvs(40_000, random_state=np.random.default_rng(i))
        ratio = own.logpdf(x) - other.logpdf(x)
        assert abs(q.kl(p)[i] - ratio.mean()) <= 4.5 * ratio.std() / 200 + 1e-9


def test_gaussian_is_scipys():
    q, covariance = gaussian(0)
    assert_allclose(q.covariance, covariance, rtol=1e-9)
    for i in range(3):
        assert_allclose(
            q.entropy()[i], stats.multivariate_normal(q.mean[i], covariance[i]).entropy()
        )
    with pytest.raises(np.linalg.LinAlgError, match=r"precision of a Gaussian.*eigenvalue is -1"):
        Gaussian.from_linear(np.zeros(2), np.diag([1.0, -1.0]))


def test_normal_far_from_zero_keeps_the_digits_of_its_divergence():
    q, p = Normal(np.float64(1e9), np.float64(1)), Normal(np.float64(1e9 + 1), np.float64(1))
    assert q.kl(p) == 0.5


@pytest.mark.parametrize("p", [2, 3, 124, 5001])
def test_bessel_functions_against_mpmath(p):
    order = p / 2 - 1
    x = np.array([1e-12, 1e-3, 0.5, 3.0, 30.0, 100.0, 1e3, 4e3, 1e5])
    x = x[x <= (1e5 if p < 1000 else 4e3)]
    with mp.workdps(50):
        low, high = (
            [mp.besseli(order + i, mp.mpf(float(v)), maxterms=10**6) for v in x] for i in (0, 1)
        )
        log_i = [mp.log(i / mp.mpf(float(v)) ** order) for i, v in zip(low, x, strict=True)]
        ratio = [j / i for i, j in zip(low, high, strict=True)]
    assert_allclose(log_bessel_over_power(order, x), [float(v) for v in log_i], rtol=5e-13)
    assert_allclose(bessel_ratio(order, x), [float(v) for v in ratio], rtol=1e-12)


@pytest.mark.parametrize("k", [0.0, 0.1, 10.0])
def test_moments_of_directions_are_those_of_draws(k):
    direction = np.array([0.6, 0.0, -0.8, 0.0])
    if not k:
        area = float(mp.log(2 * mp.pi**2))
        assert_allclose(log_sphere_norm(4, np.float64(0.0)), area, rtol=1e-13)
        assert_allclose(second_moment(direction, np.float64(0.0)), np.eye(4) / 4, atol=1e-15)
        return
    x = stats.vonmises_fisher(direction, k).rvs(40_000, random_state=np.random.default_rng(0))
    assert_allclose(mean_length(4, np.float64(k)), (x @ direction).mean(), atol=0.01)
    assert_allclose(second_moment(direction, np.float64(k)), x.T @ x / len(x), atol=0.01)
