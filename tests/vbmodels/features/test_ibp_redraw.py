"""Chains from the best fit: rows drawn anew, and free features that find what starts missed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.features.ibp.model import FeatureLocal, PolyaGammaIBP
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.moves import EXTRA, redraw
from vbmodels.features.search.states import REDRAW, REFIT, TIDY, Lane, SearchLocal
from vbmodels.features.simulate import simulate_table
from vbmodels.features.table import feature_batch

LEVELS = np.array([2, 3, 4, 5] * 6)
ROWS = 120


@pytest.fixture(scope="module")
def searched():
    """A search where its rounds begin, its table, and its rows' true features."""
    rng = np.random.default_rng([0, ROWS])
    codes, z, _ = simulate_table(rng, ROWS, LEVELS, np.array([0.45, 0.35, 0.25]))
    batch = feature_batch(codes, LEVELS, grouped=False)
    model = SearchIBP(PolyaGammaIBP(8))
    reduce = InProcess(model, [batch])
    q = model.init(reduce.observe(), np.random.default_rng(0))
    at = next(step for step in Driver(loop_of(model), model, q, reduce) if step.q.stage == TIDY)
    return model, batch, reduce, at, z


def fitted(batch, nu, sweeps):
    """Return a fit that starts at nu, as one side by side with others, and its nu."""
    model = PolyaGammaIBP(nu.shape[1])
    q = model.init(model.observe(batch), np.random.default_rng(1))
    for _ in range(3):
        q = model.global_step(q, model.suff_stats(q, batch, FeatureLocal(nu)))
    for _ in range(sweeps):
        nu = model.local_step(q, batch, FeatureLocal(nu)).nu
        q = model.global_step(q, model.suff_stats(q, batch, FeatureLocal(nu)))
    bound = model.elbo(q, model.suff_stats(q, batch, FeatureLocal(nu)))
    return Lane(q, np.arange(nu.shape[1]), bound, True, -np.inf, 0.0, None), nu


def proposed(searched, lane, nu, extra):
    """Return the last q of a chain from a fit and of the fit that starts from it, its nu."""
    model, _, reduce, at, _ = searched
    q, number = redraw(at.q, lane, extra), at.iteration
    reduce.restore(number, [SearchLocal((), (nu,), ())])
    while q.stage in (REDRAW, REFIT):
        last, stats = q, reduce(q, number=number + 1, warm=number)
        number, q = number + 1, model.global_step(q, stats)
    (local,) = reduce.local_states(number)
    return last, q, local.lanes


def test_redrawn_rows_leave_a_worse_optimum(searched):
    """Coordinate ascent from noise gets stuck, and a chain from there does not."""
    rng = np.random.default_rng(8)
    codes, features, _ = simulate_table(rng, ROWS, LEVELS, np.linspace(0.45, 0.2, 5))
    batch = feature_batch(codes, LEVELS, grouped=False)
    noise = rng.random(features.shape) < 0.5
    lane, nu = fitted(batch, np.clip(noise, 0.02, 0.98), 60)
    model, at = searched[0], searched[3]
    before, after, _ = proposed((model, batch, InProcess(model, [batch]), at, None), lane, nu, 0)
    assert before.stage == REFIT
    assert np.all(after.history.stages == REFIT)
    assert after.history.gains.sum() > 10.0
    assert after.redrawn


def test_free_features_find_one_that_is_missing(searched):
    _, batch, _, _, z = searched
    lane, nu = fitted(batch, np.clip(z[:, :2], 0.02, 0.98), 10)
    before, after, lanes = proposed(searched, lane, nu, EXTRA)
    assert after.history.stages[-1] == REFIT
    assert_array_equal(after.history.sizes[-1], [2, 3])
    # The features that were there keep their labels, so that random numbers are theirs.
    assert_array_equal(before.lanes[1].labels[:2], [0, 1])
    right = ((lanes[1] > 0.5) == z[:, [2]]).mean(0)
    assert max(right.max(), 1.0 - right.min()) > 0.9
