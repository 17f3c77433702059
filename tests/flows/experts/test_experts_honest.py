"""What a fit says of labels, cells and held-out rows is so; what it advises helps."""

import shlex

import numpy as np
import pandas as pd
import pytest

from tests.advice.commands import page_of
from tests.flows.commands import run, setting_args, succeed
from tests.flows.experts.runs import latest, rivals_of, rows_of, written
from vbmodels.estimators.experts import MixtureOfExperts
from vbmodels.tables.columns import Unclear, read_as
from vbmodels.tables.seen import seen_in


def fitted(folder, columns, *settings, name="out", more=()):
    """Fit columns and return the run's folder and record."""
    given = written(folder, columns, f"{name}.parquet")
    succeed("experts", given, folder / name, *setting_args("test_share=0.3", *settings), *more)
    return latest(folder / name)


def test_a_number_with_a_negative_mean_has_the_same_table(tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 300))
    number = a + 0.5 * b + rng.standard_normal(300)
    tables = []
    for shift in (100.0, -100.0):
        columns = {"a": a, "b": b, "label": number + shift}
        record = fitted(tmp_path, columns, "target=number", name=f"at{shift:g}")[1]
        own = record["results"]["test"]["explained"]["value"]
        tables.append({n: one["explained"] for n, one in rivals_of(record).items()} | {"": own})
    assert tables[0] == pytest.approx(tables[1], abs=2e-3)


def test_a_product_is_in_the_list_of_a_number(tmp_path, capsys):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((500, 3))
    columns = {f"x{j}": x[:, j] for j in range(3)}
    columns["label"] = x[:, 0] * x[:, 1] + 0.2 * rng.standard_normal(500)
    fitted(tmp_path, columns, "baselines=no")
    assert "x0 and x1" in capsys.readouterr().out


def test_positive_numbers_with_errors_in_proportion_are_fitted_on_the_log(tmp_path):
    """Means and intervals are right on the scale of the label, and no interval is below 0."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(1600)
    number = np.exp(3.0 + 0.6 * x + 0.7 * rng.standard_normal(1600))
    folder, record = fitted(tmp_path, {"x": x[:1000], "label": number[:1000]}, "baselines=no")
    assert any("on the log" in text for text in record["warnings"])
    assert "added to log label" in page_of(tmp_path / "out")
    new = written(tmp_path, {"x": x[1000:], "label": number[1000:]}, "new.parquet")
    succeed("score", folder, new, tmp_path / "scored")
    rows = rows_of(latest(tmp_path / "scored")[0]).to_pandas()
    inside = (rows["low"] < rows["label"]) & (rows["label"] < rows["high"])
    assert rows["low"].min() > 0.0
    assert inside.mean() == pytest.approx(0.95, abs=0.02)
    assert rows["predicted"].mean() == pytest.approx(rows["label"].mean(), rel=0.1)


def test_positive_numbers_with_even_errors_are_fitted_as_they_are(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(400)
    columns = {"x": x, "label": 20.0 + 3.0 * x + rng.standard_normal(400)}
    assert not any(
        "on the log" in t for t in fitted(tmp_path, columns, "baselines=no")[1]["warnings"]
    )


def r2_of(record):
    return record["results"]["test"]["explained"]["value"]


def advised(record):
    """Return the setting of missing cells that a run advises."""
    words = shlex.split(next(text for text in record["warnings"] if "missing=" in text))
    return next(word for word in words if word.startswith("missing=")).rstrip(".")


def test_codes_of_missing_labels_are_warned_of_and_the_advice_helps(tmp_path, capsys):
    rng = np.random.default_rng(1)
    a = rng.standard_normal(400)
    price = 90.0 + 10.0 * a + rng.standard_normal(400)
    price[::10] = -999.0
    columns, called = {"a": a, "price": price}, ("--column", "label=price")
    _, record = fitted(tmp_path, columns, "baselines=no", more=called)
    held = next(one for one in record["columns"] if one["name"] == "price")["holds"]
    assert held.startswith("-999 to ")
    word = advised(record)
    assert word == "missing=-999"
    better = fitted(tmp_path, columns, "baselines=no", word, more=called, name="better")[1]
    assert r2_of(better) > 0.9 > 0.5 > r2_of(record)


def test_codes_of_the_label_and_of_a_column_are_one_setting(tmp_path):
    """Of two settings of missing cells the last counts: the advice is all of them at once."""
    rng = np.random.default_rng(1)
    rooms, income = rng.integers(1, 10, 400), rng.integers(1, 6, 400)
    label = 1 + (income + rng.standard_normal(400) > 3).astype(int)
    income[::12], label[::16] = 77, 9
    columns = {"rooms": rooms, "income": income, "label": label}
    word = advised(fitted(tmp_path, columns, "baselines=no")[1])
    assert word == "missing=label:9,income:77"
    better = fitted(tmp_path, columns, "baselines=no", word, name="better")[1]
    missing = {one["name"]: one["missing"] for one in better["columns"]}
    assert missing == {"label": 25, "rooms": 0, "income": 34}


def test_codes_of_one_column_are_missing_there_alone(tmp_path):
    """77 and 99 are no incomes, and 77 is an age: the advice keeps the ages."""
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, 600)
    income = rng.integers(1, 6, 600)
    label = income + 0.05 * age + 0.5 * rng.standard_normal(600)
    income[::12], income[6::12] = 77, 99
    columns = {"income": income, "age": age, "label": label}
    record = fitted(tmp_path, columns, "baselines=no")[1]
    word = advised(record)
    assert word == "missing=income:77,99"
    better = fitted(tmp_path, columns, "baselines=no", word, name="better")[1]
    missing = {one["name"]: one["missing"] for one in better["columns"]}
    assert (missing["income"], missing["age"]) == (100, 0)
    assert r2_of(better) > r2_of(record)


@pytest.mark.parametrize(
    ("cells", "clear"),
    [
        ({"45%": 3, "17.5%": 2, "0.45": 2, "0.2": 2}, False),
        ({"45%": 3, "17.5%": 2, "45": 2, "20": 2}, True),
        ({"45%": 3, "0.5%": 2}, True),
    ],
)
def test_percent_beside_fractions_is_no_one_scale(cells, clear):
    if clear:
        assert read_as("a", seen_in(cells)).kind == "number"
    else:
        with pytest.raises(Unclear, match="percent"):
            read_as("a", seen_in(cells))


def rare(rng, rows):
    x = rng.standard_normal((rows, 2))
    p = 1.0 / (1.0 + np.exp(3.6 - x[:, 0]))
    return {"a": x[:, 0], "b": x[:, 1], "label": (rng.random(rows) < p).astype(int)}


@pytest.mark.parametrize("several", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_probabilities_are_corrected_for_the_weights_of_classes(tmp_path, several):
    """By the command, a score and the estimator: the mean is the share of the label."""
    rng = np.random.default_rng(1)
    old, new = rare(rng, 2000), rare(rng, 4000)
    name = "probability_1"
    if several:
        for table in (old, new):
            table["label"] = np.where(table["b"] > 0.3, 2, table["label"])
    folder, _ = fitted(tmp_path, old, "class_weight=balanced", "baselines=no")
    succeed("score", folder, written(tmp_path, new, "new.parquet"), tmp_path / "scored")
    p = rows_of(latest(tmp_path / "scored")[0])[name].to_numpy()
    share = np.mean(new["label"] == 1)
    assert p.mean() == pytest.approx(share, abs=0.012)
    found = MixtureOfExperts(class_weight="balanced", random_state=0)
    found.fit(pd.DataFrame(old)[["a", "b"]], old["label"])
    theirs = found.predict_proba(pd.DataFrame(new)[["a", "b"]])[:, 1]
    assert theirs.mean() == pytest.approx(share, abs=0.012)
    assert np.mean(found.predict(pd.DataFrame(new)[["a", "b"]]) == 1) > 3.0 * share


def test_where_nothing_predicts_no_other_model_is_advised(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 5))
    columns = {f"x{j}": x[:, j] for j in range(5)} | {"label": rng.integers(0, 2, 300)}
    record = fitted(tmp_path, columns)[1]
    assert not record["results"]["test"]["better"]
    assert record["headline"].startswith("No better than the base rate")


def test_few_counts_are_offered_the_target_of_counts(tmp_path, capsys):
    """And with it they are fitted."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(400)
    columns = {"x": x, "label": np.minimum(rng.poisson(np.exp(0.4 * x - 1.0)), 5)}
    columns["label"][:2] = 6
    given = written(tmp_path, columns)
    code, _, err = run(capsys, "experts", given, tmp_path / "out")
    assert (code, "target=count" in err) == (2, True)
    succeed("experts", given, tmp_path / "out", *setting_args("target=count"))


