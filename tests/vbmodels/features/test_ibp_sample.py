"""The search of a long table by a sample of its rows: the same rows however it is cut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment

from tests.feature_tables import split_rows
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.state import same_bits
from vbmodels.features.forms import apply, make, rows_of
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.options import FeatureOptions
from vbmodels.features.search.fit import LEAST_RISE
from vbmodels.features.search.model import SearchIBP, sample_of
from vbmodels.features.table import simulate_table

LEVELS = np.array([2, 3, 4, 5] * 6)
ROWS, SEARCHED = 900, 200


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(5)
    return simulate_table(rng, ROWS, LEVELS, np.array([0.45, 0.3]))[:2]


def model(rows=SEARCHED):
    return SearchIBP(PolyaGammaIBP(4), rows=rows)


@pytest.mark.parametrize("grouped", [True, False])
def test_no_cut_changes_which_rows_are_in_the_sample(drawn, grouped):
    codes, _ = drawn
    found = []
    for parts in (1, 3, 7):
        batches = split_rows(codes, LEVELS, parts, grouped=grouped)
        taken = [sample_of(b, 0.2, 11) for b in batches]
        found.append(np.sort(np.concatenate([t.row_id for t in taken])))
        for one in taken:
            # Each row is there with its own cells, and as often as it was taken.
            np.testing.assert_array_equal(one.codes[one.row_of], codes[one.row_id])
            assert one.count.sum() == one.n_rows
            assert one.sign.shape == (len(one.count), batches[0].n_units)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert 0.12 * ROWS < len(found[0]) < 0.28 * ROWS
    other = sample_of(split_rows(codes, LEVELS, 1)[0], 0.2, 12).row_id
    assert not np.array_equal(np.sort(other), found[0])


@pytest.mark.thorough
def test_what_a_sample_shows_is_fitted_to_all_rows(drawn):
    codes, z = drawn
    settings = FeatureOptions(n_features=4, search_rows=SEARCHED)
    one = make(settings)
    found = []
    for parts in (1, 3):
        batches = split_rows(codes, LEVELS, parts)
        done = fit(one, batches, seed=2, tol=1e-14, max_iter=1500)
        assert done.converged
        # No tolerance ends a table that was searched by a sample once sweeps bring next to nothing.
        assert 0.0 <= done.trace[-1] - done.trace[-2] < LEAST_RISE * ROWS
        q = done.q.search
        assert q.widened
        assert q.share == 1.0
        assert q.seen == q.n_rows == q.best.q.n_rows == ROWS
        locals_ = done.reduce.local_states(done.iterations - 1)
        assert all(local.search.sample is None for local in locals_)
        nu = np.concatenate(
            [rows_of(done.q, o).nu[b.row_of] for o, b in zip(locals_, batches, strict=True)]
        )
        found.append(nu)
    assert_allclose(found[0], found[1], atol=1e-3)
    right = ((found[0] > 0.5)[:, None, :] == z[:, :, None]).mean(0)
    right = np.maximum(right, 1.0 - right)
    true, own = linear_sum_assignment(-right)
    assert found[0].shape[1] == 2
    assert right[true, own].min() > 0.9


def test_a_short_table_is_searched_as_ever(drawn):
    codes, _ = drawn
    batches = split_rows(codes[:180], LEVELS, 2)
    ends = []
    for rows in (90, None):
        done = fit(model(rows), batches, seed=1, tol=1e-7, max_iter=1500)
        assert not done.q.widened
        ends.append(done.q)
    assert same_bits(*ends)


def test_a_search_that_ends_in_its_sample_gives_every_row_its_features(drawn):
    codes, _ = drawn
    settings = FeatureOptions(n_features=4, search_rows=SEARCHED)
    one, batches = make(settings), split_rows(codes, LEVELS, 2)
    with pytest.warns(NotConverged):
        done = fit(one, batches, seed=2, max_iter=110)
    assert done.q.search.share < 1.0
    locals_ = done.reduce.local_states(done.iterations - 1)
    for batch, local in zip(batches, locals_, strict=True):
        assert rows_of(done.q, local) is None
        found = apply(one, done.q, batch, settings).features
        assert len(found) == batch.n_rows
        assert np.isfinite(found).all()
