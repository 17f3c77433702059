"""Files of bags that are each right, and what they say twice or differently."""

import numpy as np
import pyarrow as pa
import pytest

from tests.flows.bags.bag_files import instances, run, written


def check(capsys, folder, *options):
    code, _, err = run(capsys, "check", "bags", folder, *options)
    said = [line for line in err.splitlines() if line.startswith(("vbflows", " "))]
    return code, "\n".join(said)


def test_a_copied_file_is_refused_with_file_and_row(tmp_path, capsys):
    table = instances(40)
    written(tmp_path, table, "a.parquet")
    written(tmp_path, table, "b.parquet")
    code, err = check(capsys, tmp_path)
    assert code == 2
    first = err.splitlines()[0]
    assert first.startswith(f"vbflows: {tmp_path}/b.parquet, column instance_id, row 1: ")
    assert f"found that of {tmp_path}/a.parquet, row 1; leave the copy out" in first
    assert "the same in 100 more rows" in err


@pytest.mark.thorough
def test_a_bag_may_lie_in_several_files(tmp_path, capsys):
    """Its instances differ in name or in modality; a name that is not there is not compared."""
    table = instances(40, modality=["m"] * 120)
    written(tmp_path, table.slice(0, 61), "a.parquet")
    written(tmp_path, table.slice(61), "b.parquet")
    place = table.column_names.index("modality")
    other = table.set_column(place, "modality", pa.array(["other"] * 120))
    written(tmp_path, other, "c.parquet")
    nameless = table.set_column(1, "instance_id", pa.nulls(120, pa.string()))
    written(tmp_path, nameless, "d.parquet")
    code, err = check(capsys, tmp_path)
    assert (code, err) == (0, "")


def with_own(shift):
    def change(table):
        own = [[float(bag[1:]) + (shift if bag == "b7" else 0.0)]
               for bag in table["bag_id"].to_pylist()]  # fmt: skip
        return table.append_column("bag_features", pa.array(own))

    return change


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_features_of_bags_must_agree(tmp_path, capsys, shift):
    half = np.arange(120) % 3 == 0
    table = instances(40)
    written(tmp_path, with_own(0.0)(table.filter(pa.array(half))), "a.parquet")
    written(tmp_path, with_own(shift)(table.filter(pa.array(~half))), "b.parquet")
    code, err = check(capsys, tmp_path)
    assert code == (2 if shift else 0)
    if shift:
        assert f"{tmp_path}/b.parquet, column bag_features, row 15: expected those that bag 'b7' " \
               f"has in {tmp_path}/a.parquet, row 8, found others" in err  # fmt: skip


@pytest.mark.parametrize("other", [["x"], ["y"], None])
def test_classes_of_bags_must_agree(tmp_path, capsys, other):
    half = np.arange(120) % 3 == 0
    table = instances(40)
    of_bag = [["x"] if int(b[1:]) % 2 else [] for b in table["bag_id"].to_pylist()]
    table = table.drop_columns("label").append_column("labels", pa.array(of_bag))
    written(tmp_path, table.filter(pa.array(half)), "a.parquet")
    rest = table.filter(pa.array(~half))
    changed = [other if b == "b7" else c
               for b, c in zip(rest["bag_id"].to_pylist(), rest["labels"].to_pylist(),
                               strict=True)]  # fmt: skip
    rest = rest.drop_columns("labels").append_column(
        "labels", pa.array(changed, pa.list_(pa.string()))
    )
    written(tmp_path, rest, "b.parquet")
    code, err = check(capsys, tmp_path, "--set", "model=gp_probit")
    assert code == (2 if other == ["y"] else 0), err
    if other == ["y"]:
        assert "b.parquet, column labels, row 15: expected those that bag 'b7' has in" in err
