"""A label that is a number: predicted with intervals, reported, scored, and cut in any way."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.commands import printed, refused, succeed
from tests.flows.experts.runs import latest, rivals_of, rows_of, written


def houses(n=400, seed=0):
    rng = np.random.default_rng(seed)
    area, town = rng.gamma(8.0, 12.0, n), rng.choice(["A", "B", "C"], n)
    price = 1000.0 * np.sqrt(area) + 3000.0 * (town == "C") + 50_000.0
    return {
        "id": [f"h{i}" for i in range(n)], "area": area, "town": town,
        "label": price + 300.0 * rng.standard_normal(n),
    }  # fmt: skip


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    path = written(folder, houses())
    succeed("experts", path, folder / "out", "--partitions", 2, "--set", "test_share=0.3")
    return folder / "out"


def test_the_number_of_every_row_is_predicted_with_an_interval(fitted):
    folder, record = latest(fitted)
    results, rows = record["results"], rows_of(folder)
    assert rows.column_names[:6] == ["id", "label", "predicted", "sd", "low", "high"]
    y = rows["label"].to_numpy()
    np.testing.assert_array_equal(y, houses()["label"])
    away = y - rows["predicted"].to_numpy()
    assert 0.9 < np.mean(np.abs(away) < 1.96 * rows["sd"].to_numpy()) < 1.0
    test = results["test"]
    assert test["rows"] > 80
    assert test["explained"]["value"] > 0.95
    assert test["loss"]["low"] < test["loss"]["value"] < test["loss"]["high"]
    assert 250.0 < test["loss"]["value"] < 400.0 < test["base"]
    assert set(rivals_of(record)) == {"ridge regression", "boosted trees"}
    assert list(results["effects"][0]["strengths"])[:2] == ["area", "town"]
    assert any("--set target=classes" in warning for warning in record["warnings"])
    assert set(rows_of(folder, "experts")["role"].to_pylist()) == {"additive"}


def test_new_rows_are_scored_as_the_fit_predicts(fitted, tmp_path):
    columns = houses()
    new = {name: columns[name][:50] for name in ("town", "id", "area")}
    succeed("score", fitted, written(tmp_path, new), tmp_path / "new")
    mine, theirs = rows_of(latest(tmp_path / "new")[0]), rows_of(latest(fitted)[0])
    np.testing.assert_allclose(
        mine["predicted"].to_numpy(), theirs["predicted"].to_numpy()[:50], rtol=1e-10
    )
    assert mine["label"].null_count == 50
    results = latest(tmp_path / "new")[1]["results"]
    rows = results["fit"]["test"]["rows"]
    predicted = mine["predicted"].to_pylist()
    assert results["ends"] == [min(predicted), max(predicted)]
    assert not any(rows_of(latest(tmp_path / "new")[0])["held_out"].to_pylist())
    assert sum(theirs["held_out"].to_pylist()) == rows
    largest = max(zip(mine["predicted"].to_pylist(), mine["id"].to_pylist(), strict=True))[1]
    assert results["lists"]["all"]["rows"][0]["name"] == largest
    labelled = {**new, "label": columns["label"][:50]}
    succeed("score", fitted, written(tmp_path, labelled, "known.parquet"), tmp_path / "known")
    assert latest(tmp_path / "known")[1]["results"]["test"]["rows"] == 50


def test_a_missing_number_widens_the_interval_of_its_row_alone(fitted, tmp_path):
    columns, gone = houses(), np.arange(100) % 4 == 0
    area = pa.array(columns["area"][:100], mask=gone)
    new = {"id": columns["id"][:100], "area": area, "town": columns["town"][:100]}
    succeed("score", fitted, written(tmp_path, new), tmp_path / "new")
    mine, theirs = rows_of(latest(tmp_path / "new")[0]), rows_of(latest(fitted)[0])[:100]
    wide, usual = mine["sd"].to_numpy(), theirs["sd"].to_numpy()
    np.testing.assert_allclose(wide[~gone], usual[~gone], rtol=1e-10)
    assert (wide[gone] > 4.0 * usual[gone]).all()
    low, y, high = mine["low"].to_numpy(), columns["label"][:100], mine["high"].to_numpy()
    assert np.mean((low <= y) & (y <= high)) > 0.9
    assert np.mean((low <= y) & (y <= high), where=gone) > 0.8


@pytest.mark.parametrize("parts", [1, 2])
def test_the_effect_of_one_column_of_two_values_is_found(tmp_path, parts):
    """Rows with the same cells are no copies: held out together, neither value tests the other."""
    rng = np.random.default_rng(0)
    treated = rng.random(300) < 0.5
    columns = {
        "id": [f"p{i}" for i in range(300)], "treated": np.where(treated, "yes", "no"),
        "label": treated + rng.standard_normal(300),
    }  # fmt: skip
    path = written(tmp_path, columns)
    succeed("experts", path, tmp_path / "out", "--partitions", parts)
    folder, record = latest(tmp_path / "out")
    assert record["results"]["test"]["loss"]["high"] < record["results"]["test"]["base"]
    sd = rows_of(folder)["sd"].to_numpy()
    assert 0.9 < sd.min() <= sd.max() < 1.1


def test_numbers_of_few_values_are_classes_until_said_otherwise(tmp_path, capsys):
    columns = houses(120)
    columns["label"] = np.digitize(columns["label"], np.quantile(columns["label"], [0.3, 0.6]))
    path = written(tmp_path, columns)
    said = printed(capsys, "check", "experts", path)
    assert "ordered (0, 1, 2), but fitted as 3 classes" in said
    assert "--set target=ordered, or --set target=number for a number" in said
    succeed("experts", path, tmp_path / "out", "--set", "target=number")
    assert "predicted" in rows_of(latest(tmp_path / "out")[0]).column_names


def test_a_number_that_cannot_be_read_is_named_when_scoring(fitted, tmp_path, capsys):
    columns = {n: list(c[:3]) for n, c in houses().items()} | {"label": ["1.5", "x", None]}
    pq.write_table(pa.table(columns), tmp_path / "new.parquet")
    said = refused(capsys, "score", fitted, tmp_path / "new.parquet", tmp_path / "new")
    assert "column label: expected numbers, as in the fit, found 'x' in the row 'h1'" in said
    kept = json.loads((latest(fitted)[0] / "posterior" / "columns.json").read_text())
    assert kept["target"]["sd"] == pytest.approx(np.std(houses()["label"]), rel=0.1)
