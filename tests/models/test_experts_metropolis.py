"""Metropolis-Hastings for experts: against the prior's own integrals and an exact posterior."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, ive

from vbmodels.experts.batch import Rows
from vbmodels.experts.metropolis import AngularSampler
from vbmodels.experts.simulate import simulate


def nothing():
    return Rows.of(np.zeros((0, 1)), np.zeros(0), np.zeros(0, dtype=np.int64))


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["mabn1", "mabn2"])
def test_without_rows_it_samples_the_prior(prior):
    """On the circle: E a_1'a_2 = -A_2(kappa); lengths Gamma(2, 1), whose mean is 2."""
    model = AngularSampler(2, prior, kappa=2.0, alpha1=2.0, alpha2=1.0)
    draws = model.chain(nothing(), np.random.default_rng(0), 12_000, 400).draws
    g = np.linalg.norm(draws, axis=-1)
    a = draws / g[..., None]
    cosine = np.einsum("drp,drp->dr", a[:, :, 0], a[:, :, 1])
    assert_allclose(cosine.mean(), -ive(1, 2.0) / ive(0, 2.0), atol=0.03)
    # Without the truncation's factor the mean of the lengths is 2.18.
    assert_allclose(g.mean(), 2.0, atol=0.06)


def test_types_differ_for_the_third_direction():
    """Type II pulls by |s|, type I by its direction alone; the circle, by quadrature."""
    grid = np.arange(60) * 2.0 * np.pi / 60
    unit = np.column_stack([np.cos(grid), np.sin(grid)])
    for prior in ("mabn1", "mabn2"):
        model = AngularSampler(3, prior, kappa=2.0)
        total = sum(
            np.exp(model.log_directions(np.stack([unit[0], b, c]))) for b in unit for c in unit
        )
        assert_allclose(total * (2.0 * np.pi / 60) ** 2 * 2.0 * np.pi, 1.0, rtol=2e-3)


@pytest.mark.slow
def test_posterior_of_one_expert_is_that_by_quadrature():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 1))
    t = np.where(rng.random(12) < expit(2.0 * x[:, 0] + 0.5), 1.0, -1.0)
    batch = Rows.of(x, t, np.arange(12, dtype=np.int64))
    model = AngularSampler(1, alpha1=2.0, alpha2=0.5)
    draws = model.chain(batch, np.random.default_rng(2), 8000, 500).draws[:, 1, 0]
    angle = np.arange(360) * np.pi / 180
    length = np.linspace(1e-3, 40.0, 2000)
    u, g = np.meshgrid(angle, length)
    beta = np.stack([g * np.cos(u), g * np.sin(u)], -1).reshape(-1, 2)
    log_w = stats.gamma.logpdf(np.linalg.norm(beta, axis=1), 2.0, scale=2.0)
    log_w += np.log(expit(t * (beta @ batch.dense.T))).sum(1)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    exact = w @ beta
    sd = np.sqrt(w @ beta**2 - exact**2)
    assert_allclose(draws.mean(0), exact, atol=0.15 * sd.max())
    assert_allclose(draws.std(0), sd, rtol=0.15)


def test_learned_shape_stays_below_its_cap():
    x, t, _ = simulate(np.random.default_rng(3), 60, features=2)
    batch = Rows.of(x, t, np.arange(60, dtype=np.int64))
    model = AngularSampler(2, learn=True, most_alpha1=20.0)
    found = model.chain(batch, np.random.default_rng(4), 50, 400)
    assert (found.alpha[:, 0] <= 20.0).all()
    assert not np.allclose(found.alpha, [[2.0, 0.5], [2.0, 0.5]])
    assert ((found.accepted > 0.05) & (found.accepted < 0.95)).all()
