"""The regressor of bags: lists and tables, intervals, groups, what adds up, what is refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_val_predict

from tests.vbmodels.bags.test_number import numbered
from vbmodels.estimators import BagRegressor


@pytest.fixture(scope="module")
def bags():
    data, _ = numbered(90)
    of = data.modalities[0]
    return np.split(of.features, of.offsets[1:-1]), data.target


@pytest.fixture(scope="module")
def done(bags):
    X, y = bags
    return BagRegressor(random_state=0).fit(X[:60], y[:60])


def test_new_bags_are_predicted_with_their_interval(bags, done):
    X, y = bags
    assert done.score(X[60:], y[60:]) > 0.6
    mean, sd = done.predict(X, return_std=True)
    low, high = done.predict_interval(X)
    assert ((low < mean) & (mean < high)).all()
    assert (sd > done.noise_sd_).all()
    text = done.summary(X[60:], y[60:])
    assert "60 bags, 60 with a number" in text
    assert "within their 95 % interval" in text


def test_reasons_and_contributions_are_in_the_units_of_the_number(bags, done):
    X, _ = bags
    reasons = done.reasons(X)
    assert reasons.shape == (90, len(done.blocks_))
    assert_allclose(reasons.sum(axis=1) + done.q_.centre, done.predict(X), rtol=1e-10)
    adds = done.contributions(X)
    assert [len(one) for one in adds] == [len(bag) for bag in X]
    assert np.corrcoef([one.sum() for one in adds], done.predict(X))[0, 1] > 0.9
    top = done.features_.assign(size=lambda t: t["mean"].abs()).sort_values("size")
    assert top["feature"].iloc[-1] in ("f1", "f2")


def test_a_table_is_read_as_its_list(bags, done):
    X, y = bags
    rows = np.concatenate(X[:60])
    bag = np.repeat(np.arange(60), [len(one) for one in X[:60]])
    table = pd.DataFrame(rows, columns=["a", "b", "c"])
    table.insert(0, "bag_id", bag)
    table.insert(1, "label", y[:60][bag])
    found = BagRegressor(random_state=0).fit(table)
    assert_allclose(found.predict(table), done.predict(X[:60]), rtol=1e-8)
    table["instance_label"] = (y[:60][bag] > 50.0).astype(int)
    with pytest.warns(UserWarning, match="instance_label"):
        other = BagRegressor(random_state=0).fit(table)
    assert_allclose(other.predict(table), found.predict(table), rtol=1e-12)


def test_missing_numbers_partitions_and_folds(bags):
    X, y = bags
    some = np.where(np.arange(90) % 9 == 0, np.nan, y)
    one = BagRegressor(random_state=0).fit(X, some)
    four = BagRegressor(random_state=0, n_partitions=4).fit(X, some)
    assert_allclose(one.predict(X), four.predict(X), rtol=1e-6)
    folds = cross_val_predict(BagRegressor(random_state=0), X, y, cv=3)
    assert np.corrcoef(folds, y)[0, 1] > 0.7


def test_numbers_that_are_not_known_do_not_count_in_a_summary(bags, done):
    X, y = bags
    text = done.summary(X[60:], [None, *y[61:]])
    assert "29 new bags" in text
    assert "nan" not in text
