"""Missing cells by rows that are sampled under q(weights)."""

from itertools import product

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax

from tests.feature_tables import split_rows
from vbmodels.features.ibp.model import FeatureGlobal
from vbmodels.features.ibp.predict import category_probabilities, impute_sampled
from vbmodels.features.ibp.sticks import bound_log_off, mean_log_on
from vbmodels.features.table import feature_batch

LEVELS = np.array([2, 2, 2, 3, 2])


def fitted(seed=0, spread=1e-8):
    rng = np.random.default_rng(seed)
    mean = rng.normal(0.0, 1.5, (6, 3))
    covariance = np.broadcast_to(spread * np.eye(3), (6, 3, 3)).copy()
    tau = np.array([[30.0, 20.0], [25.0, 15.0]])
    return FeatureGlobal(mean, covariance, tau, 1.0, np.full(2, 2.0), np.full(2, 0.5), 40.0, 100)


def rows(n=40, seed=1):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, r, n) for r in LEVELS])
    codes[rng.random(codes.shape) < 0.2] = -1
    return codes


def test_with_certain_weights_cells_are_those_of_all_patterns():
    """The reference goes through all patterns of the two features."""
    q, codes = fitted(), rows()
    batch = feature_batch(codes, LEVELS, grouped=False)
    nu = np.full((len(codes), 2), 0.5)
    found = impute_sampled(q, batch, nu, draws=1500, sweeps=6)
    odds = mean_log_on(q.tau) - bound_log_off(q.tau)
    patterns = np.array(list(product([0, 1], repeat=2)))
    psi = q.mean[:, 0] + patterns @ q.mean[:, 1:].T
    sign = batch.sign.astype(float)
    log_p = np.where(sign[:, None] == 0, 0.0, np.log(expit(sign[:, None] * psi))).sum(2)
    weight = softmax(log_p + patterns @ odds, axis=1)
    at, columns = np.nonzero(codes == -1)
    expected = sum(
        weight[at, i, None] * category_probabilities(np.tile(psi[i], (len(at), 1)), LEVELS, columns)
        for i in range(4)
    )
    assert_allclose(found, expected, atol=0.06)
    assert_allclose(found.sum(1), 1.0)


def test_neither_the_cut_nor_grouping_changes_a_cell():
    q, codes = fitted(spread=0.3), np.repeat(rows(20), 2, axis=0)
    whole = feature_batch(codes, LEVELS)
    found = impute_sampled(q, whole, np.full((len(whole.count), 2), 0.4))
    parts = [
        impute_sampled(q, part, np.full((len(part.count), 2), 0.4))
        for part in split_rows(codes, LEVELS, 3, grouped=False)
    ]
    assert_array_equal(np.concatenate(parts), found)
