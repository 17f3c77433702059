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
