"""What becomes of missing features, categories and labels as users have them."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flows import stages
from flows.faults import RunError
from flows.records.runs import open_run
from flows.run import begin
from tests.advice.commands import page_of
from tests.flows.bags.bag_files import fitted, instances, table_of, written
from tests.flows.commands import answer, refused


def cells(n=60, seed=0):
    """Return rows of bags of four instances, whose label is in no value but in what is missing."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), 4)
    label = np.arange(n) % 2
    gap = rng.random(4 * n) < np.where(label[bag] == 1, 0.6, 0.1)
    table = {
        "bag_id": [f"b{i:03d}" for i in bag],
        "label": label[bag],
        "CD3": np.where(gap, np.nan, rng.normal(size=4 * n)),
        "CD8": rng.normal(size=4 * n),
    }
    table["CD8"][:2] = np.nan
    return table


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gaps")
    return folder, written(folder, pa.table(cells())), folder / "t"


def test_a_declared_list_of_features_is_one_column(tmp_path, capsys):
    table = {"bag_id": ["a", "b"] * 4, "label": [0, 1] * 4, "features": [[1.0, 2.0, 3.0]] * 8}
    path = written(tmp_path, pa.table(table))
    columns = answer(capsys, "check", "bags", path)["columns"]
    assert [one["used"] for one in columns if one["name"] == "features"] == ["features"]


def test_a_file_whose_columns_change_before_features_get_their_names_is_refused(tmp_path):
    path = tmp_path / "in.csv"
    table = pd.DataFrame(cells())
    table.to_csv(path, index=False)

    def prepare():
        with begin("bags", str(path), str(tmp_path / "out")) as begun:
            stages.check(begun)
            stages.ingest(begun)
            table[[*table.columns[:2], "CD8", "CD3"]].to_csv(path, index=False)
            stages.prepare(begun)

    with pytest.raises(RunError, match="has changed since this run first read it"):
        prepare()


def test_gaps_that_hold_the_label_are_seen_and_counted(gaps, tmp_path, capsys):
    _, path, target = gaps
    made = cells()
    found = fitted(capsys, path, target, "model=embedding", "partitions=2")
    assert found["results"]["test"]["auroc"]["value"] > 0.85
    missing = int(np.isnan(made["CD3"]).sum())
    said = [text for text in found["warnings"] if text.startswith("Missing features")]
    assert said == [
        f"Missing features are mean-imputed, with a column that says where: CD3 ({missing}).",
        "Missing features are mean-imputed, without a column for so few or so many: CD8 (2).",
    ]
    new = {name: values[4:44] for name, values in cells(seed=1).items()}
    markers = table_of(target, "markers")
    assert set(markers.column_names) >= {"bag_id", "instance_id", "feature", "value", "adds"}
    assert len(markers) == 3 * 240
    of = [row for row in markers.to_pylist() if row["feature"] == "CD3 missing"]
    assert all(row["value"] in (0.0, 1.0) for row in of)
    adds = {v: np.mean([row["adds"] for row in of if row["value"] == v]) for v in (0.0, 1.0)}
    assert adds[1.0] > 0.0 > adds[0.0]
    scored = answer(capsys, "score", target, written(tmp_path, pa.table(new)), tmp_path / "s")
    assert any(f"CD3 ({int(np.isnan(new['CD3']).sum())})" in text for text in scored["warnings"])
    values = table_of(tmp_path / "s", "bags")
    label = values["label"].to_numpy()
    chance = values["probability"].to_numpy()
    assert chance[label == 1].mean() > chance[label == 0].mean() + 0.3
    without = {name: values for name, values in new.items() if name != "label"}
    answer(
        capsys, "score", target, written(tmp_path, pa.table(without), "n.parquet"), tmp_path / "n"
    )
    same = table_of(tmp_path / "n", "bags").sort_by("bag_id")
    assert same["label"].null_count == len(same)
    assert same["probability"].equals(values.sort_by("bag_id")["probability"])
    del without["CD8"]
    lacking = written(tmp_path, pa.table(without), "l.parquet")
    assert "column CD8: expected the features of the fitted run" in refused(
        capsys, "score", target, lacking, tmp_path / "l"
    )


