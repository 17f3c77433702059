"""Learning from new rows alone: the first call is a fit, the others come near one of all rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.estimators import LatentFeatures, MixtureOfExperts

ASKED = {"inference": "cavi", "tau": 1.0, "random_state": 0}


def drawn_rows(rows):
    """Rows of a logistic regression with four columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 4))
    chance = 1.0 / (1.0 + np.exp(-(X @ [1.0, -0.5, 0.0, 0.3] - 0.2)))
    return X, (rng.random(rows) < chance).astype(int)


def by_batches(model, X, y, parts):
    for part in np.array_split(np.arange(len(y)), parts):
        model.partial_fit(X[part], y[part], classes=np.unique(y))
    return model


@pytest.mark.parametrize("experts", [1, 3])
def test_the_first_call_is_a_fit(experts):
    X, y = drawn_rows(300)
    one = MixtureOfExperts(experts, **ASKED).partial_fit(X, y)
    other = MixtureOfExperts(experts, **ASKED).fit(X, y)
    for name in ("expert_means_", "expert_sds_", "gate_means_", "trace_"):
        assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(("parts", "sds"), [(4, 0.5), (20, 1.2)])
def test_batches_come_near_all_rows(parts, sds):
    """Bounds on the first rows' sigmoids stay as wide as the first posterior left them."""
    X, y = drawn_rows(4000)
    whole = MixtureOfExperts(1, standardise=False, **ASKED).fit(X, y)
    found = by_batches(MixtureOfExperts(1, standardise=False, **ASKED), X, y, parts)
    off = (found.expert_means_ - whole.expert_means_) / whole.expert_sds_
    assert np.abs(off).max() < sds
    np.testing.assert_allclose(found.expert_sds_, whole.expert_sds_, rtol=0.05)
    np.testing.assert_allclose(found.predict_proba(X), whole.predict_proba(X), atol=0.02)


def test_what_is_forgotten_does_not_count():
    X, y = drawn_rows(2000)
    asked = {**ASKED, "standardise": False}
    told = MixtureOfExperts(1, forgetting_factor=1e-6, **asked).partial_fit(X[:1000], 1 - y[:1000])
    told.partial_fit(X[1000:], y[1000:])
    alone = MixtureOfExperts(1, **asked).fit(X[1000:], y[1000:])
    np.testing.assert_allclose(told.expert_means_, alone.expert_means_, atol=1e-3)


def test_it_goes_on_after_fit_and_after_it_was_stored():
    X, y = drawn_rows(600)
    one = MixtureOfExperts(2, **ASKED).fit(X[:300], y[:300])
    before = one.expert_sds_.mean()
    again = pickle.loads(pickle.dumps(one)).partial_fit(X[300:], y[300:])
    one.partial_fit(X[300:], y[300:])
    assert_array_equal(again.expert_means_, one.expert_means_)
    assert one.expert_sds_.mean() < before


def test_later_rows_may_be_of_one_class_and_few():
    X, y = drawn_rows(300)
    model = MixtureOfExperts(1, **ASKED).partial_fit(X, y, classes=[0, 1])
    before = model.predict_proba(X[:1])[0, 1]
    one = X[:1].repeat(30, axis=0)
    assert model.partial_fit(one, np.ones(30, int)).predict_proba(X[:1])[0, 1] > before


def test_what_it_cannot_take_is_one_sentence():
    X, y = drawn_rows(40)
    model = MixtureOfExperts(1, **ASKED)
    with pytest.raises(ValueError, match=r"every class in the first call, found none of .*2"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"expected the classes of the first call, .*found.*2"):
        model.partial_fit(X, y).partial_fit(X, 2 * y)
    with pytest.raises(ValueError, match="needs all rows at once"):
        model.set_params(class_weight="balanced").partial_fit(X, y)


def test_who_cannot_learn_so_has_no_such_method():
    assert hasattr(MixtureOfExperts(inference="cavi"), "partial_fit")
    assert not hasattr(MixtureOfExperts(), "partial_fit")
    assert not hasattr(LatentFeatures(), "partial_fit")
