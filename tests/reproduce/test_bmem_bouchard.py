"""What the paper's bound on the gates does: it holds, and one expert keeps nearly all rows."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

from reproduce.bmem_bouchard import BouchardExperts, best_centre
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.special import jaakkola_lambda
from vbmodels.experts.bmem.model import BoundedExperts
from vbmodels.experts.rows import Rows
from vbmodels.experts.simulate import simulate

pytestmark = pytest.mark.thorough  # a form of the papers


def rows(count, seed=0):
    x, t, _ = simulate(np.random.default_rng(seed), count, features=3)
    return Rows.of(x, t, np.arange(count, dtype=np.int64))


def bound_of(model, q, batch):
    return model.elbo(q, model.suff_stats(q, batch, model.local_step(q, batch, None)))


def test_it_lies_below_the_softmax():
    rng = np.random.default_rng(2)
    mean, sd = rng.standard_normal((2, 4, 6))
    draws = mean + np.abs(sd) * rng.standard_normal((200_000, 4, 6))
    exact = logsumexp(draws, axis=1).mean(0)
    second = mean**2 + sd**2
    d, c = best_centre(mean, second, None)
    inner = np.log1p(np.exp(d)) + (mean - c - d) / 2
    inner += jaakkola_lambda(d) * (second - 2 * c * mean + c**2 - d**2)
    above = c + inner.sum(0)
    assert np.all(above >= exact - 0.01)
    assert np.all(above <= exact + 2.5)


def test_labels_enter_the_bound_as_they_do_not_in_the_print():
    """The supplement's (17) drops 2 y - 1: there the bound would not change at fixed q."""
    batch = rows(80)
    flipped = Rows.of(batch.dense[:, :-1], -batch.t, batch.key)
    model = BouchardExperts(2)
    q = fit(model, [batch], max_iter=40, tol=1e-3).q
    assert bound_of(model, q, flipped) < bound_of(model, q, batch) - 5.0


def test_one_expert_keeps_nearly_all_rows():
    x, t, _ = simulate(np.random.default_rng(0), 600, features=2, gate_scale=4.0, expert_scale=4.0)
    batch = Rows.of(x, t, np.arange(600, dtype=np.int64))
    share, bound = {}, {}
    for model in (BouchardExperts(3), BoundedExperts(3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            done = fit(model, [batch], max_iter=300, tol=1e-6)
        found = model.posterior(done.q).predict(batch).responsibility
        share[type(model)], bound[type(model)] = found.mean(1).max(), done.trace[-1]
    assert share[BouchardExperts] > 0.99
    assert share[BoundedExperts] < 0.6
    assert bound[BouchardExperts] < bound[BoundedExperts] - 5.0
