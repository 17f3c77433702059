"""What one distribution has beyond the table: extremes, special moments, Polya-Gamma."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.expfam import (
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


def test_gaussian_refuses_a_precision_that_is_not_one():
    with pytest.raises(np.linalg.LinAlgError, match=r"precision of a Gaussian.*eigenvalue is -1"):
        Gaussian.from_precision(np.zeros(2), np.diag([1.0, -1.0]))


def test_normal_far_from_zero_keeps_the_digits_of_its_divergence():
    q, p = Normal(np.float64(1e9), np.float64(1)), Normal(np.float64(1e9 + 1), np.float64(1))
    assert q.kl(p) == 0.5


@pytest.mark.parametrize("t", [-1e8, -50.0, -4.001, -3.999, 0.0, 36.0])
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


@pytest.mark.parametrize("p", [2, 50, 5000])
def test_von_mises_fisher_without_concentration_is_uniform(p):
    direction = np.eye(p)[0]
    q = VonMisesFisher(direction, np.float64(0.0))
    log_area = float(mp.log(2 * mp.pi ** (mp.mpf(p) / 2) / mp.gamma(mp.mpf(p) / 2)))
    assert_allclose(q.entropy(), log_area, rtol=1e-13)
    assert np.all(q.mean == 0)
    if p < 100:
        assert_allclose(q.second_moment, np.eye(p) / p, atol=1e-15)
