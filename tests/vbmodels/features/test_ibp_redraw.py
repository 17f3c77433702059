"""Chains from the best fit: rows drawn again, and free features that find what starts missed."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.core.algorithm import Show
from vbmodels.core.driver import Frames
from vbmodels.core.fit import InProcess
from vbmodels.features.ibp.model import FeatureLocal, PolyaGammaIBP
from vbmodels.features.search.fit import EXTRA, REFIT, redraw
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.states import Candidate, SearchLocal
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 5] * 6)
ROWS = 120


@pytest.fixture(scope="module")
def searched():
    """A search that has not begun, its table, and its rows' true features."""
    rng = np.random.default_rng([0, ROWS])
    codes, z, _ = simulate_table(rng, ROWS, LEVELS, np.array([0.45, 0.35, 0.25]))
    batch = feature_batch(codes, LEVELS, grouped=False)
    model = SearchIBP(PolyaGammaIBP(8))
    return model, batch, model.init(model.observe(batch), np.random.default_rng(0)), z


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
    return Candidate(q, np.arange(nu.shape[1]), None, bound, calm=True), nu


def proposed(model, batch, q, fit, nu, extra):
    """Return the search after a chain from a fit, and the nu of the proposal that started there."""
    reduce, frames = InProcess(model, [batch]), Frames(redraw(model, replace(q, fit=fit), extra))
    number, answer = 0, None
    reduce.restore(number, [SearchLocal((), (nu,), ())])
    while (request := frames.next(answer)) is not None:
        answer = None
        if not isinstance(request, Show):
            answer = frames.note(request, reduce(request.q, number=number + 1, warm=number))
            number += 1
    (local,) = reduce.local_states(number)
    return frames.result, local.fits[1]


def test_redrawn_rows_leave_a_worse_optimum(searched):
    """Coordinate ascent from noise gets stuck, and a chain from there does not."""
    rng = np.random.default_rng(8)
    codes, features, _ = simulate_table(rng, ROWS, LEVELS, np.linspace(0.45, 0.2, 5))
    batch = feature_batch(codes, LEVELS, grouped=False)
    noise = rng.random(features.shape) < 0.5
    fit, nu = fitted(batch, np.clip(noise, 0.02, 0.98), 60)
    model, _, q, _ = searched
    tried, _ = proposed(model, batch, q, fit, nu, 0)
    assert tried.accepted
    assert_array_equal(tried.at.history.stages, [REFIT.name])
    assert tried.at.history.gains[0] > 10.0


def test_free_features_find_one_that_is_missing(searched):
    model, batch, q, z = searched
    fit, nu = fitted(batch, np.clip(z[:, :2], 0.02, 0.98), 10)
    tried, found = proposed(model, batch, q, fit, nu, EXTRA)
    assert tried.at.history.stages[-1] == REFIT.name
    assert_array_equal(tried.at.history.sizes[-1], [2, 3])
    # The features that were there keep their labels, so that random numbers are theirs.
    assert_array_equal(tried.best.labels[:2], [0, 1])
    right = ((found > 0.5) == z[:, [2]]).mean(0)
    assert max(right.max(), 1.0 - right.min()) > 0.9
