"""One table drives every distribution: against scipy.stats, finite differences and draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vbmodels.core import expfam
from vbmodels.core.expfam import (
    Gaussian,
    Normal,
    PolyaGamma,
    TruncatedNormal,
    VonMisesFisher,
)
from vbmodels.core.expfam.von_mises_fisher import bessel_ratio, log_bessel_over_power

DRAWS = 40_000


@dataclass(frozen=True)
class Row:
    """A family: four members along a leading axis, others, and its rival in scipy.stats."""

    q: Any
    p: Any
    rival: Callable[[Any, int], Any]
    statistics: Callable[[Any], Any]
    log_base: Callable[[Any], Any] = lambda x: 0.0


def a(*values):
    return np.array(values, dtype=float)


def member(dist, i):
    """The i-th member of a family's leading axis."""
    return type(dist)(**{name: value[i] for name, value in vars(dist).items()})


def spd(rng, size, count):
    half = rng.standard_normal((count, size, size + 2))
    return half @ np.swapaxes(half, -1, -2)


def directions(rng, p, count):
    x = rng.standard_normal((count, p))
    return x / np.linalg.norm(x, axis=1)[:, None]


def truncated(dist, i):
    low, high = (0.0, np.inf) if dist.side[i] > 0 else (-np.inf, 0.0)
    m = dist.location[i]
    return stats.truncnorm(low - m, high - m, loc=m)


RNG = np.random.default_rng(5)
SIDE = a(1, -1, 1, -1)
ROWS = {
    "normal": Row(
        expfam.Normal(a(0, 1.5, -3, 40), a(1, 0.2, 7, 100)),
        expfam.Normal(a(0.3, 1, -2, 39.9), a(2, 0.1, 7, 50)),
        lambda d, i: stats.norm(d.mean[i], d.precision[i] ** -0.5),
        lambda x: np.stack([x, x**2], -1),
    ),
    "gamma": Row(
        expfam.Gamma(a(0.4, 1, 3.5, 200), a(2, 0.1, 1, 30)),
        expfam.Gamma(a(0.7, 1.2, 3, 190), a(1, 0.2, 1, 31)),
        lambda d, i: stats.gamma(d.shape[i], scale=1 / d.rate[i]),
        lambda x: np.stack([np.log(x), x], -1),
    ),
    "beta": Row(
        expfam.Beta(a(0.6, 1, 3, 100), a(0.8, 2, 30, 90)),
        expfam.Beta(a(0.7, 2, 3, 95), a(0.9, 2, 25, 90)),
        lambda d, i: stats.beta(d.a[i], d.b[i]),
        lambda x: np.stack([np.log(x), np.log1p(-x)], -1),
    ),
    "gaussian": Row(
        expfam.Gaussian.from_precision(RNG.standard_normal((4, 3)), spd(RNG, 3, 4)),
        expfam.Gaussian.from_precision(RNG.standard_normal((4, 3)), spd(RNG, 3, 4)),
        lambda d, i: stats.multivariate_normal(d.mean[i], np.linalg.inv(d.precision[i])),
        lambda x: np.concatenate(
            [x, (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)], -1
        ),
    ),
    "truncated normal": Row(
        expfam.TruncatedNormal(a(0.3, 2, -5, -0.5), SIDE),
        expfam.TruncatedNormal(a(0, 1, -4, 0.5), SIDE),
        truncated,
        lambda x: x[..., None],
        stats.norm.logpdf,
    ),
    "von Mises-Fisher": Row(
        expfam.VonMisesFisher(directions(RNG, 4, 4), a(0.1, 2, 10, 300)),
        expfam.VonMisesFisher(directions(RNG, 4, 4), a(0.3, 1, 12, 0.01)),
        lambda d, i: stats.vonmises_fisher(d.direction[i], d.concentration[i]),
        lambda x: x,
    ),
}
families = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def draw(frozen, size, seed=0):
    return np.asarray(frozen.rvs(size, random_state=np.random.default_rng(seed)))


@families
def test_density_is_that_of_scipy(row):
    """log h + eta . t - A is the log density: the normaliser is right, not only its slope."""
    for i in range(4):
        q, frozen = member(row.q, i), row.rival(row.q, i)
        x = draw(frozen, 50)
        ours = row.log_base(x) + (row.statistics(x) * q.natural).sum(-1) - q.log_norm(q.natural)
        assert_allclose(ours, frozen.logpdf(x), rtol=1e-9, atol=1e-9)


def gradient(function, x):
    """Differences of sixth order, steps relative to each coordinate."""
    result = np.empty_like(x)
    for i in range(x.size):
        h = 3e-3 * max(abs(x[i]), 0.1)
        e = np.zeros_like(x)
        e[i] = h
        d = [function(x + k * e) - function(x - k * e) for k in (1, 2, 3)]
        result[i] = (45 * d[0] - 9 * d[1] + d[2]) / (60 * h)
    return result


@families
def test_gradient_of_log_norm_is_mean_of_statistics(row):
    for i in range(4):
        for dist in (row.q, row.p):
            one = member(dist, i)
            found = gradient(one.log_norm, one.natural)
            assert_allclose(found, one.mean_stats, rtol=1e-7, atol=1e-8)


@families
def test_leading_axes_are_independent(row):
    for i in range(4):
        one, other = member(row.q, i), member(row.p, i)
        assert_allclose(row.q.mean_stats[i], one.mean_stats, rtol=1e-13)
        assert_allclose(row.q.entropy()[i], one.entropy(), rtol=1e-12)
        assert_allclose(row.q.kl(row.p)[i], one.kl(other), rtol=1e-11)


@families
def test_entropy_and_divergence_by_draws(row):
    for i in range(4):
        q, p = row.rival(row.q, i), row.rival(row.p, i)
        x = draw(q, DRAWS, seed=i)
        log_q = q.logpdf(x)
        for ours, weights in [
            (row.q.entropy()[i], -log_q),
            (row.q.kl(row.p)[i], log_q - p.logpdf(x)),
        ]:
            error = weights.std() / np.sqrt(DRAWS)
            assert abs(ours - weights.mean()) <= 4.5 * error + 1e-9


@pytest.mark.parametrize("name", ["normal", "gamma", "beta", "truncated normal"])
def test_moments_are_those_of_scipy(name):
    row = ROWS[name]
    for i in range(4):
        frozen = row.rival(row.q, i)
        assert_allclose(np.asarray(row.q.mean)[i], frozen.mean(), rtol=1e-9)
        assert_allclose(np.asarray(row.q.variance)[i], frozen.var(), rtol=1e-8)


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
