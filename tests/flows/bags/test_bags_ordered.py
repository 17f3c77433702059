"""Bags whose labels are levels in an order: levels found, fitted, scored, and refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flows.bags.bag_files import table_of
from tests.flows.bags.test_bags_number import long_table
from tests.flows.commands import answer, refused

NAMES = ("low", "medium", "high")


def graded(folder, names=NAMES, n=120, seed=0):
    """Write bags whose numbers are cut into levels."""
    table, y, _ = long_table(n, seed)
    cuts = np.quantile(y, [0.5, 0.8])
    level = np.searchsorted(cuts, np.asarray(table["weight"]))
    labels = pa.array([names[j] for j in level])
    pq.write_table(table.set_column(1, "grade", labels), folder / "in.parquet")
    return folder / "in.parquet"


LABEL = ("--column", "label=grade")


@pytest.mark.parametrize("names", [NAMES, (1, 2, 3)])
def test_levels_are_predicted_in_their_order(names, capsys, tmp_path):
    path = graded(tmp_path, names)
    found = answer(capsys, "bags", path, tmp_path / "out", *LABEL)
    test = found["results"]["test"]
    assert found["results"]["names"]["levels"] == [str(one) for one in names]
    assert test["right"] > test["common"] + 0.1 * test["rows"]
    assert test["near"] > 0.95 * test["rows"]
    assert test["better"]
    assert test["loss"]["value"] < test["base"]
    assert any("levels are fitted as the numbers" in text for text in found["warnings"])
    bags = table_of(tmp_path / "out", "bags").to_pandas()
    chances = bags[[f"probability_{one}" for one in names]].to_numpy()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    without = bags[[f"without_it_{one}" for one in names]].to_numpy()
    np.testing.assert_allclose(without.sum(axis=1), 1.0)
    assert test["right"] == (without.argmax(axis=1) + 1 == bags.label).sum()
    best = np.array([str(one) for one in names])[chances.argmax(axis=1)]
    assert (bags.predicted_level == best).all()
    assert (bags.level == np.array([str(one) for one in names])[bags.label.astype(int) - 1]).all()


def test_new_bags_have_the_levels_of_the_fit(capsys, tmp_path):
    path = graded(tmp_path)
    answer(capsys, "bags", path, tmp_path / "out", *LABEL)
    (tmp_path / "new").mkdir()
    new = graded(tmp_path / "new", seed=9)
    found = answer(capsys, "score", tmp_path / "out", new, tmp_path / "scored")
    assert found["results"]["on"] == "new"
    assert found["results"]["test"]["share"]["value"] > 0.5
    table = pq.read_table(new)
    odd = pa.array(["extreme" if one == "high" else one for one in table["grade"].to_pylist()])
    pq.write_table(table.set_column(1, "grade", odd), tmp_path / "odd.parquet")
    said = refused(capsys, "score", tmp_path / "out", tmp_path / "odd.parquet", tmp_path / "t")
    assert "one of the levels low, medium, high" in said
    assert "extreme" in said


def test_an_order_of_other_words_is_said_by_the_user(capsys, tmp_path):
    path = graded(tmp_path, ("bronze", "silver", "gold"))
    said = refused(capsys, "bags", path, tmp_path / "out", *LABEL)
    assert "label_order=[" in said
    found = answer(capsys, "bags", path, tmp_path / "out", *LABEL, "--set", "target=ordered",
                   "--set", "label_order=[bronze,silver,gold]")  # fmt: skip
    assert found["results"]["test"]["share"]["value"] > 0.5
    said = refused(capsys, "bags", path, tmp_path / "out", *LABEL, "--set", "target=ordered",
                   "--set", "label_order=[bronze,silver,platinum]")  # fmt: skip
    assert "gold" in said
