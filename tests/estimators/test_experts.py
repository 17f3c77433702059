"""The mixture of experts on columns, scores and weights at the edge of what floats hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logit
from sklearn.base import clone
from sklearn.metrics import log_loss

from tests.estimators import data
from vbmodels.estimators import MixtureOfExperts

ONE = MixtureOfExperts(1, inference="marginal", tau=1.0, shared=False, random_state=0)
FORMS = {
    "additive": MixtureOfExperts(1, tau=1.0, random_state=0),
    "marginal": ONE,
    "cavi": MixtureOfExperts(2, inference="cavi", tau=1.0, random_state=0, max_iter=3000),
    "mh": MixtureOfExperts(
        1, inference="mh", warmup=100, draws=30, thin=1, chains=2, random_state=0
    ),
}


def noisy(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 2))
    return x, (x[:, 0] + 0.5 * rng.standard_normal(rows) > 0).astype(int)


def beside(x, value):
    return np.column_stack([x, np.full(len(x), value)])


@pytest.mark.parametrize("inference", FORMS)
@pytest.mark.parametrize("value", [1e3, 20231101.0, 1e150])
def test_a_constant_column_changes_nothing(inference, value):
    x, y = noisy()
    zero, other = (clone(FORMS[inference]).fit(beside(x, v), y) for v in (0.0, value))
    assert_array_equal(other.predict_proba(beside(x, value)), zero.predict_proba(beside(x, 0.0)))
    assert log_loss(y, other.predict_proba(beside(x, value))) < 0.32


def test_the_default_keeps_to_logistic_regression_beside_a_date():
    x, y = noisy()
    found = MixtureOfExperts(random_state=0, restarts=1).fit(beside(x, 20231101.0), y)
    assert found.n_experts_ == 1
    assert log_loss(y, found.predict_proba(beside(x, 20231101.0))) < 0.3


@pytest.mark.parametrize("predict_by", ["plug_in", "mackay"])
def test_new_values_of_a_constant_column_count_for_nothing(predict_by):
    x, y = noisy()
    found = clone(ONE).set_params(predict_by=predict_by).fit(beside(x, 5.0), y)
    assert_array_equal(found.scale_[2], np.inf)
    assert_array_equal(found.predict_proba(beside(x, 500.0)), found.predict_proba(beside(x, 5.0)))


@pytest.mark.parametrize("size", [1e155, 1e200, 1e-170])
def test_columns_of_any_size_are_scaled(size):
    x, y = noisy()
    usual = clone(ONE).fit(x, y).predict_proba(x)
    assert_allclose(clone(ONE).fit(x * [size, 1.0], y).predict_proba(x * [size, 1.0]), usual)


def test_cells_that_overflow_are_refused():
    x, y = noisy()
    with pytest.raises(ValueError, match=r"within 1e\+100 .*got .* in column 0: give the column"):
        clone(ONE).set_params(standardise=False).fit(x * [1e155, 1.0], y)
    found = clone(ONE).fit(x, y)
    with pytest.raises(ValueError, match=r"got 1e\+120 in column 1"):
        found.predict(np.array([[0.0, 1e120]]))


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_columns_kept_as_they_are_may_differ_in_unit(scale):
    x, y = noisy()
    found = clone(ONE).set_params(standardise=False).fit(x * [1.0, scale], y)
    assert found.converged_
    assert log_loss(y, found.predict_proba(x * [1.0, scale])) < 0.3


# Scores.


@pytest.mark.parametrize("inference", FORMS)
def test_decision_is_the_log_odds_however_sure(inference):
    x, y = noisy()
    found = clone(FORMS[inference]).fit(x, y)
    score = found.decision_function(x)
    assert_allclose(score, logit(found.predict_proba(x)[:, 1]), rtol=1e-7, atol=1e-9)
    far = found.decision_function(np.outer([20.0, 40.0, 400.0, -20.0, -400.0], [1.0, 0.0]))
    assert np.isfinite(far).all()
    held = inference == "additive"  # at six standard deviations
    assert far[0] == far[1] == far[2] if held else far[0] < far[1] < far[2]
    assert far[3] == far[4] if held else far[3] > far[4]
    assert far[0] > score.max() - 1e-9 > score.min() + 1e-9 > far[3]


def test_decision_by_draws_is_that_of_their_mean():
    x, y = data.crossed()
    found = MixtureOfExperts(
        2, tau=1.0, shared=False, restarts=2, predict_by="monte_carlo", random_state=0
    ).fit(x, y)
    p = found.predict_proba(x)[:, 1]
    assert_allclose(found.decision_function(x), logit(p), rtol=1e-7, atol=1e-9)


# Weights.


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, np.nan])
def test_class_weights_are_positive(weight):
    x, y = noisy()
    with pytest.raises(ValueError, match=r"class_weight: expected a positive number .* for 0:"):
        clone(ONE).set_params(class_weight={0: weight, 1: 1.0}).fit(x, y)