@pytest.mark.parametrize("walk", [False, True])
def test_an_order_in_time_is_asked_about(tmp_path, walk):
    rng = np.random.default_rng(1)
    steps = rng.standard_normal(300)
    columns = {"x": rng.standard_normal(300), "label": np.cumsum(steps) if walk else steps}
    warnings = fitted(tmp_path, columns, "baselines=no")[1]["warnings"]
    assert any("order of time" in text for text in warnings) == walk


def test_weights_of_any_unit_give_the_same_test(tmp_path):
    """Other models too: their penalties are of rows that weigh 1 in the mean."""
    rng = np.random.default_rng(5)
    x, weight = rng.standard_normal(120), rng.uniform(0.2, 3.0, 120)
    label = np.clip(np.round(x + rng.standard_normal(120)), -1, 1).astype(int).astype(str)
    tests = []
    for unit in (1.0, 5000.0):
        source = written(tmp_path, {"x": x, "wt": unit * weight, "label": label})
        succeed("experts", source, tmp_path / "out", "--column", "weight=wt")
        tests.append(latest(tmp_path / "out")[1]["results"]["test"])
    one, other = ({r["name"]: r["loss"] for r in test["rivals"]} for test in tests)
    assert one == pytest.approx(other, abs=1e-4)
    assert tests[0]["loss"]["value"] == pytest.approx(tests[1]["loss"]["value"], abs=1e-4)


def test_rows_that_are_weighted_are_tested_by_their_weights(tmp_path):
    """As many cases as controls, of a label that one in 31 has; other models are weighted too."""
    rng = np.random.default_rng(5)
    case = np.arange(400) % 2 == 0
    columns = {"x": rng.standard_normal(400) + 1.5 * case, "z": rng.standard_normal(400)}
    columns |= {"wt": np.where(case, 1.0, 30.0), "label": np.where(case, "yes", "no")}
    source = written(tmp_path, columns)
    for more in ((), setting_args("test_share=0.3")):
        succeed("experts", source, tmp_path / "out", "--column", "weight=wt", *more)
        folder, record = latest(tmp_path / "out")
        test = record["results"]["test"]
        assert test["better"]
        assert test["share"]["value"] > 0.93
        assert test["positives"] < 0.06 * test["rows"]
        assert rows_of(folder, "tested")["weight"].unique().to_pylist() == [1.0, 30.0]
        base = rows_of(folder, "tested")["base rate"].to_numpy()
        assert np.allclose(base, 1.0 / 31.0, atol=0.004)
        losses = {one["name"]: one["loss"] for one in record["results"]["test"]["rivals"]}
        assert max(losses.values()) < 2.0 * test["base"]  # of trees without weights some 5 times
