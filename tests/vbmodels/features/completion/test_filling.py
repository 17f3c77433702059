"""A whole search that fills cells: what it may see, who learns, and what it predicts."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from tests.feature_tables import split_rows
from vbmodels.core.draws import Schedule
from vbmodels.core.fit import fit
from vbmodels.core.state import same_bits
from vbmodels.features.forms import apply, completion, make
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.ibp.predict import missing_cells
from vbmodels.features.imputation.model import CompletedIBP, Members
from vbmodels.features.imputation.predict import filled
from vbmodels.features.imputation.states import learning
from vbmodels.features.options import FeatureOptions
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.table import feature_batch

LEVELS = np.full(14, 2)
QUICK = Members(4, 2, held_out=Schedule(12, 4, thin=2), whole=Schedule(4, 6))


def answers(n=150, seed=0, missing=0.15):
    """Answers that two continuous traits explain, with the truth of missing cells."""
    rng = np.random.default_rng(seed)
    u, load = rng.normal(size=(n, 2)), rng.normal(0.0, 2.0, (len(LEVELS), 2))
    codes = (rng.random((n, len(LEVELS))) < expit(u @ load.T)).astype(int)
    return np.where(rng.random(codes.shape) < missing, -1, codes), codes


def model(**options):
    search = SearchIBP(PolyaGammaIBP(4), draws=8)
    return CompletedIBP(search, QUICK, **options)


def fitted(batches, one=None, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(one or model(), batches, seed=seed, tol=1e-6, max_iter=400)


def test_members_see_nothing_of_the_cells_that_are_hidden_from_them():
    codes, _ = answers()
    batch = feature_batch(codes, LEVELS, grouped=False)
    one, rng = QUICK, np.random.default_rng(0)
    whole = model()
    start = whole.init(whole.observe(batch), rng).completion
    hidden = learning(batch, 1.0, start.seed, hide=True)
    assert 0.03 < len(hidden.rows) / (codes >= 0).sum() < 0.15
    other = codes.copy()
    other[hidden.rows, hidden.columns] = 1 - other[hidden.rows, hidden.columns]
    changed = feature_batch(other, LEVELS, grouped=False)
    # Starts count all answers: both begin at the same point, as if the cells were never there.
    left, right, a, b = start, start, None, None
    for _ in range(one.held_out.sweeps):
        a, b = one.local_step(left, batch, a), one.local_step(right, changed, b)
        assert same_bits(a.sums, b.sums)
        left, right = one.global_step(left, a.sums), one.global_step(right, b.sums)
    a, b = one.local_step(left, batch, a), one.local_step(right, changed, b)
    assert_allclose(a.density + b.density, 1.0)  # two categories: the other one was hidden


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_search_goes_as_it_would_alone_and_nothing_learns_without_missing_cells(missing):
    codes, _ = answers(missing=missing)
    batch = feature_batch(codes, LEVELS)
    both, alone = fitted([batch]), fitted([batch], model().search)
    assert (both.q.completion is None) == (missing == 0.0)
    assert both.trace[: len(alone.trace)] == alone.trace
    if not missing:
        assert same_bits(both.q.search, alone.q)


def test_rows_that_learn_and_hidden_cells_do_not_hang_on_partitions():
    codes, _ = answers()
    whole = learning(feature_batch(codes, LEVELS), 0.4, 7, hide=True)
    parts = [learning(b, 0.4, 7, hide=True) for b in split_rows(codes, LEVELS, 3)]
    assert_array_equal(np.concatenate([p.codes for p in parts]), whole.codes)
    assert_array_equal(np.concatenate([p.row_id for p in parts]), whole.row_id)
    assert 0.25 < len(whole.row_id) / len(codes) < 0.55


def test_cells_of_equal_rows_are_equal_wherever_they_stand():
    codes, _ = answers(60)
    done = fitted([feature_batch(codes, LEVELS)])
    twice = np.repeat(codes, 2, axis=0)
    found = filled(done.q.completion, feature_batch(twice, LEVELS))
    parts = [filled(done.q.completion, part) for part in split_rows(twice, LEVELS, 3)]
    assert_allclose(np.concatenate(parts), found, rtol=1e-12)
    assert_allclose(found.sum(1), 1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2])
def test_continuous_traits_are_filled_better_than_by_the_features(seed):
    codes, truth = answers(seed=seed)
    batch = feature_batch(codes, LEVELS)
    at = missing_cells(batch)
    options = FeatureOptions(n_features=6)
    one = make(options)
    done = fitted([batch], one, seed)
    cells = apply(one, done.q, batch, options).cells
    mixture = np.log(cells[np.arange(len(at[0])), truth[at]]).mean()
    found = completion(one, done.q)
    assert_allclose(found.weights.sum(), 1.0)
    assert found.mixture > found.log_p.max() - 0.01
    alone = replace(done.q, completion=None)
    sampled = apply(one, alone, batch, options).cells
    assert mixture > np.log(sampled[np.arange(len(at[0])), truth[at]]).mean() + 0.01
