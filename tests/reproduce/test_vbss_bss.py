"""BSS and its Polya-Gamma draws against the prior, importance sampling and known transforms."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from reproduce.polya_gamma import draw_polya_gamma
from reproduce.vbss_bss import BSS, MOST_LOG_VARIANCE, bss, prior_field

pytestmark = pytest.mark.thorough  # a form of the papers


@pytest.mark.parametrize("c", [0.0, 1.0, -4.0, 60.0])
def test_polya_gamma_has_its_laplace_transform(c):
    """E exp(-s w) = cosh(c/2) / cosh(sqrt((c^2/2 + s)/2)); Polson et al. (2013), eq. 2."""
    w = draw_polya_gamma(np.full(60_000, c), np.random.default_rng(1))
    assert np.all(w > 0)
    for s in (0.5, 3.0, 20.0, 100.0):
        seen = np.exp(-s * w)
        root = np.sqrt((c * c / 2 + s) / 2)
        exact = np.exp(np.logaddexp(c / 2, -c / 2) - np.logaddexp(root, -root))
        assert abs(seen.mean() - exact) < 5 * seen.std() / np.sqrt(len(w)) + 1e-12


@pytest.mark.parametrize("c", [1495.0, -5000.0, 1e12])
def test_polya_gamma_far_out_has_its_mean(c):
    """E w = tanh(c/2) / 2c, and there its sd is far below its mean: var w = 1 / 2 |c|^3."""
    w = draw_polya_gamma(np.full(200, c), np.random.default_rng(1)) * 2 * abs(c)
    assert abs(w.mean() - 1.0) < 5 * np.sqrt(2 / abs(c) / 200) + 1e-12


def small():
    a = np.array(
        [[0, 3, 1, 0, 0], [3, 2, 0, 1, 0], [1, 0, 0, 2, 0], [0, 1, 2, 0, 0], [0, 0, 0, 0, 0.0]]
    )
    return np.array([True, False, False, True, False]), a


def test_the_prior_mean_is_textrank_and_its_precision_is_dense_algebra():
    _, a = small()
    degree = np.where(a.sum(1) > 0, a.sum(1), 1)
    b = np.eye(5) - 0.85 * (np.diag(1 / degree) @ a).T
    theta0, precision = prior_field(a, 0.85)
    np.testing.assert_allclose(theta0, np.linalg.solve(b, np.full(5, 0.15)), rtol=1e-12)
    np.testing.assert_allclose(precision, b.T @ b, rtol=1e-12)


@pytest.mark.parametrize("tau", [2.0, pytest.param(0.001, marks=pytest.mark.slow)])
def test_the_sampler_agrees_with_importance_sampling_from_the_prior(tau):
    y, a = small()
    model = BSS(tau=tau, alpha_prior=(3.0, 2.0))
    rng = np.random.default_rng(0)
    theta0, precision = prior_field(a, model.damping)
    size = 400_000
    least = np.exp(-MOST_LOG_VARIANCE)
    lam = stats.gamma.isf(rng.random(size) * stats.gamma.sf(least, tau, scale=1 / tau), tau,
                          scale=1 / tau)  # fmt: skip
    assert lam.min() >= 0.999 * least
    root = np.linalg.cholesky(np.linalg.inv(precision))
    theta = theta0 + rng.standard_normal((size, 5)) @ root.T / np.sqrt(lam)[:, None]
    alpha = rng.beta(3.0, 2.0, size)
    p, missed = expit(theta), alpha[:, None]
    weight = np.where(y, (1 - missed) * p, 1 - (1 - missed) * p).prod(1)
    weight /= weight.sum()
    r = np.where(y, 1.0, missed * p / (1 - (1 - missed) * p))
    found = bss(y, a, model, np.random.default_rng(3), draws=4000)
    seen = found.diagnose()
    assert seen.r_hat.max() < (1.02 if tau == 2.0 else 1.05)
    exact = np.concatenate([[weight @ -np.log(lam)], weight @ theta])
    # Far from 0 theta has as many scales as sigma: its mean is no fair measure there.
    compared = [0, 2, 3, 4, 5, 6] if tau == 2.0 else [0]
    error = 5 * np.hypot(seen.mcse[compared], 0.005)
    assert np.all(np.abs(seen.mean[compared] - exact[: len(compared)]) < error)
    assert found.sigma2.max() <= 1.001 / least
    assert found.alpha.mean() == pytest.approx(weight @ alpha, abs=0.02)
    atol = 0.02 if tau == 2.0 else 0.05
    np.testing.assert_allclose(found.probability, weight @ r, atol=atol)
