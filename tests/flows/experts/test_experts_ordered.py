"""Labels in an order: each fit is of being above a class, and the order is found or refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.flows.commands import printed, refused, setting_args, succeed
from tests.flows.experts.runs import latest, rivals_of, rows_of, written

GRADES = np.array(["low", "medium", "high"])


def grades(n=400, seed=0, words=GRADES):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    place = np.digitize(np.abs(x[:, 0]) + x[:, 1] + 0.5 * rng.logistic(size=n), [0.0, 1.2])
    return {"id": [f"g{i}" for i in range(n)], "a": x[:, 0], "b": x[:, 1], "label": words[place]}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordered")
    options = ("target=ordered", "test_share=0.3", "n_experts=1")
    path = written(folder, grades())
    succeed("experts", path, folder / "out", "--partitions", 2, *setting_args(*options))
    return folder / "out"


def test_probabilities_are_those_between_two_classes(fitted):
    folder, record = latest(fitted)
    rows, results = rows_of(folder), record["results"]
    assert rows.column_names[3:-2] == [f"probability_{one}" for one in GRADES]
    p = np.column_stack([rows[name].to_numpy() for name in rows.column_names[3:-2]])
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert p.min() >= 0.0
    assert results["names"]["classes"] == list(GRADES)
    linear = rivals_of(record)["multinomial logistic regression"]["loss"]
    assert results["test"]["loss"]["value"] < linear
    experts = rows_of(folder, "experts")
    assert set(experts["label"].to_pylist()) == {"above low", "above medium"}
    assert "without an order" not in " ".join(record["warnings"])


def test_new_rows_are_scored_as_the_fit_predicts(fitted, tmp_path):
    new = {name: cells[:40] for name, cells in grades().items()}
    succeed("score", fitted, written(tmp_path, new), tmp_path / "new")
    mine, theirs = rows_of(latest(tmp_path / "new")[0]), rows_of(latest(fitted)[0])
    name = "probability_high"
    np.testing.assert_allclose(mine[name].to_numpy(), theirs[name].to_numpy()[:40], rtol=1e-9)


def test_an_order_that_is_not_known_is_refused(tmp_path, capsys):
    path = written(tmp_path, grades(words=np.array(["red", "green", "blue"])))
    said = refused(capsys, "check", "experts", path, *setting_args("target=ordered"))
    assert "expected numbers or words of a known scale (low, high) for target=ordered" in said
    assert "number the labels by their order (1, 2, 3)" in said
    path = written(tmp_path, grades())
    assert "for the order, --set target=ordered" in printed(capsys, "check", "experts", path)