def test_a_bag_of_one_class_has_probabilities_that_sum_to_one(tmp_path, capsys):
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(90), 3)
    kind = np.arange(90) % 3
    place = np.eye(3)[kind[bag]] * (np.arange(270) % 3 == 0)[:, None] * 4.0
    features = rng.normal(size=(270, 3)) + place
    table = {
        "bag_id": [f"b{i:03d}" for i in bag],
        "labels": np.array(["LUAD", "LUSC", "normal"])[kind[bag]],
        **{f"f{d}": features[:, d] for d in range(3)},
    }
    target = tmp_path / "t"
    options = ("held_out=0.4", "model=gp_probit", "partitions=2")
    found = fitted(capsys, written(tmp_path, pa.table(table)), target, *options)
    test = found["results"]["test"]
    assert test["right"] > test["common"] + 0.2 * test["rows"]
    bags = table_of(target, "bags").to_pylist()
    assert len(bags) == 270
    chance: dict[str, dict[str, float]] = {}
    for row in bags:
        chance.setdefault(row["bag_id"], {})[row["class"]] = row["probability"]
    assert all(abs(sum(own.values()) - 1.0) < 1e-12 for own in chance.values())
    assert all(chance[r["bag_id"]][r["predicted"]] == max(chance[r["bag_id"]].values())
               for r in bags)  # fmt: skip
    right = {r["bag_id"]: r["predicted"] == r["class"] for r in bags
             if r["held_out"] and r["label"] == 1}  # fmt: skip
    assert test["share"]["value"] == pytest.approx(np.mean(list(right.values())))


def test_text_that_varies_within_bags_is_a_feature_of_each_level(tmp_path, capsys):
    """A bag is positive where it has a cell of type T; site is the same in all its rows."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 4)
    label = np.arange(60) % 2
    kind = rng.choice(["B", "NK"], 240).astype(object)
    kind[(label[bag] == 1) & (np.arange(240) % 4 == 0)] = "T"
    kind[[5, 9]] = None
    kind[6] = "rare"
    table = {
        "bag_id": [f"b{i:03d}" for i in bag],
        "label": label[bag],
        "size": rng.normal(size=240),
        "kind": pa.array(kind, pa.string()),
        "site": [f"s{i % 3}" for i in bag],
    }
    target = tmp_path / "t"
    found = fitted(capsys, written(tmp_path, pa.table(table)), target, "model=embedding")
    assert found["results"]["test"]["auroc"]["value"] > 0.95
    said = "\n".join(found["warnings"])
    assert "kind=B (2), kind=NK (2), kind=T (2)" in said
    assert "Levels of kind that are no features (rows): rare (1)." in said
    assert "kind=T" in set(table_of(target, "markers")["feature"].to_pylist())
    kind[6] = "new"
    table["kind"] = pa.array(kind, pa.string())
    new = written(tmp_path, pa.table(table), "new.parquet")
    scored = answer(capsys, "score", target, new, tmp_path / "s")
    assert "Levels of kind that are no features (rows): new (1)." in scored["warnings"]
    before, after = (table_of(one, "bags") for one in (target, tmp_path / "s"))
    np.testing.assert_allclose(after["probability"], before["probability"], rtol=1e-9)


def with_lists(n=50, seed=0):
    """Return rows of bags whose label shifts a list of numbers, with where they are and copies."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), 5)
    label = np.arange(n) % 2
    shift = 2.5 * ((label[bag] == 1) & (np.arange(5 * n) % 5 == 0))
    area = rng.normal(size=5 * n).round(3)
    return {
        "bag_id": [f"b{i:03d}" for i in bag],
        "label": label[bag],
        "tile": np.tile(np.arange(5), n),
        "area": area,
        "embedding": list(rng.normal(size=(5 * n, 4)) + shift[:, None]),
        "x": 256 * rng.integers(100, size=5 * n),
        "y": 256 * rng.integers(100, size=5 * n),
        "copy": area,
        "coords": [[1.0, 2.0]] * 5 * n,
        "Time": np.arange(5 * n) // 2,
        "notes": [["a"]] * 5 * n,
    }


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_lists_and_numbers_are_features_and_places_are_not(form, tmp_path, capsys):
    table = with_lists()
    path, target = tmp_path / f"in.{form}", tmp_path / "t"
    if form == "csv":
        table["embedding"] = [";".join(map(str, one)) for one in table["embedding"]]
        pd.DataFrame(table).to_csv(path, index=False)
    else:
        written(tmp_path, pa.table(table))
    found = fitted(capsys, path, target, "model=embedding", "partitions=2")
    assert found["results"]["test"]["auroc"]["value"] > 0.8
    assert "copy (of area)" in "".join(found["warnings"])
    _, record = open_run(str(target))
    used = {one.name: one.used for one in record.columns}
    assert used == {
        "bag_id": "bag_id", "label": "label: positive is 1", "area": "feature", "copy": "feature",
        "embedding": "feature", "tile": "left out: number of the instance in its bag",
        "x": "left out: coordinate", "y": "left out: coordinate", "notes": used["notes"],
        "Time": "left out: time of the instance in its bag", "coords": used["coords"],
    }  # fmt: skip
    assert used["notes"].startswith("left out")
    assert used["coords"].startswith("left out")
    names = set(table_of(target, "markers")["feature"].to_pylist())
    assert names <= {"area", "copy", *(f"embedding {i + 1}" for i in range(4))}
    assert "strict" in refused(capsys, "bags", path, tmp_path / "s", "--strict")
    answer(capsys, "score", target, path, tmp_path / "n")


