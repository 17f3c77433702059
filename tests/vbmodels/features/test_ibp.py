"""The IBP by Polya-Gamma: grouping, missing cells and learned variances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core.fit import fit
from vbmodels.core.linalg import pack
from vbmodels.core.state import leaves
from vbmodels.features.ibp.model import PolyaGammaIBP, fit_weights
from vbmodels.features.table import feature_batch, simulate_table

LEVELS = np.array([2, 3, 4, 2, 2])


def table(seed=0, rows=80, missing=0.1):
    rng = np.random.default_rng(seed)
    return simulate_table(rng, rows, LEVELS, np.array([0.5, 0.3]), missing=missing)[0]


@pytest.mark.filterwarnings("ignore::vbmodels.core.fit.NotConverged")
def test_grouping_equal_rows_changes_nothing():
    codes = np.repeat(table(rows=30), 3, axis=0)
    model = PolyaGammaIBP(3)
    apart, together = (
        fit(model, [feature_batch(codes, LEVELS, grouped=g)], max_iter=20) for g in (False, True)
    )
    assert len(together.reduce.batches[0].count) < len(codes) / 2
    assert_allclose(together.trace, apart.trace, rtol=1e-9)
    for (name, a), (_, b) in zip(leaves(apart.q), leaves(together.q), strict=True):
        assert_allclose(b, a, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.filterwarnings("ignore::vbmodels.core.fit.NotConverged")
def test_missing_cells_leave_the_weights_alone():
    codes = table(missing=0.0)
    more = np.concatenate([codes, np.full((40, len(LEVELS)), -1)])
    model = PolyaGammaIBP(2, learn=False)
    stats = [
        model.suff_stats(q, b, model.local_step(q, b, None))
        for b in (feature_batch(codes, LEVELS), feature_batch(more, LEVELS))
        for q in [model.init(model.observe(feature_batch(codes, LEVELS)), np.random.default_rng(0))]
    ]
    assert stats[1].n_rows == stats[0].n_rows + 40
    assert_allclose(stats[1].linear[:, 0], stats[0].linear[:, 0], atol=1e-12)
    assert_allclose(stats[1].quadratic, stats[0].quadratic, atol=1e-12)


def test_features_that_no_row_has_keep_the_prior_of_their_variance():
    """One whose weights the data determine goes to the mode of its own; one does not move."""
    rng = np.random.default_rng(0)
    units, rows = 40, 2000
    linear, gram = np.zeros((units, 3)), np.zeros((units, 3, 3))
    gram[:, 0, 0], gram[:, 1, 1], gram[:, 0, 1], gram[:, 1, 0] = rows, rows / 2, rows / 2, rows / 2
    true = rng.normal(0.0, 3.0, units)
    linear[:, 0], linear[:, 1] = 0.5 * rows * true, 0.5 * rows * true
    packed = pack(gram)
    found = {
        each: fit_weights(linear, packed, 2.0, np.full(2, 0.7), learn=True, each=each, rounds=100)
        for each in (False, True)
    }
    mean, covariance, variance = found[True]
    square = mean[:, 1] ** 2 + covariance[:, 1, 1]
    np.testing.assert_allclose(variance[0], (square.sum() + 2.0) / (units + 2.0), rtol=1e-4)
    np.testing.assert_allclose(variance[1], 1.0, rtol=1e-4)
    np.testing.assert_allclose(found[False][2], variance[0], rtol=0.05)
