"""Rows' probabilities by draws of the weights: sums over patterns, and the chain that draws."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit

from tests.feature_tables import split_rows
from vbmodels.core.fit import fit
from vbmodels.features.draw_kernels import row_keys
from vbmodels.features.forms import apply, make, read
from vbmodels.features.ibp.sticks import bound_log_off, mean_log_on
from vbmodels.features.options import FeatureOptions
from vbmodels.features.pattern_kernels import CUT, ENUMERATED
from vbmodels.features.posterior_draws import (
    DRAWS,
    WeightDraws,
    draw_patterns,
    draws_of,
    row_chances,
)
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 2, 4, 2, 3, 2, 2])


def posterior(sign, weights, log_odds):
    """Return every pattern's probability in every row, and the patterns, by their definition."""
    k = len(log_odds)
    z = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    psi = weights[:, 0] + z @ weights[:, 1:].T
    log_p = (sign > 0) @ log_expit(psi).T + (sign < 0) @ log_expit(-psi).T + z @ log_odds
    p = np.exp(log_p - log_p.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True), z


def drawn(k, units, rows, spread, seed=0):
    """Draws around weights that are themselves drawn, and rows with a tenth of no answers."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(0.0, 1.5, (units, k + 1))
    weights = mean + spread * rng.standard_normal((6, units, k + 1))
    log_odds = rng.normal(-1.0, 0.3, (6, k))
    psi = mean[:, 0] + (rng.random((rows, k)) < 0.3) @ mean[:, 1:].T
    sign = np.where(rng.random(psi.shape) < expit(psi), 1, -1)
    sign[rng.random(psi.shape) < 0.1] = 0
    return WeightDraws(weights, log_odds), sign.astype(np.int8)


@pytest.mark.parametrize(("k", "units", "atol"), [(1, 4, 1e-12), (4, 12, 2e-4), (12, 80, 5e-3)])
def test_a_probability_is_the_mean_over_draws_of_the_sum_over_patterns(k, units, atol):
    draws, sign = drawn(k, units, 60, 0.2)
    each = [posterior(sign, *one) for one in zip(draws.weights, draws.log_odds, strict=True)]
    right = np.mean([p @ z for p, z in each], axis=0)
    assert_allclose(row_chances(draws, sign), right, atol=atol)
    assert k > ENUMERATED or atol < 60 * np.exp(-CUT)


def test_drawn_patterns_have_the_probabilities_that_are_published():
    draws, sign = drawn(3, 6, 1, 0.3)
    sign = np.repeat(sign, 4000, axis=0)
    z = draw_patterns(draws, sign, row_keys(np.arange(4000), 1))
    assert z.shape == (6, 4000, 3)
    assert_allclose(z.mean((0, 1)), row_chances(draws, sign)[0], atol=0.015)


def test_of_no_feature_and_of_no_row_nothing_is_said():
    draws, sign = drawn(2, 5, 4, 0.1)
    assert row_chances(draws, sign[:0]).shape == (0, 2)
    none = WeightDraws(draws.weights[:, :, :1], draws.log_odds[:, :0])
    assert row_chances(none, sign).shape == (4, 0)
    assert draw_patterns(none, sign, row_keys(np.arange(4), 1)).shape == (6, 4, 0)


def test_draws_of_a_sample_of_the_rows_are_as_narrow_as_those_of_all():
    codes, _, _ = simulate_table(np.random.default_rng(2), 80, LEVELS, np.array([0.4, 0.3]))
    model = make(FeatureOptions(n_features=3))
    q = fit(model, [feature_batch(codes, LEVELS)], seed=0, max_iter=600).q.search
    whole = draws_of(q.best.q)
    moved = replace(whole, weights=whole.weights + 0.5, scale=2.0).around(q.best.q)
    assert_allclose(moved.weights.mean(0), q.best.q.mean)
    assert_allclose(moved.weights.std(0), 0.5 * whole.weights.std(0))
    tau = q.best.q.tau
    assert_allclose(moved.log_odds, np.tile(mean_log_on(tau) - bound_log_off(tau), (DRAWS, 1)))


@pytest.fixture(scope="module")
def fitted():
    codes, _, _ = simulate_table(np.random.default_rng(5), 150, LEVELS, np.array([0.4, 0.3]))
    settings = FeatureOptions(n_features=4)
    model, found = make(settings), []
    for parts in (1, 4):
        batches = split_rows(codes, LEVELS, parts)
        done = fit(model, batches, seed=3, tol=1e-7, max_iter=1500)
        rows = [apply(model, done.q, batch, settings).features for batch in batches]
        found.append((done, batches, np.concatenate(rows)))
    return model, settings, found


def test_a_search_leaves_draws_that_no_cut_of_the_rows_changes(fitted):
    _, _, ((one, _, rows), (other, _, again)) = fitted
    draws = one.q.search.draws
    assert draws.weights.shape == (DRAWS, *one.q.search.best.q.mean.shape)
    assert draws.scale == 1.0
    assert_allclose(other.q.search.draws.weights, draws.weights, atol=1e-6)
    assert_allclose(again, rows, atol=1e-6)


def test_a_row_that_is_scored_again_has_the_same_probabilities(fitted):
    model, settings, ((done, _, rows), _) = fitted
    batch = done.reduce.batches[0]
    codes = batch.codes[batch.row_of][::-1]
    again = apply(model, done.q, feature_batch(codes, LEVELS), settings).features
    assert np.array_equal(again[::-1], rows)
    assert read(model, done.q, settings).whole
