"""Parallel EP against quadrature, differences, and its own other form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from vbmodels.bags.embedding.ep import LOWEST, Gathered, update

TIGHT = 1e-26


def some_bags(n: int, d: int, seed: int = 0, noise: float = 1.0) -> tuple[Gathered, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = np.hstack([rng.standard_normal((n, d)), np.ones((n, 1))])
    block = np.append(np.arange(d) % 2, 2)
    f = columns[:, :2].sum(axis=1)
    sign = np.where(f + noise * rng.standard_normal(n) > 0, 1.0, -1.0)
    variance = np.array([0.7, 0.2, 10.0])[block]
    return Gathered(columns, sign, block, 2), variance


def converged(of: Gathered, variance: np.ndarray, dual: bool | None = None):
    zeros = np.zeros(of.sign.size)
    return of.converge(variance, zeros, zeros, TIGHT, dual)


@pytest.mark.parametrize(("n", "d"), [(40, 8), (12, 30)])
def test_both_forms_are_the_same_numbers(n, d):
    of, variance = some_bags(n, d)
    one, other = converged(of, variance, True), converged(of, variance, False)
    for name in ("tau", "nu", "value", "slope", "log_z"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-11)


def test_slope_of_the_evidence_is_its_difference():
    of, variance = some_bags(40, 8, noise=0.2)
    found = converged(of, variance)
    assert found.tau.min() > LOWEST  # a site at its end is not stationary
    for m in range(2):
        ends = []
        for step in (-1e-4, 1e-4):
            moved = np.where(of.block == m, variance * np.exp(step), variance)
            ends.append(converged(of, moved).value)
        assert_allclose((ends[1] - ends[0]) / 2e-4, found.slope[m], rtol=1e-5)


def test_a_site_matches_the_tilted_moments():
    """One update from no sites: mean and variance of N(f) times the likelihood, by quadrature."""
    mean, variance = np.array([0.3, -1.0]), np.array([2.0, 0.5])
    sign, zeros = np.array([1.0, 1.0]), np.zeros(2)
    new = update(sign, mean, variance, zeros, zeros)
    f = np.linspace(-15, 15, 20001)
    for i in range(2):
        tilted = stats.norm.pdf(f, mean[i], np.sqrt(variance[i])) * stats.norm.cdf(f)
        share = tilted / tilted.sum()
        at = share @ f
        precision = 1 / variance[i] + new.tau[i]
        assert_allclose((mean[i] / variance[i] + new.nu[i]) / precision, at, rtol=1e-6)
        assert_allclose(1 / precision, share @ f**2 - at**2, rtol=1e-6)


def test_the_fixed_point_is_that_of_plain_sequential_ep():
    """EP written out naively: a bag at a time, moments by quadrature, full inverses."""
    of, variance = some_bags(15, 3, seed=2)
    tau, nu = np.full(15, 1e-10), np.zeros(15)
    at = np.linspace(-12, 12, 4001)
    for _ in range(40):
        for i, x in enumerate(of.columns):
            gram = of.columns.T @ (tau[:, None] * of.columns)
            cov = np.linalg.inv(np.diag(1 / variance) + gram)
            mu, var = x @ cov @ (of.columns.T @ nu), x @ cov @ x
            cavity = 1 / var - tau[i]
            centre = (mu / var - nu[i]) / cavity
            f = centre + at / np.sqrt(cavity)
            tilted = stats.norm.pdf(at) * stats.norm.cdf(of.sign[i] * f)
            tilted /= tilted.sum()
            mean = tilted @ f
            tau[i] = 1 / (tilted @ f**2 - mean**2) - cavity
            nu[i] = mean / (tilted @ f**2 - mean**2) - centre * cavity
    found = converged(of, variance)
    assert_allclose(found.tau, tau, rtol=1e-6)
    assert_allclose(found.nu, nu, rtol=1e-6, atol=1e-8)
