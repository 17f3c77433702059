"""Bags as users have them: empty ones, dicts in any order, gaps among the labels, sizes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from tests.estimators import data
from vbmodels.bags.stack.model import MEMBERS
from vbmodels.estimators import BagRegressor, MILGPClassifier, MultimodalMIC, StackedBagClassifier
from vbmodels.estimators.bag_data import read_bags

BAGS = [
    MultimodalMIC(random_state=0),
    MILGPClassifier(n_inducing=10, random_state=0),
    StackedBagClassifier(n_inducing=10, kernel_params="heuristic", random_state=0),
]


@pytest.mark.parametrize("estimator", BAGS, ids=lambda e: type(e).__name__)
def test_bags_without_instances_are_predicted_alone_and_among_others(estimator):
    x, y = data.bags()
    found = clone(estimator).fit(x, y)
    empty = np.empty((0, 2))
    among = found.predict_proba([x[0], empty])
    for alone in ([empty], [empty, empty], [[]]):
        assert_allclose(found.predict_proba(alone)[0], among[1], atol=1e-12)
    with pytest.raises(ValueError, match="expected 2 features, found 3"):
        found.predict_proba([np.empty((0, 3))])


def test_modalities_of_a_dict_stand_in_any_order():
    x, y = data.bags()
    rng = np.random.default_rng(1)
    bags = [{"image": bag, "text": rng.standard_normal((3, 4))} for bag in x]
    found = clone(BAGS[0]).fit(bags, y)
    turned = [dict(reversed(bag.items())) for bag in bags]
    assert_array_equal(found.predict_proba(turned), found.predict_proba(bags))
    assert_array_equal(found.predict_proba([bags[0], turned[1]]), found.predict_proba(bags[:2]))
    with pytest.raises(ValueError, match=r"expected modalities \('image', 'text'\) in bag 1"):
        found.predict_proba([bags[0], {"image": x[1]}])
    with pytest.raises(ValueError, match=r"expected modalities \('image', 'text'\), found"):
        found.predict_proba([{"image": x[1]}])


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA])
def test_a_gap_among_the_labels_is_a_bag_without_one(gap):
    x, y = data.bags()
    found = clone(BAGS[0]).fit(x, [gap, *y[1:]])
    assert found.classes_.tolist() == [0, 1]
    assert_array_equal(
        found.predict_proba(x), clone(BAGS[0]).fit(x, [None, *y[1:]]).predict_proba(x)
    )


def test_features_that_can_just_be_squared_are_taken():
    x, y = data.bags()
    large = [bag * 1e149 for bag in x]
    assert clone(BAGS[1]).fit(large, y).score(large, y) > 0.8


@pytest.mark.parametrize("model", ["auto", "embedding"])
def test_the_stack_says_why(model):
    x, y = data.bags()
    found = StackedBagClassifier(
        model=model, n_inducing=10, kernel_params="heuristic", random_state=0
    ).fit(x, y)
    reasons = found.reasons(x)
    assert reasons.shape == (len(x), len(found.blocks_))
    assert_allclose(reasons.sum(axis=1), found.decision_function(x), atol=1e-9)
    adds = found.contributions(x)
    assert [len(bag) for bag in adds] == [len(bag) for bag in x]
    assert set(found.weights_) == (set(MEMBERS) if model == "auto" else set())
    if model == "embedding":
        with pytest.raises(ValueError, match="no probabilities of instances"):
            found.predict_instance_proba(x)


def test_names_of_bags_that_share_a_label_are_groups():
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(12), 5)
    label = rng.permutation(np.arange(12) % 2)[patient]
    table = pd.DataFrame({
        "bag_id": [f"P{p:02d}_t{i % 5}" for i, p in enumerate(patient)],
        "label": label,
        "f1": rng.normal(size=60),
    })  # fmt: skip
    with pytest.warns(UserWarning, match="60 bags are 12 groups"):
        found = MultimodalMIC(random_state=0, max_iter=5000).fit(table)
    assert "12 groups" in found.summary()


def test_labels_that_differ_in_case_or_blanks_are_one():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) + 3.0 * (i % 2) for i in range(40)]
    plain = np.array([["no", "Case"][i % 2] for i in range(40)])
    y = plain.astype(object)
    y[[0, 2, 1, 3]] = " NO", "No", "case", "CASE "
    with pytest.warns(UserWarning, match="4 labels differ from others in case"):
        found = MultimodalMIC(random_state=0, max_iter=5000).fit(X, y)
    assert found.classes_.tolist() == ["Case", "no"]
    assert found.score(X, y) == found.score(X, plain) > 0.9
    table = pd.DataFrame({"bag_id": list("aab"), "label": ["Yes", "yes ", "no"], "f": [0.0, 1, 2]})
    assert read_bags(table).labels == ("Yes", "no")


def test_places_of_instances_are_no_features():
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(4), 3)
    table = pd.DataFrame({
        "bag_id": bag, "tile": np.tile(np.arange(3), 4), "f": rng.normal(size=12),
        "Centroid X": rng.normal(size=12), "Centroid Y": rng.normal(size=12),
    })  # fmt: skip
    given = read_bags(table)
    assert given.columns == ("f",)
    assert {one.name for one in given.left_out} == {"tile", "Centroid X", "Centroid Y"}
    assert read_bags(table[["bag_id", "Centroid X", "Centroid Y"]]).columns[0] == "Centroid X"


@pytest.mark.parametrize("of", [MILGPClassifier, BagRegressor])
def test_features_far_from_zero_are_told_apart_as_near_it(of):
    """Such as milliseconds since 1970: in single precision their mean was off by a minute."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(rng.integers(1, 6), 2)) for _ in range(60)]
    largest = np.array([bag[:, 0].max() for bag in X])
    far = [6e3 * bag + 1712345678901 for bag in X]
    y = largest if of is BagRegressor else largest > 1.0
    near, found = (of(random_state=0).fit(rows[:40], y[:40]) for rows in (X, far))
    assert found.score(far[40:], y[40:]) > 0.8
    assert abs(found.score(far[40:], y[40:]) - near.score(X[40:], y[40:])) < 0.02
