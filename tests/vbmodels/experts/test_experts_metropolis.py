"""Metropolis-Hastings for experts: against the prior's own integrals and exact posteriors."""

from collections import deque

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, ive

from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, fit, loop_of
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior, in_one_order
from vbmodels.experts.rows import Observed, Rows


def prior_draws(model, columns=2):
    """Run the chains without any row."""
    nothing = Rows.of(np.zeros((0, columns - 1)), np.zeros(0), np.zeros(0, dtype=np.int64))
    reduce = InProcess(model, [nothing])
    observed = Observed(2.0, 1.0, np.ones(columns))
    q = model.init(observed, np.random.default_rng(0))
    q = deque(Driver(loop_of(model), model, q, reduce), maxlen=1).pop().q
    assert model.diagnose(q).r_hat.max() < 1.05
    return q.draws.reshape(-1, *q.draws.shape[2:])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mabn1", "mabn2"])
def test_without_rows_it_samples_the_prior(name):
    """On the circle: E a_1'a_2 = -A_2(kappa); lengths Gamma(2, 1), whose mean is 2."""
    model = SampledExperts(
        2, WalkPrior(name, kappa=2.0), 2.0, 1.0, chains=8, warmup=300, draws=1000
    )
    draws = prior_draws(model)
    g = np.linalg.norm(draws, axis=-1)
    a = draws / g[..., None]
    cosine = np.einsum("drp,drp->dr", a[:, :, 0], a[:, :, 1])
    assert_allclose(cosine.mean(), -ive(1, 2.0) / ive(0, 2.0), atol=0.03)
    # Without the truncation's factor the mean of the lengths is 2.18.
    assert_allclose(g.mean(), 2.0, atol=0.06)
    assert stats.kstest(g[::20].ravel(), "gamma", args=(2.0,)).pvalue > 1e-3


@pytest.mark.thorough
def test_predictions_of_two_experts_are_those_by_quadrature():
    """K = 2, one feature, Gaussian prior: the mean prediction by importance-weighted draws."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((14, 1))
    t = np.where(np.abs(x[:, 0]) > 0.6, 1.0, -1.0)
    batch = Rows.of(x, t, np.arange(14, dtype=np.int64))
    model = SampledExperts(2, WalkPrior("gaussian", tau=0.25), chains=6, warmup=400, draws=500)
    done = fit(model, [batch], seed=0, max_iter=5000)
    new = Rows.of(np.array([[-1.5], [0.0], [1.0]]), np.zeros(3), np.arange(3))
    found = model.posterior(done.q).predict(new, most=6000).probability
    v = rng.standard_normal((200_000, 2, 2, 2)) * np.array([2.0, np.sqrt(10.0)])

    def chance(rows):
        linear = v @ rows.dense.T
        share = expit(linear[:, 0, 0] - linear[:, 0, 1])
        one = expit(linear[:, 1])
        return share * one[:, 0] + (1.0 - share) * one[:, 1]

    log_w = np.log(np.where(t > 0, chance(batch), 1.0 - chance(batch))).sum(1)
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    assert 1.0 / np.sum(w**2) > 500.0
    assert_allclose(found, w @ chance(new), atol=0.03)


def test_draws_are_brought_to_one_order():
    rng = np.random.default_rng(5)
    one = rng.standard_normal((2, 3, 4))
    orders = [rng.permutation(3) for _ in range(8)]
    draws = np.array([one[:, order] for order in orders]).reshape(2, 4, 2, 3, 4)
    draws[:, :, 0] += rng.standard_normal((2, 4, 1, 4))
    density = rng.standard_normal((2, 4))
    found = in_one_order(draws, density)
    assert_allclose(found[:, :, 1], np.broadcast_to(found[0, 0, 1], found[:, :, 1].shape))
