"""Bags whose label is a number: fit, tables, report, new bags, and what is refused."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.bags.scored import foremost
from tests.flows.bags.bag_files import table_of
from tests.flows.commands import answer, refused
from tests.vbmodels.bags.test_number import numbered


def long_table(n=80, seed=0, **kwargs):
    """A row an instance, features by name."""
    data, truth = numbered(n, seed, **kwargs)
    of = data.modalities[0]
    columns = {f"m{d}": of.features[:, d] for d in range(3)}
    names = [f"bag {i:03d}" for i in of.bag]
    return pa.table({"bag_id": names, "weight": data.target[of.bag], **columns}), data.target, truth


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    table, y, _ = long_table()
    pq.write_table(table, folder / "in.parquet")
    return folder, y


LABEL = ("--column", "label=weight")


def test_what_lowers_a_number_is_foremost_too():
    score = np.array([-9.0, -8, -7, -6, -5, -4, -3, -2, -1, 0.5, 0.4, 0.3])
    columns = {"bag_id": ["b"] * 12, "probability": pa.nulls(12, pa.float64()), "score": score}
    instances = pa.table(columns)
    assert foremost(instances, is_number=True).tolist() == list(range(8))
    assert foremost(instances, is_number=False).tolist() == [9, 10, 11, 8, 7, 6, 5, 4]


def test_a_number_is_predicted_with_its_interval(done, capsys):
    folder, y = done
    found = answer(capsys, "bags", folder / "in.parquet", folder / "out", *LABEL)
    test = found["results"]["test"]
    assert test["explained"]["value"] > 0.5
    assert test["loss"]["value"] < 0.7 * test["base"]
    assert test["better"]
    rivals = table_of(folder / "out", "rivals").to_pandas()
    assert {one["name"] for one in test["rivals"]} == set(rivals.rival)
    assert len(rivals) == 2 * len(y)
    assert any("is predicted as a number" in text for text in found["warnings"])
    bags = table_of(folder / "out", "bags").to_pandas().sort_values("bag_id")
    np.testing.assert_allclose(bags.label, y)
    error = bags.label - bags.without_it
    assert np.sqrt(np.mean(error**2)) == pytest.approx(test["loss"]["value"])
    assert (bags.low < bags.predicted).all()
    assert (bags.low_without_it < bags.without_it).all()
    inside = (bags.low_without_it <= bags.label) & (bags.label <= bags.high_without_it)
    assert test["inside"]["value"] == pytest.approx(inside.mean())
    markers = table_of(folder / "out", "markers").to_pandas()
    assert set(markers.feature) == {"m0", "m1", "m2"}
    top = markers.assign(size=markers.adds.abs()).groupby("feature")["size"].mean()
    assert top["m2"] < min(top["m0"], top["m1"])


def test_new_bags_are_scored_as_the_fit_would(done, capsys, tmp_path):
    folder, _ = done
    answer(capsys, "bags", folder / "in.parquet", tmp_path / "out", *LABEL)
    table, y, truth = long_table(60, seed=5)
    pq.write_table(table.drop_columns("weight"), tmp_path / "new.parquet")
    answer(capsys, "score", tmp_path / "out", tmp_path / "new.parquet", tmp_path / "scored")
    bags = table_of(tmp_path / "scored", "bags").to_pandas().sort_values("bag_id")
    assert bags.label.isna().all()
    assert np.corrcoef(bags.predicted, truth)[0, 1] > 0.8
    pq.write_table(table, tmp_path / "labelled.parquet")
    found = answer(capsys, "score", tmp_path / "out", tmp_path / "labelled.parquet",
                   tmp_path / "again")  # fmt: skip
    assert found["results"]["on"] == "new"
    inside = (bags.low.to_numpy() < y) & (y < bags.high.to_numpy())
    assert found["results"]["test"]["inside"]["value"] == pytest.approx(inside.mean())


def test_text_of_numbers_and_held_out_bags(capsys, tmp_path):
    """Numbers with a comma in a CSV, a bag without a label, and a share held out."""
    table, _, _ = long_table(120, seed=2)
    frame = table.to_pandas()
    frame["weight"] = [f"{w:.2f}".replace(".", ",") for w in frame.weight]
    frame.loc[frame.bag_id == "bag 003", "weight"] = ""
    frame.to_csv(tmp_path / "in.csv", sep=";", index=False)
    found = answer(capsys, "bags", tmp_path / "in.csv", tmp_path / "out", *LABEL,
                   "--set", "held_out=0.3")  # fmt: skip
    held = found["results"]["counts"]["held_out"]
    assert found["results"]["test"]["rows"] == held
    bags = table_of(tmp_path / "out", "bags").to_pandas().set_index("bag_id")
    assert np.isnan(bags.label["bag 003"])
    assert bags.without_it.isna().sum() == held + 1


def test_noise_is_no_better_than_the_mean(capsys, tmp_path):
    table, _, _ = long_table(80)
    rng = np.random.default_rng(1)
    names = np.asarray(table["bag_id"])
    _, of = np.unique(names, return_inverse=True)
    noise = pa.array(rng.standard_normal(of.max() + 1)[of])
    pq.write_table(table.set_column(1, "weight", noise), tmp_path / "in.parquet")
    found = answer(capsys, "bags", tmp_path / "in.parquet", tmp_path / "out", *LABEL)
    assert not found["results"]["test"]["better"]


def test_the_number_0_in_one_file_and_7_in_another_are_refused(capsys, tmp_path):
    """Zero is a number like others, not the absence of one."""
    table, _, _ = long_table(30)
    names, weights = table["bag_id"].to_pylist(), np.array(table["weight"])
    (tmp_path / "in").mkdir()
    for number, file in ((0.0, "a"), (7.0, "b")):
        own = np.array([name == "bag 004" or (name < "bag 015") == (file == "a") for name in names])
        given = np.where(np.array(names) == "bag 004", number, weights)
        part = table.set_column(1, "weight", pa.array(given)).filter(pa.array(own))
        pq.write_table(part, tmp_path / "in" / f"{file}.parquet")
    said = refused(capsys, "bags", tmp_path / "in", tmp_path / "out", *LABEL)
    assert "bag 004" in said


def test_all_bags_in_one_group_have_no_baselines(capsys, tmp_path):
    table, _, _ = long_table(40)
    table = table.append_column("patient", pa.array(["one"] * len(table)))
    pq.write_table(table, tmp_path / "in.parquet")
    found = answer(capsys, "bags", tmp_path / "in.parquet", tmp_path / "out", *LABEL,
                   "--column", "group=patient")  # fmt: skip
    assert found["results"]["test"] is None


def test_levels_keep_a_threshold_of_yours(capsys, tmp_path):
    table, _, _ = long_table(60)
    ranks = np.digitize(
        np.array(table["weight"]), np.quantile(np.array(table["weight"]), [0.3, 0.6])
    )
    pq.write_table(table.set_column(1, "weight", pa.array(ranks + 1)), tmp_path / "in.parquet")
    answer(capsys, "bags", tmp_path / "in.parquet", tmp_path / "out", *LABEL,
           "--set", "target=ordered", "--set", "threshold=3")  # fmt: skip
    assert "predicted_level" in table_of(tmp_path / "out", "bags").column_names
