"""The mixture of experts on columns, scores and weights at the edge of what floats hold."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from vbmodels.estimators import MixtureOfExperts
from vbmodels.estimators.base import ColumnWarning

ONE = MixtureOfExperts(1, tau=1.0, random_state=0)
FORMS = {
    "additive": ONE,
    "cavi": MixtureOfExperts(2, inference="cavi", tau=1.0, random_state=0, max_iter=3000),
    "mh": MixtureOfExperts(
        1, inference="mh", warmup=100, draws=30, thin=1, chains=2, random_state=0
    ),
}


def noisy(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 2))
    return x, (x[:, 0] + 0.5 * rng.standard_normal(rows) > 0).astype(int)


def with_column(x, value):
    return np.column_stack([x, np.full(len(x), value)])


@pytest.mark.parametrize("inference", FORMS)
@pytest.mark.parametrize("value", [20231101.0, 1e150])
def test_a_constant_column_changes_nothing(inference, value):
    x, y = noisy()
    with pytest.warns(ColumnWarning, match="left out: one value"):
        zero, other = (clone(FORMS[inference]).fit(with_column(x, v), y) for v in (0.0, value))
    assert_array_equal(
        other.predict_proba(with_column(x, value)), zero.predict_proba(with_column(x, 0.0))
    )
    assert log_loss(y, other.predict_proba(with_column(x, value))) < 0.32


def test_cells_that_overflow_are_refused():
    x, y = noisy()
    with pytest.raises(ValueError, match=r"within 1e\+100 .*got .* in column 0: give the column"):
        clone(ONE).set_params(standardise=False).fit(x * [1e155, 1.0], y)
    found = clone(ONE).fit(x, y)
    with pytest.raises(ValueError, match=r"got 1e\+120 in column 1"):
        found.predict(np.array([[0.0, 1e120]]))


def test_labels_by_whether_two_columns_of_two_values_differ_are_predicted():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (600, 2)).astype(float)
    y = (rng.random(600) < np.where(x[:, 0] != x[:, 1], 0.9, 0.1)).astype(int)
    assert MixtureOfExperts(random_state=0).fit(x, y).score(x, y) > 0.85


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


# Weights.


@pytest.mark.parametrize("weight", [0.0, np.nan])
def test_class_weights_are_positive(weight):
    x, y = noisy()
    with pytest.raises(ValueError, match=r"class_weight: expected a positive number .* for 0:"):
        clone(ONE).set_params(class_weight={0: weight, 1: 1.0}).fit(x, y)


@pytest.mark.filterwarnings("ignore:.*the fit rests on its prior")
@pytest.mark.parametrize("inference", ["additive", "cavi"])
def test_weights_of_rows(inference, shared_data):
    table = pq.read_table(shared_data / "experts" / "breast_cancer_train.parquet").to_pandas()[:120]
    X = StandardScaler().fit_transform(table[[f"f{d}" for d in range(1, 7)]])
    y = table["label"].to_numpy()
    unweighted = MixtureOfExperts(1, inference=inference, tau=1.0, random_state=0)
    unweighted.set_params(standardise=False, max_iter=3000)
    plain = clone(unweighted).fit(X, y)
    ones = clone(unweighted).fit(X, y, sample_weight=np.ones(len(y)))
    assert_array_equal(ones.predict_proba(X), plain.predict_proba(X))
    heavy = clone(unweighted).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    same = clone(unweighted).set_params(class_weight={0: 1.0, 1: 5.0}).fit(X, y)
    assert_array_equal(heavy.decision_function(X), same.decision_function(X))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    some = np.arange(len(y)) % 3 > 0
    left = clone(unweighted).fit(X, y, sample_weight=some.astype(float))
    assert_array_equal(
        left.predict_proba(X), clone(unweighted).fit(X[some], y[some]).predict_proba(X)
    )
    with pytest.raises(ValueError, match=r"sample_weight is for .* not mh"):
        MixtureOfExperts(1, inference="mh").fit(X, y, sample_weight=np.ones(len(y)))


# Tables as they come.


def mixed(rows=400, seed=0):
    """Return a table of every kind of column, and which rows are chosen."""
    rng = np.random.default_rng(seed)
    by = rng.choice(["car", "bus", "foot"], rows)
    size = rng.choice([1, 2, 3], rows)
    age = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(40.0, 10.0, rows))
    days = rng.integers(0, 1000, rows)
    day = np.datetime64("2020-01-01") + days
    frame = pd.DataFrame(
        {
            "by": by,
            "size": pd.Categorical(size),
            "age": age,
            "since": day.astype("datetime64[ns]"),
            "member": pd.array(rng.random(rows) < 0.5, "boolean"),
            "word": np.where(rng.random(rows) < 0.5, "Yes", "no"),
            "text": [f"t{i}" for i in range(rows)],
        }
    )
    odds = (
        2.0 * (by == "car") + 2.0 * np.isnan(age) + 0.004 * (days - 500) + 2.0 * (size == 2) - 1.5
    )
    return frame, np.where(rng.random(rows) < expit(odds), "yes", "no")


def test_a_frame_is_taken_as_it_comes():
    X, y = mixed()
    with pytest.warns(ColumnWarning, match=r"text \(left out: id: all 400 cells differ"):
        found = MixtureOfExperts(1, tau=1.0, random_state=0).fit(X, y)
    kinds = {one.name: one.kind for one in found._encoded}
    assert kinds == {
        "by": "category", "size": "category", "age": "number", "since": "date",
        "member": "yes or no", "word": "yes or no",
    }  # fmt: skip
    assert [one.missing for one in found._encoded] == [False, False, True, False, False, False]
    lines = [name for one in found._encoded for name in one.names]
    weights = dict(zip(lines, found.expert_means_[0], strict=False))
    assert weights["by = car"] > 0.4 > -0.3 > weights["by = bus"]
    assert weights["size = 2"] > 0.4
    assert weights["age (missing)"] > 0.4
    p = found.predict_proba(X)
    assert log_loss(y == "yes", p[:, 1]) < 0.55
    cells = X.astype(object).where(X.notna(), None)
    cells["size"] = cells["size"].map(lambda size: f"s{size}")
    cells["since"] = X["since"].dt.strftime("%Y-%m-%d")
    with pytest.warns(ColumnWarning, match="x6"):
        again = clone(found).fit(cells.to_numpy(), y)
    assert_allclose(again.predict_proba(cells.to_numpy()), p, rtol=1e-6)


def test_levels_never_seen_are_the_reference_and_are_counted():
    X, y = mixed()
    with pytest.warns(ColumnWarning, match=r"text \(left out: id: all 400 cells differ"):
        found = MixtureOfExperts(1, tau=1.0, random_state=0).fit(X, y)
    new = X[:6].copy()
    new["by"] = ["sled", "sled", "yak", *new["by"][3:]]
    with pytest.warns(UserWarning, match=r"count as the reference: by \(3\)"):
        p = found.predict_proba(new)
    assert_array_equal(p[3:], found.predict_proba(X[3:6]))
    with pytest.raises(ValueError, match="expected a number in column 'age', as in the fit, found"):
        found.predict(new.assign(age="old"))


def test_gaps_among_numbers_make_their_rows_less_sure_and_no_others():
    """A gap is filled with its column's mean; few of them have no column of their own.

    Where the fit has some, and nothing is held out that says how much they hide, that is all.
    """
    x, y = noisy()
    gap = x.copy()
    gap[:3, 1] = np.nan
    found = clone(FORMS["additive"]).fit(gap, y)
    assert found._encoded[1].fill == pytest.approx(x[3:, 1].mean())
    filled = gap.copy()
    filled[:3, 1] = found._encoded[1].fill
    assert_array_equal(found.predict_proba(gap), found.predict_proba(filled))
    found.fit(x, y)
    filled[:3, 1] = found._encoded[1].fill
    odds, as_filled = found.decision_function(gap), found.decision_function(filled)
    assert_array_equal(odds[3:], as_filled[3:])
    assert_array_equal(np.sign(odds[:3]), np.sign(as_filled[:3]))
    assert (np.abs(odds[:3]) < np.abs(as_filled[:3])).all()
    marked = MixtureOfExperts(1, tau=1.0, rare_below=3, random_state=0).fit(gap, y)
    assert marked._encoded[1].missing
    assert len(marked.centre_) == 3


def test_a_word_among_numbers_is_a_mistake_and_na_is_a_missing_cell():
    x, y = noisy()
    cells = x.astype(object)
    cells[:, 1] = [str(cell) for cell in x[:, 1]]
    cells[7, 1] = "old"
    with pytest.raises(ValueError, match=r"column 'x1'.*in 299 of 300, found .*'old' \(row 7\)"):
        clone(ONE).fit(cells, y)
    for missing in (None, "n/a", "#DIV/0!", " "):
        cells[7, 1] = missing
        found = clone(ONE).fit(cells, y)
        assert found._encoded[1].cells == (299, 1)
        assert found.columns_["missing"].tolist() == [0, 1]


def test_new_rows_are_read_as_those_of_the_fit():
    x, y = noisy()
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "day": 18262 + np.arange(300) % 7})
    text = pd.DataFrame(
        {
            "a": [f"{v:.12f} kg".replace(".", ",") for v in x[:, 0]],
            "b": [f"$ {v:,.12f}" for v in x[:, 1]],
            "day": [f"{13 + i % 7:02}/01/2020" for i in range(300)],
        }
    )
    frame["day"] += 12
    one, other = (clone(ONE).fit(table, y) for table in (frame, text))
    assert other.columns_["read_as"].tolist() == [
        "number (decimal comma, kg removed)", "number ($ removed)", "date (day/month/year)",
    ]  # fmt: skip
    assert_allclose(other.predict_proba(text), one.predict_proba(frame), atol=1e-9)
    new = text.iloc[:1].assign(a=[f"{x[0, 0]:.12f}".replace(".", ",")], day="2020-01-13")
    assert_allclose(other.predict_proba(new), one.predict_proba(frame.iloc[:1]), atol=1e-9)
    with pytest.raises(ValueError, match="expected a date in column 'day', as in the fit, found"):
        other.predict(new.assign(day="soon"))


# Several classes.


def three(rows=400, seed=0):
    """Return rows of three classes: a ring around two sides."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 3))
    odds = np.column_stack([2.0 * x[:, 0], -2.0 * x[:, 0], 2.0 * x[:, 1] ** 2 - 2.0])
    chance = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    code = (rng.random((rows, 1)) > np.cumsum(chance, axis=1)).sum(1)
    return x, np.array(["a", "b", "ring"])[code], chance


