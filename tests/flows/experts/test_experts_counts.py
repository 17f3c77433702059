"""A label that is a count: recognised, predicted, reported, and refused where it is none."""

import numpy as np
import pytest

from tests.flows.commands import printed, refused, setting_args, succeed
from tests.flows.experts.runs import latest, rivals_of, rows_of, written


def rentals(n=500, seed=0):
    rng = np.random.default_rng(seed)
    hour, rain = rng.integers(0, 24, n), rng.choice(["yes", "no"], n)
    mean = np.exp(1.5 + np.sin(hour / 24.0 * 2.0 * np.pi) - 0.7 * (rain == "yes"))
    columns = {"id": [f"r{i}" for i in range(n)], "hour": hour, "rain": rain}
    return columns | {"label": rng.poisson(mean * rng.gamma(4.0, 0.25, n))}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    path = written(folder, rentals())
    succeed("experts", path, folder / "out", "--partitions", 2, "--set", "test_share=0.3")
    return folder / "out"


def test_a_count_is_predicted_by_its_mean(fitted):
    folder, record = latest(fitted)
    results, rows = record["results"], rows_of(folder)
    assert rows.column_names[:6] == ["id", "label", "predicted", "sd", "low", "high"]
    assert rows["label"].to_pylist() == rentals()["label"].tolist()
    assert rows["predicted"].to_numpy().min() > 0.0
    explained, rivals = results["test"]["explained"], rivals_of(record)
    assert 0.0 < explained["low"] < 0.3 < explained["value"] < explained["high"]
    assert set(rivals) == {"Poisson regression", "boosted trees"}
    assert rivals["Poisson regression"]["more"]["value"] > 0.0
    assert any("The label is a count" in warning for warning in record["warnings"])


def test_new_rows_are_scored_as_the_fit_predicts(fitted, tmp_path, capsys):
    new = {name: cells[:50] for name, cells in rentals().items()}
    succeed("score", fitted, written(tmp_path, new), tmp_path / "new")
    mine, theirs = rows_of(latest(tmp_path / "new")[0]), rows_of(latest(fitted)[0])
    np.testing.assert_allclose(
        mine["predicted"].to_numpy(), theirs["predicted"].to_numpy()[:50], rtol=1e-10
    )
    wrong = written(tmp_path, {**new, "label": np.full(50, 1.5)}, "wrong.parquet")
    said = refused(capsys, "score", fitted, wrong, tmp_path / "wrong")
    assert "expected whole numbers from 0, as in the fit, found '1.5' in the row 'r0'" in said


def test_the_kind_of_a_label_is_a_rule_with_a_setting(tmp_path, capsys):
    columns = rentals(200)
    digits = {**columns, "label": np.arange(200) % 10}
    assert "10 classes" in printed(capsys, "check", "experts", written(tmp_path, digits))
    years = {**columns, "label": 1900 + np.arange(200) % 50}
    assert "The label is a number" in printed(capsys, "check", "experts", written(tmp_path, years))
    below = {**columns, "label": columns["label"] - 1}
    said = refused(
        capsys, "check", "experts", written(tmp_path, below), *setting_args("target=count")
    )
    assert "expected whole numbers from 0 for target=count, found -1; take target=number" in said
    said = printed(
        capsys, "check", "experts", written(tmp_path, columns), *setting_args("target=number")
    )
    assert "label: the number is predicted" in said


def insured(n=500, seed=1):
    """Claims of 0.1 to 2 years, at a rate of 0.5 a year and twice as much in towns."""
    rng = np.random.default_rng(seed)
    years, town = rng.uniform(0.1, 2.0, n), rng.choice(["yes", "no"], n)
    claims = rng.poisson(0.5 * years * (1 + (town == "yes")))
    return {"id": [f"r{i}" for i in range(n)], "town": town, "years": years, "label": claims}


BY_YEARS = ("--column", "exposure=years")


def test_a_count_is_predicted_for_its_exposure(tmp_path):
    columns = insured()
    path = written(tmp_path, columns)
    for parts in (1, 3):
        out = tmp_path / f"out{parts}"
        succeed("experts", path, out, *BY_YEARS, "--partitions", parts)
    folder, record = latest(tmp_path / "out1")
    predicted, again = (
        rows_of(place)["predicted"].to_numpy() for place in (folder, latest(tmp_path / "out3")[0])
    )
    np.testing.assert_allclose(predicted, again, rtol=1e-6)
    rate = predicted / columns["years"]
    for town, truth in (("no", 0.5), ("yes", 1.0)):
        own = rate[columns["town"] == town]
        np.testing.assert_allclose(own, own[0])
        assert abs(np.log(own[0] / truth)) < 0.2
    test, rivals = record["results"]["test"], rivals_of(record)
    assert test["explained"]["low"] > 0.0
    # Rivals have the exposure too, else they were far worse.
    assert all(one["explained"] > 0.0 for one in rivals.values())
    assert abs(rivals["Poisson regression"]["more"]["value"]) < 0.02
    used = {one["name"]: one["used"] for one in record["columns"]}
    assert used["years"] == "exposure of the count"


@pytest.mark.parametrize(
    ("change", "more", "words"),
    [
        ({"years": 0.0}, (), "column years, row 1: expected an exposure above 0, found 0.0"),
        ({"years": None}, (), "column years, row 1"),
        ({"label": 0.5}, (), "expected whole numbers from 0 for target=count, found fractions"),
        ({}, setting_args("target=number"), "expected count with an exposure, found number"),
    ],
)
def test_an_exposure_must_be_there_and_of_a_count(tmp_path, capsys, change, more, words):
    columns = {name: list(cells) for name, cells in insured(60).items()}
    for name, cell in change.items():
        columns[name] = [cell, *map(float, columns[name][1:])]
    path = written(tmp_path, columns)
    assert words in refused(capsys, "experts", path, tmp_path / "out", *BY_YEARS, *more)
    assert not (tmp_path / "out").exists()


def test_new_rows_have_an_exposure_too(tmp_path, capsys):
    columns = insured()
    succeed("experts", written(tmp_path, columns), tmp_path / "out", *BY_YEARS)
    later = insured(400, seed=2)
    succeed("score", tmp_path / "out", written(tmp_path, later), tmp_path / "later")
    folder, record = latest(tmp_path / "later")
    assert rows_of(folder)["exposure"].to_pylist() == list(later["years"])
    fit = latest(tmp_path / "out")[1].get("results")["test"]["explained"]["value"]
    # What the exposure alone explains is none of the model's, here as at the fit.
    assert abs(record["results"]["test"]["explained"]["value"] - fit) < 0.05
    new = {name: cells for name, cells in columns.items() if name != "years"}
    said = refused(capsys, "score", tmp_path / "out", written(tmp_path, new), tmp_path / "new")
    assert "column years: not in the file" in said
