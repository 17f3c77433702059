"""What fits say for people: tables with names, a text, a picture, warnings of columns."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from flows.experts.scored import table_of
from tests.estimators import data
from vbmodels.bags.embedding.predict import feature_weights
from vbmodels.estimators import (
    KeywordExtractor,
    LatentFeatures,
    MILGPClassifier,
    MixtureOfExperts,
    MultimodalMIC,
    StackedBagClassifier,
    VariantTester,
    base,
)
from vbmodels.estimators.base import ColumnWarning, intervals, largest
from vbmodels.experts.forms import names_of

mpl.use("Agg")


def rows(size: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "id": np.arange(size) + 7,
            "name": [f"u{i}" for i in range(size)],
            "age": rng.standard_normal(size),
            "one": np.ones(size),
            "by": rng.choice(["car", "bus"], size),
        }
    )
    return X, np.where(rng.random(size) < 1 / (1 + np.exp(-2 * X["age"])), "yes", "no")


def test_experts_have_tables_with_names_a_text_and_a_picture():
    X, y = rows(300)
    with pytest.warns(
        ColumnWarning, match="id .left out: id: numbers.*name .left out: id.*one .*value"
    ):
        found = MixtureOfExperts(2, random_state=0, inference="additive").fit(X[:200], y[:200])
    used = dict(zip(found.columns_["name"], found.columns_["used"], strict=True))
    assert used == {
        "id": "left out: id: numbers the rows from 7 to 206",
        "name": "left out: id: all 200 cells differ",
        "age": "yes",
        "one": "left out: one value",
        "by": "yes",
    }
    table = found.coefficients_.set_index("column")
    assert table.loc["age", "low"] > 0.0
    assert table.loc["age", "low"] < table.loc["age", "mean"] < table.loc["age", "high"]
    assert "one" not in table.index
    text = found.summary(X[200:], y[200:])
    assert "2 of 5 columns used" in text
    assert "age" in text.splitlines()[2]
    assert "better (difference" in text.splitlines()[-1]
    axes = found.plot()
    assert [one.get_title() for one in axes] == ["age", "by"]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    age = found.plot(column="age")
    (line, _) = age.get_lines()[1:]
    assert set(np.round(line.get_xdata()[[0, -1]])) == {
        np.min(X["age"][:200]).round(),
        np.max(X["age"][:200]).round(),
    }
    bars = found.plot(column="by")
    assert len(bars.patches) == len(set(X["by"]))
    with pytest.raises(ValueError, match="column: expected one of age, by, got 'one'"):
        found.plot(column="one")


def test_experts_have_the_rows_of_the_command():
    X, y = rows(200)
    found = MixtureOfExperts(2, random_state=0).fit(X[["age", "by"]], y)
    lines = [name for one in found._encoded for name in one.names]
    named = names_of(found.posterior_, lines, found._basis)
    command = pd.DataFrame([part.to_pylist() for part in table_of(found.posterior_, named)]).T
    both = [*found.coefficients_["mean"], *found.experts_["mean"]]
    np.testing.assert_array_equal(both, command[3].to_numpy(float))
    several = MixtureOfExperts(1, random_state=0).fit(X[["age"]], np.resize(["a", "b", "c"], 200))
    assert set(several.coefficients_["label"]) == {"a", "b", "c"}


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_weights_need_no_pandas(monkeypatch, library):
    X, y = rows(200)
    found = MixtureOfExperts(2, inference="cavi", random_state=0).fit(X[["age", "by"]], y)
    both = len(found.coefficients_), len(found.experts_)
    monkeypatch.setattr(base, "find_spec", lambda name: name if name == library else None)
    assert type(found.coefficients_).__module__.startswith(library)
    assert (len(found.coefficients_), len(found.experts_)) == both
    assert "Experts: 2" in found.summary()


def test_features_have_tables_with_names_a_text_and_a_picture():
    rng = np.random.default_rng(0)
    has = rng.random((300, 1)) < 0.4
    X = pd.DataFrame(np.where(has ^ (rng.random((300, 6)) < 0.05), "yes", "no"))
    X.columns = list("abcdef")
    X["id"], X["k"] = [f"r{i}" for i in range(300)], "x"
    with pytest.warns(
        ColumnWarning, match="id .left out: id: all 300.*k .left out: one category"
    ) as warned:
        found = LatentFeatures(3, random_state=0).fit(X)
    assert warned[0].filename == __file__
    assert found.columns_["used"].tolist() == [
        *["yes"] * 6,
        "left out: id: all 300 cells differ",
        "left out: one category only",
    ]
    assert found.features_["column"].tolist() == [*"abcdef"]
    one = found.weight_means_[:, 1]
    np.testing.assert_array_equal(found.features_["mean"], one)
    text = found.summary(X)
    assert "features found: 1" in text
    assert "by the shares of the categories" in text


def test_keywords_and_bags_have_tables_with_names_and_a_text():
    texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    known = [["cat"], ["dog"]] * 6
    found = KeywordExtractor(keyphrases=1).fit(texts, known, complete=[True] * 12)
    assert found.coefficients_["feature"].tolist() == list(found.feature_names_)
    np.testing.assert_array_equal(found.coefficients_["mean"], found.coef_means_)
    assert "(chance: 50 %)" in found.summary(texts, known)
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((5, 2)) for _ in range(60)]
    y = [int((bag[:, 0] > 1.0).any()) for bag in X]
    bags = MultimodalMIC(random_state=0).fit(X, y)
    named = bags.coefficients_["feature"].tolist()
    assert named == ["intercept", "f1", "f2", "intercept", "f1", "f2"]
    assert "60 bags, 60 with a label" in bags.summary(X, y)


def test_a_stack_of_bags_says_which_features_it_uses_and_which_columns_it_does_not():
    x, y = data.bags()
    table = pd.DataFrame(data.long_table(x, y))
    plain = StackedBagClassifier(model="embedding", random_state=0).fit(table)
    table["row"], table["note"] = np.arange(1, len(table) + 1), "seen"
    table["name"] = [f"i{i}" for i in range(len(table))]
    with pytest.warns(
        ColumnWarning,
        match=r"row \(left out: id: numbers.*note \(left out: text.*name \(left out: id: all",
    ) as warned:
        found = StackedBagClassifier(model="embedding", random_state=0).fit(table)
    assert warned[0].filename == __file__
    np.testing.assert_array_equal(found.predict_proba(table), plain.predict_proba(table))
    assert len(found.features_) == 2 * 4
    (weights,) = feature_weights(found.q_)
    for pool, of in found.features_.groupby("summary"):
        np.testing.assert_allclose(of["mean"], weights[pool], rtol=1e-12)
    assert np.all(found.features_["sd"] > 0.0)
    best = found.features_.iloc[found.features_["mean"].argmax()]
    assert (best["feature"], best["summary"], best["low"] > 0.0) == ("f0", "max", True)
    assert "f0 max" in found.summary().splitlines()[2]


def test_a_process_of_bags_has_its_linear_weights_by_name():
    x, y = data.bags()
    table = pd.DataFrame(data.long_table(x, y))
    found = MILGPClassifier(kernel="linear", kernel_params="heuristic", random_state=0).fit(table)
    weights = found.coefficients_
    assert weights["feature"].tolist() == ["f0", "f1"]
    assert weights["low"][0] > 0.0
    scale = found.posterior_.features.weights[int(found.posterior_.kernel[0])][:2]
    np.testing.assert_allclose(weights["mean"], found.weight_means_[:2] * scale, rtol=1e-12)
    np.testing.assert_allclose(weights["sd"], found.weight_sds_[:2] * scale, rtol=1e-9)
    assert "f0" in found.summary().splitlines()[2]
    smooth = MILGPClassifier(kernel="rbf", n_inducing=10, kernel_params="heuristic").fit(table)
    assert len(smooth.coefficients_) == 0


def test_variants_have_a_table_of_errors_and_warn_of_columns():
    counts, _, case = data.reads()
    table = pd.DataFrame(data.counts_table(counts, case))
    table["depth"] = 3
    with pytest.warns(ColumnWarning, match=r"depth \(left out: no column of base counts") as warned:
        found = VariantTester(tol=1e-3).fit(table)
    assert warned[0].filename == __file__
    assert found.substitutions_["substitution"].tolist()[:4] == ["A>C", "A>G", "A>T", "C>A"]
    rates = found.q_.a / (found.q_.a + found.q_.b)
    np.testing.assert_array_equal(found.substitutions_["error_rate"], rates)


def test_columns_that_documents_do_not_have_are_warned_of():
    texts = ["the cat sat with a cat on the mat", "a dog ran with the dog to a log"] * 6
    table = pd.DataFrame({"text": texts, "keywords": [["cat"], ["dog"]] * 6, "year": 2026})
    with pytest.warns(ColumnWarning, match=r"used: year \(left out: no column of doc") as warned:
        KeywordExtractor(keyphrases=1).fit(table)
    assert warned[0].filename == __file__


def test_the_largest_weights_leave_intercepts_out():
    table = intervals({"of": ["intercept", "a", "b"]}, [9.0, -2.0, 1.0], [1.0, 1.0, 1.0])
    assert largest(table, ["of"])["name"].tolist() == ["a", "b"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_of_a_library_that_is_installed(library, monkeypatch):
    monkeypatch.setattr(base, "find_spec", lambda name: name if name == library else None)
    table = intervals({"of": ["intercept", "a", "b"]}, [9.0, -2.0, 3.0], [1.0, 1.0, 1.0])
    assert type(table).__module__.partition(".")[0] == library
    assert base.lines_of(largest(table, ["of"]))[0].startswith("  b")
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        base.frame({"a": [1]})


def test_a_summary_of_one_row_or_of_other_labels():
    X, y = rows(120)
    X = X[["age"]]
    fit = MixtureOfExperts(n_experts=1).fit(X, y)
    said = fit.summary(X.iloc[:1], y[:1])
    assert ("nan" in said, "inf" in said, "not surely better." in said) == (False, False, True)
    with pytest.raises(ValueError, match="labels of the fit, found nobody"):
        fit.summary(X.iloc[:2], ["nobody", "nobody"])
