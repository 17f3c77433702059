"""vMMIC where features are as many as bags: features are turned, coefficients are not."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.bags.bags import Instances, bags, split
from vbmodels.bags.vmmic.layout import Observed, Scaling
from vbmodels.bags.vmmic.likelihood import Likelihood
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import Gaussian, Posterior, predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.fit import fit

WIDTH, RANK = 40, 5
pytestmark = pytest.mark.filterwarnings("ignore::vbmodels.bags.vmmic.layout.FewBags")


def wide(n=30, seed=0):
    """Bags of instances with 40 features of rank 5, and a few of another kind."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), 4)
    z = rng.standard_normal((bag.size, RANK))
    x = z @ rng.standard_normal((RANK, WIDTH)) + rng.standard_normal(WIDTH)
    label = (np.bincount(bag, z[:, 0] > 1.0) > 0).astype(np.int8)
    other = Instances.from_rows(np.arange(n), rng.standard_normal((n, 2)), n)
    return bags([Instances.from_rows(bag, x, n), other], label, rng.standard_normal((n, 1)))


def turned(data, share=1.0):
    seen = Observed.of(data)
    return seen.turned(seen.scaling(True), share)


def test_the_rank_of_the_instances_is_found():
    scaling = turned(wide())
    assert [v.shape for v in scaling.turns] == [(WIDTH, RANK), (2, 2)]
    assert_allclose(scaling.turns[0].T @ scaling.turns[0], np.eye(RANK), atol=1e-12)
    few = wide(100)
    assert turned(few).turns == ()
    assert turned(wide(), 0.5).turns[0].shape[1] < RANK


def test_turned_coordinates_say_the_same_of_every_bag():
    data, scaling = wide(), turned(wide())
    t = 0.3 * np.random.default_rng(1).standard_normal(scaling.layout.dim)
    plain = Likelihood(replace(scaling, turns=())).evaluate(scaling.back @ t, data)
    found = Likelihood(scaling).evaluate(t, data)
    assert_allclose(found.value, plain.value, rtol=1e-12)
    assert_allclose(found.gradient, scaling.back.T @ plain.gradient, rtol=1e-8, atol=1e-9)
    hessian = scaling.back.T @ plain.information @ scaling.back
    assert_allclose(found.information, hessian, rtol=1e-8, atol=1e-9)


def posterior_of(scaling: Scaling, data, priors: Priors):
    """Return the Gaussian of one Newton step from 0 at the learned precisions' start."""
    layout = scaling.layout
    found = Likelihood(scaling).evaluate(np.zeros(layout.dim), data)
    prior = priors.precision(layout)
    precision = found.information + np.diag(prior)
    mean = np.linalg.solve(precision, found.gradient)
    return Posterior(scaling, (Gaussian(mean, precision),), priors.fixed(layout)[None])


def test_the_prior_of_turned_slopes_is_that_of_the_slopes():
    """Mean and covariance of all coefficients, the directions left out at their prior."""
    data, scaling = wide(), turned(wide())
    priors = Priors(learn=False, slope_variance=0.1)
    whole = posterior_of(replace(scaling, turns=()), data, priors)
    found = posterior_of(scaling, data, priors)
    for a, b in zip(found.moments(), whole.moments(), strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-9)
    draws = found.coefficients(40_000, np.random.default_rng(0))
    mean, sd = whole.moments()
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * sd / np.sqrt(len(draws)))
    assert_allclose(np.cov(draws.T), np.linalg.inv(whole.components[0].precision), atol=0.35)


def test_a_fit_of_turned_features_predicts_as_the_whole(monkeypatch):
    data = wide(36)
    model = CollapsedVMMIC(kept_variance=1.0, both_starts_below=0.0, turned_from=1)
    q = fit(model, split(data, 3), seed=0, max_iter=3000).q
    assert q.scaling.layout.features == (RANK, 2)
    post = model.posterior(q)
    assert post.moments()[0].shape == (q.scaling.layout.plain.dim,)
    monkeypatch.setattr(Observed, "turned", lambda self, scaling, share, least: scaling)
    whole = model.posterior(fit(model, [data], seed=0, max_iter=3000).q)
    few, all_ = (predict(p.draws(), p.scaling, data) for p in (post, whole))
    assert np.abs(few.bag - all_.bag).mean() < 0.03
    assert np.corrcoef(few.instances[0], all_.instances[0])[0, 1] > 0.95
