"""What one distribution has beyond the table: extremes, special moments, Polya-Gamma."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vbmodels.core.expfam import (
    Gamma,
    Gaussian,
    Normal,
    PolyaGamma,
    TruncatedNormal,
    VonMisesFisher,
)
from vbmodels.core.expfam.von_mises_fisher import bessel_ratio, log_bessel_over_power


def test_gaussian_from_linear():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((5, 3, 4))
    precision = half @ np.swapaxes(half, -1, -2)
    mean = rng.standard_normal((5, 3))
    q = Gaussian.from_linear((precision @ mean[..., None])[..., 0], precision)
    assert_allclose(q.mean, mean, rtol=1e-9)
    assert_allclose(q.covariance @ precision, np.broadcast_to(np.eye(3), (5, 3, 3)), atol=1e-9)
    assert_allclose(q.precision, precision, rtol=1e-12, atol=1e-12)


def test_gaussian_of_one_dimension_is_the_normal():
    q = Gaussian.from_precision(np.array([2.0]), np.array([[4.0]]))
    p = Gaussian.from_precision(np.array([1.0]), np.array([[0.5]]))
    one, other = Normal(np.float64(2), np.float64(4)), Normal(np.float64(1), np.float64(0.5))
    assert_allclose(q.kl(p), one.kl(other), rtol=1e-14)
    assert_allclose(q.entropy(), one.entropy(), rtol=1e-14)


def test_gaussian_refuses_a_precision_that_is_not_one():
    with pytest.raises(np.linalg.LinAlgError, match=r"precision of a Gaussian.*eigenvalue is -1"):
        Gaussian.from_precision(np.zeros(2), np.diag([1.0, -1.0]))


def test_normal_far_from_zero_keeps_the_digits_of_its_divergence():
    q, p = Normal(np.float64(1e9), np.float64(1)), Normal(np.float64(1e9 + 1), np.float64(1))
    assert q.kl(p) == 0.5


def test_gaussian_divergence_from_the_standard_one():
    rng = np.random.default_rng(1)
    half = rng.standard_normal((5, 3, 4))
    q = Gaussian.from_precision(rng.standard_normal((5, 3)), half @ np.swapaxes(half, -1, -2))
    standard = Gaussian(np.zeros((5, 3)), np.broadcast_to(np.eye(3), (5, 3, 3)))
    assert_allclose(q.kl_to_standard(), q.kl(standard), rtol=1e-12)


def test_inverse_gamma_has_the_divergence_of_the_gamma():
    """KL is invariant under x -> 1/x: Gamma on the precision serves for the variance."""
    q, p = Gamma(np.float64(3), np.float64(2)), Gamma(np.float64(2.5), np.float64(1.0))
    rival, other = stats.invgamma(3, scale=2), stats.invgamma(2.5, scale=1)
    x = rival.rvs(200_000, random_state=np.random.default_rng(0))
    weights = rival.logpdf(x) - other.logpdf(x)
    assert abs(q.kl(p) - weights.mean()) < 4 * weights.std() / np.sqrt(x.size)


@pytest.mark.parametrize("t", [-1e8, -1e4, -50.0, -4.001, -3.999, -2.001, 0.0, 3.0, 36.0, 1e8])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_truncated_normal_everywhere(t, side):
    q = TruncatedNormal(np.float64(side * t), np.float64(side))
    with mp.workdps(120):
        x = mp.mpf(t)
        r = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / (mp.erfc(-x / mp.sqrt(2)) / 2)
        mean, variance = float(x + r), float(1 - r * (x + r))
    assert_allclose(q.mean, side * mean, rtol=2e-14)
    assert_allclose(q.variance, variance, rtol=1e-13)
    assert_allclose(q.mean_square, mean**2 + variance, rtol=1e-13)


def polya_gamma_draws(rng, size, terms=300):
    """PG(1, 0) as a sum of exponentials; Polson, Scott and Windle (2013), eq. 1."""
    k = np.arange(1, terms + 1) - 0.5
    return (rng.exponential(size=(size, terms)) / k**2).sum(1) / (2 * np.pi**2) + 1 / (
        2 * np.pi**2 * terms
    )


def test_polya_gamma_against_draws():
    w = polya_gamma_draws(np.random.default_rng(0), 40_000)
    for c in (0.0, 0.5, 3.0):
        q = PolyaGamma(np.float64(1), np.float64(c))
        tilt = np.exp(-0.5 * c * c * w)
        error = tilt.std() / np.sqrt(w.size)
        assert abs(np.exp(q.log_norm(q.natural)) - tilt.mean()) <= 4 * error + 1e-6
        weight = tilt / tilt.mean()
        error = (weight * w).std() / np.sqrt(w.size)
        assert abs(q.mean - (weight * w).mean()) <= 5 * error
        log_ratio = np.log(weight)
        error = (weight * log_ratio).std() / np.sqrt(w.size)
        assert abs(q.kl_to_prior() - (weight * log_ratio).mean()) <= 5 * error + 1e-6


def test_polya_gamma_identities():
    q = PolyaGamma(np.array([1.0, 2.0, 1.0]), np.array([0.7, 3.0, 20.0]))
    prior = PolyaGamma(q.shape, np.zeros(3))
    assert_allclose(q.kl(prior), q.kl_to_prior(), rtol=1e-12)
    assert np.all(q.kl(q) == 0)
    h = 1e-5
    slope = (q.log_norm(q.natural + h) - q.log_norm(q.natural - h)) / (2 * h)
    assert_allclose(slope, q.mean, rtol=1e-8)
    with pytest.raises(NotImplementedError, match="no closed form"):
        q.entropy()


@pytest.mark.parametrize("p", [2, 3, 4, 10, 124, 203, 1000, 5001])
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


@pytest.mark.parametrize("p", [2, 3, 50, 5000])
def test_von_mises_fisher_without_concentration_is_uniform(p):
    direction = np.eye(p)[0]
    q = VonMisesFisher(direction, np.float64(0.0))
    log_area = float(mp.log(2 * mp.pi ** (mp.mpf(p) / 2) / mp.gamma(mp.mpf(p) / 2)))
    assert_allclose(q.entropy(), log_area, rtol=1e-13)
    assert np.all(q.mean == 0)
    if p < 100:
        assert_allclose(q.second_moment, np.eye(p) / p, atol=1e-15)


def test_von_mises_fisher_second_moment_by_draws():
    direction = np.array([0.6, 0.0, 0.8])
    q = VonMisesFisher(direction, np.float64(2.5))
    x = stats.vonmises_fisher(direction, 2.5).rvs(200_000, random_state=np.random.default_rng(1))
    assert_allclose(q.second_moment, x.T @ x / len(x), atol=5e-3)
    assert_allclose(np.trace(q.second_moment), 1.0, rtol=1e-14)
