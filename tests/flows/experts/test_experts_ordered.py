"""Labels in an order: each fit is of being above a class, and the order is found or refused."""

import numpy as np
import pytest

from tests.flows.commands import setting_args, succeed
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
