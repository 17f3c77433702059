"""Features that a search missed are found in what the rows of a long table leave unexplained."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.feature_tables import split_rows
from vbmodels.core.fit import fit
from vbmodels.core.linalg import pack
from vbmodels.features.forms import make, rows_of
from vbmodels.features.ibp.model import FeatureLocal, PolyaGammaIBP
from vbmodels.features.options import FeatureOptions
from vbmodels.features.search import fit as search
from vbmodels.features.search.fit import RARE
from vbmodels.features.search.screens import (
    FAR,
    HERE,
    directions_of,
    residual_moments,
    residuals,
    starts_along,
)
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 5] * 6)


def drawn(rows=6000, rare=0.02):
    rng = np.random.default_rng(8)
    return simulate_table(rng, rows, LEVELS, np.array([0.4, 0.3, rare]))[:2]


@pytest.fixture(scope="module")
def without_rare():
    """A fit that knows the common features only."""
    codes, z = drawn()
    batch, one = feature_batch(codes, LEVELS, grouped=False), PolyaGammaIBP(2)
    nu = np.clip(z[:, :2].astype(float), 0.02, 0.98)
    q = one.init(one.observe(batch), np.random.default_rng(0))
    for _ in range(3):
        q = one.global_step(q, one.suff_stats(q, batch, FeatureLocal(nu)))
    for _ in range(20):
        nu = one.local_step(q, batch, FeatureLocal(nu)).nu
        q = one.global_step(q, one.suff_stats(q, batch, FeatureLocal(nu)))
    return q, batch, nu, z[:, 2]


def test_moments_of_residuals_add_up_over_partitions(without_rare):
    q, batch, nu, _ = without_rare
    r = residuals(q, batch.sign.astype(float), nu)
    assert_allclose(residual_moments(q, batch, nu), pack(r.T @ r), rtol=1e-10, atol=1e-8)
    codes, _ = drawn()
    total, first = 0.0, 0
    for part in split_rows(codes, LEVELS, 3, grouped=False):
        rows = slice(first, first + part.n_rows)
        total = total + residual_moments(q, part, nu[rows])
        first += part.n_rows
    assert_allclose(total, pack(r.T @ r), rtol=1e-10, atol=1e-8)


def test_a_rare_features_rows_lie_far_along_the_first_direction(without_rare):
    q, batch, nu, rare = without_rare
    directions = directions_of(residual_moments(q, batch, nu), len(nu))
    ways = 2 * len(FAR)
    assert len(directions) >= ways
    starts = starts_along(q, batch, nu, directions[:ways]) == HERE
    caught = starts[rare].mean(0)
    precise = (starts & rare[:, None]).sum(0) / np.maximum(starts.sum(0), 1)
    best = int(np.argmax(caught * precise))
    assert caught[best] > 0.5
    assert precise[best] > 10 * rare.mean()
    # A step further takes fewer rows, and more of them are the feature's.
    near, far = best % 2, best % 2 + 2
    assert starts[:, far].sum() < starts[:, near].sum()
    assert precise[far] > precise[near]


@pytest.mark.parametrize("size", [13, 0])
def test_a_small_class_with_answers_of_its_own_is_a_feature(size):
    """A two-class latent class model is better by 50 of BIC than the columns' shares."""
    rng = np.random.default_rng(0)
    codes = rng.choice(4, (1050, 3), p=[0.5, 0.3, 0.17, 0.03])
    own = rng.choice(1050, size, replace=False)
    codes[own] = 3
    (batch,) = batches = split_rows(codes, np.full(3, 4), 1)
    done = fit(make(FeatureOptions()), batches, tol=1e-6, max_iter=1500)
    (local,) = done.reduce.local_states(done.iterations - 1)
    on = rows_of(done.q, local).nu[batch.row_of] > 0.5
    assert on.shape[1] == int(size > 0)
    if size:
        assert on[own].all()
        assert on.sum() < 2 * size


@pytest.mark.slow
def test_a_feature_that_a_sample_misses_is_found_in_all_rows(monkeypatch):
    codes, z = drawn()
    settings = FeatureOptions(n_features=4, search_rows=300)

    def found(parts):
        batches = split_rows(codes, LEVELS, parts)
        done = fit(make(settings), batches, seed=2, tol=1e-7, max_iter=1500)
        states = done.reduce.local_states(done.iterations - 1)
        pairs = zip(states, batches, strict=True)
        nu = np.concatenate([rows_of(done.q, o).nu[b.row_of] for o, b in pairs])
        return nu, done.q.search

    monkeypatch.setattr(search, "LEAST_LOOKED_AT", 10_000)
    nu, q = found(1)
    assert q.probes == 0  # too few rows to look
    assert nu.shape[1] == 2
    monkeypatch.undo()
    nu, q = found(1)
    assert q.probes == 2
    assert nu.shape[1] == 3
    assert q.history.stages[-1] == RARE.name
    assert q.history.gains[-1] > 0.0
    assert len(q.matches) == 3
    rare, on = z[:, 2], nu[:, 2] > 0.5
    assert 2.0 * (on & rare).sum() / (on.sum() + rare.sum()) > 0.7
    again, _ = found(3)
    assert_allclose(again, nu, atol=1e-3)
