"""Instances with a label of their own: read, used, refused where they contradict their bag."""

import numpy as np
import pyarrow as pa
import pytest

from tests.flows.bags.bag_files import fitted, instances, table_of, written
from tests.flows.commands import refused


def labelled(known, n=40):
    return instances(n, instance_label=pa.array(known, pa.int8()))


def some_known(n=40):
    """The first instance of every fourth bag is labelled as its bag is."""
    label = np.arange(n) % 2
    return [int(label[b]) if i == 0 and b % 4 < 2 else None for b in range(n) for i in range(3)]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("auto", "used by the Gaussian process alone."),
        ("gp_probit", "used by the Gaussian process."),
        ("embedding", "not used by model=embedding: model=auto and gp_probit use them"),
    ],
)
def test_the_run_says_by_what_they_are_used(model, said, capsys, tmp_path):
    path = written(tmp_path, labelled(some_known()))
    found = fitted(capsys, path, tmp_path / "out", f"model={model}")
    (text,) = [one for one in found["warnings"] if one.startswith("Instance labels of 20 ")]
    assert "in 20 bags" in text
    assert said in text


def test_a_positive_instance_makes_its_bag_positive(capsys, tmp_path):
    label = pa.array([None if row < 3 else row // 3 % 2 for row in range(120)], pa.int8())
    chance = []
    for value in (None, 1):
        table = labelled([value if row == 0 else None for row in range(120)])
        path = written(tmp_path, table.set_column(2, "label", label))
        fitted(capsys, path, tmp_path / "out", "model=gp_probit")
        bags = table_of(tmp_path / "out", "bags").to_pandas().set_index("bag_id")
        chance.append(bags.probability["b0"])
    assert bags.label["b0"] == 1
    assert chance[1] > chance[0]


def test_a_positive_instance_of_a_negative_bag_is_refused(capsys, tmp_path):
    path = written(tmp_path, labelled([1 if row == 7 else None for row in range(120)]))
    said = refused(capsys, "bags", path, tmp_path / "out")
    assert "in.parquet" in said
    assert "column instance_label, row 8" in said
    assert "bag 'b2' has the label 0" in said


def test_held_out_bags_keep_their_instances_from_the_fit(capsys, tmp_path):
    path = written(tmp_path, labelled(some_known()))
    found = fitted(capsys, path, tmp_path / "out", "model=gp_probit", "held_out=0.3")
    bags = table_of(tmp_path / "out", "bags").to_pandas()
    held = bags.held_out[bags.bag_id.isin([f"b{b}" for b in range(40) if b % 4 < 2])].sum()
    (text,) = [one for one in found["warnings"] if one.startswith("Instance labels")]
    assert f"of {20 - held} instances" in text