def test_features_have_their_own_names_in_any_order(tmp_path, capsys):
    """The second column has the label; it is named first, with a list whose rows differ."""
    table = with_lists()
    table["size"] = np.where(table["label"] == 1, 3.0, 0.0) + table["area"]
    path = written(tmp_path, pa.table(table))
    options = ("--column", "features=size,area,x")
    answer(capsys, "bags", path, tmp_path / "t", "--set", "model=embedding", *options)
    rows = table_of(tmp_path / "t", "markers").to_pylist()
    adds = {name: np.mean([abs(row["adds"]) for row in rows if row["feature"] == name])
            for name in ("size", "area", "x")}  # fmt: skip
    assert max(adds, key=adds.__getitem__) == "size"
    table["embedding"][7] = table["embedding"][7][:2]
    path = written(tmp_path, pa.table(table), "odd.parquet")
    assert "column embedding, row 8" in refused(capsys, "bags", path, tmp_path / "o")


@pytest.mark.parametrize("modality", [{}, {"modality": ["image"] * 300}])
def test_a_picture_shows_instances_by_the_features_that_mark_them(tmp_path, capsys, modality):
    """One instance of each positive bag has a large ``a`` and ``b``; both partitions are in it."""
    rng = np.random.default_rng(2)
    bag = np.repeat(np.arange(60), 5)
    features = rng.standard_normal((300, 3))
    features[::5, :2] += 4.0 * (np.arange(60) % 2)[:, None]
    table = {"bag_id": [f"b{i:02d}" for i in bag], "label": bag % 2, **modality}
    table |= dict(zip(("c", "a", "b"), features.T[[2, 0, 1]], strict=True))
    path, target = written(tmp_path, pa.table(table)), tmp_path / "t"
    fitted(capsys, path, target, "partitions=2")
    page = page_of(target)
    assert "Instances by what marks them most" in page
    shown = re.findall(r'"tip": ?"(b\d\d, \d): ([-\d.]+), ([-\d.]+)"', page)
    assert {name[:3] for name, *_ in shown} > {f"b{i:02d}" for i in range(1, 60, 2)}
    for name, *place in shown:
        number, instance = int(name[1:3]), int(name[5:])
        row = 5 * number + instance - 1
        assert sorted(map(float, place)) == pytest.approx(sorted(features[row, :2]), rel=1e-3)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["bag_id", "label", "f0"])
def test_a_name_that_two_columns_have_is_a_fault(first, name, tmp_path, capsys):
    """In the first file or in a later one, by which settings are not completed."""
    table = {"bag_id": ["a", "b"] * 4, "label": [0, 1] * 4, "f0": [0.5, 1.5] * 4}
    columns = [pa.array(values) for values in (*table.values(), table[name])]
    source = tmp_path / "in"
    source.mkdir()
    written(source, pa.table(columns, names=[*table, name]), f"{2 - first}.parquet")
    written(source, pa.table(table), f"{1 + first}.parquet")
    said = refused(capsys, "bags", source, tmp_path / "out")
    assert f"column {name}: expected a name used once, found it twice; rename one" in said


@pytest.mark.parametrize("files", [2, 5])
def test_bags_in_several_files_are_counted(files, tmp_path, capsys):
    """Also over partitions; files of other modalities, or of labels alone, are no second rows."""
    parts = [instances(30, seed) for seed in range(files)]
    parts[1] = instances(40, 1)
    for i, one in enumerate(parts):
        written(tmp_path, one.drop_columns("instance_id"), f"{i}.parquet")
    labels = parts[0].select(["bag_id", "label"])
    written(tmp_path, labels.append_column("features", pa.nulls(90)), "labels.parquet")
    options = ("--set", "partitions=3", "--set", "model=embedding")
    said = answer(capsys, "check", "bags", tmp_path, *options)["warnings"]
    assert "30 of 40 bags have rows in several files and are one bag each" in "".join(said)
    (tmp_path / "kinds").mkdir()
    for i in range(2):
        one = parts[0].append_column("modality", [[f"m{i}"] * 90])
        written(tmp_path / "kinds", one, f"{i}.parquet")
    said = answer(capsys, "check", "bags", tmp_path / "kinds", *options)["warnings"]
    assert "have rows in" not in "".join(said)


@pytest.mark.parametrize(("name", "advised"), [("case_id", False), ("BagID", True), ("bags", True)])
def test_a_column_of_other_ids_is_not_advised_as_that_of_bags(name, advised, tmp_path, capsys):
    path = written(tmp_path, pa.table({name: ["a", "b"], "label": [0, 1], "f": [0.5, 1.5]}))
    assert (f"bag_id={name}" in refused(capsys, "bags", path, tmp_path / "t")) is advised