def test_several_classes_share_a_row():
    x, y, truth = three(1600)
    found = MixtureOfExperts(1, random_state=0).fit(x[:800], y[:800])
    p = found.predict_proba(x[800:])
    assert_array_equal(found.classes_, ["a", "b", "ring"])
    assert_allclose(p.sum(1), 1.0)
    plain = LogisticRegression().fit(x[:800], y[:800]).predict_proba(x[800:])
    best = log_loss(y[800:], truth[800:])
    assert log_loss(y[800:], p) < best + 0.1 < log_loss(y[800:], plain)
    assert_array_equal(found.predict(x[800:]), found.classes_[np.argmax(p, axis=1)])
    assert found.n_experts_ == (1, 1, 1)
    shares = found.responsibilities(x[:5])
    assert shares.shape == (5, 3)
    for k, name in enumerate(found.classes_):
        alone = MixtureOfExperts(1, random_state=0).fit(x[:800], y[:800] == name)
        one = alone.predict_proba(x[800:])[:, 1]
        own = found.posterior_.parts[k].predict(found._unlabelled(x[800:])).probability
        assert_allclose(own, one, atol=1e-7)


@pytest.mark.parametrize("experts", [1, 10])
def test_rare_labels_stay_rare_where_a_cell_is_missing(experts):
    """A column that says where cells are missing has the share of the label there."""
    said, true = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((3000, 2))
        y = rng.random(3000) < expit(2.0 * x[:, 0] + x[:, 1] - 4.5)
        gone = rng.random(3000) < 0.2
        x[gone, 0] = np.nan
        found = MixtureOfExperts(experts, random_state=0).fit(x[:1500], y[:1500])
        said.append(found.predict_proba(x[1500:][gone[1500:]])[:, 1].mean())
        true.append(y[1500:][gone[1500:]].mean())
    assert np.mean(said) == pytest.approx(np.mean(true), abs=0.02)
