"""Weights of rows: a weight of two is two rows, with the same draws, in every form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.fit import fit
from vbmodels.core.state import leaves
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.imputation.model import CompletedIBP
from vbmodels.features.multinomial import TextIBP
from vbmodels.features.search.model import SearchIBP, sample_of
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 2, 2, 3, 2, 2])
MODELS = {
    "polya": PolyaGammaIBP(3),
    "text": TextIBP(3),
    "search": CompletedIBP(SearchIBP(PolyaGammaIBP(3))),
}


def table(rows=120, missing=0.1):
    rng = np.random.default_rng(4)
    return simulate_table(rng, rows, LEVELS, np.array([0.5, 0.3]), missing=missing)[0]


@pytest.mark.filterwarnings("ignore::vbmodels.core.fit.NotConverged")
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_weight_of_two_is_two_rows(name, grouped):
    """Both copies of a row have its number, so that they draw alike; equal rows share a weight."""
    codes = np.unique(table(), axis=0)
    weight = np.where(np.arange(len(codes)) % 3 == 0, 2.0, 1.0)
    place = np.repeat(np.arange(len(codes)), weight.astype(int))
    most = 240 if name == "search" else 25
    once = feature_batch(codes, LEVELS, grouped=grouped, weight=weight)
    twice = feature_batch(codes[place], LEVELS, place, grouped=grouped)
    weighed, repeated = (fit(MODELS[name], [b], max_iter=most) for b in (once, twice))
    assert_allclose(weighed.trace, repeated.trace, rtol=1e-8)
    for (leaf, a), (_, b) in zip(leaves(repeated.q), leaves(weighed.q), strict=True):
        if np.asarray(a).dtype.kind == "f":
            assert_allclose(b, a, rtol=1e-8, atol=1e-8, err_msg=leaf)


@pytest.mark.filterwarnings("ignore::vbmodels.core.fit.NotConverged")
def test_rows_of_weight_zero_change_nothing():
    codes, weight = table(), np.where(np.arange(120) < 90, 1.0, 0.0)
    with_them = fit(MODELS["polya"], [feature_batch(codes, LEVELS, weight=weight)], max_iter=25)
    without = fit(MODELS["polya"], [feature_batch(codes[:90], LEVELS)], max_iter=25)
    assert_allclose(with_them.trace, without.trace, rtol=1e-10)
    assert_allclose(with_them.q.mean, without.q.mean, atol=1e-8)


def test_a_sample_keeps_what_its_rows_count_for():
    codes, weight = np.repeat(table(40, 0.0), 3, axis=0), np.tile([1.0, 2.0, 6.0], 40)
    batch = feature_batch(codes, LEVELS, weight=weight)
    assert batch.row_count.sum() == batch.count.sum() == weight.sum()
    some = sample_of(batch, 0.5, 1)
    assert_allclose(some.count.sum(), batch.row_count[np.isin(batch.row_id, some.row_id)].sum())
