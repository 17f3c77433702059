"""Bags of one patient, and copies of a bag: left out together wherever bags are left out."""

import datetime
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flows.bags.input.form import BagForm
from flows.bags.scored import feature_sums
from flows.records.runs import open_run
from tests.flows.bags.bag_files import PLAIN, fitted, instances, table_of, written
from tests.flows.commands import answer, printed, run
from vbmodels.bags.bags import Instances, bags


def patients(seed=0, patients=40, slides=5):
    """Slides of patients: those of a patient are alike, and labels are drawn by patient."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.arange(patients) % 2)
    patient = np.repeat(np.arange(patients), slides * 6)
    slide = np.repeat(np.arange(patients * slides), 6)
    centre = rng.normal(size=(patients, 4))[patient]
    own = 0.3 * rng.normal(size=(patients * slides, 4))[slide]
    features = centre + own + rng.normal(size=(len(slide), 4))
    columns = {f"f{d}": features[:, d] for d in range(4)}
    return pa.table(
        {
            "bag_id": [f"s{i}" for i in slide],
            "patient": [f"p{i}" for i in patient],
            "label": pa.array(label[patient].astype(np.int8)),
            **columns,
        }
    )


def copied():
    """Bags of which the last five are copies of the first."""
    table = instances(40)
    first = table.slice(0, 15)
    names = pa.array([f"copy of {name}" for name in first["bag_id"].to_pylist()])
    return pa.concat_tables([table, first.set_column(0, "bag_id", names)])


@pytest.mark.parametrize("held_out", [pytest.param("0.3", marks=pytest.mark.thorough), "0"])
def test_labels_without_signal_have_an_auroc_of_a_half(tmp_path, capsys, held_out):
    table = patients()
    path = written(tmp_path, table.rename_columns(["bag_id", "group", *table.column_names[2:]]))
    found = fitted(capsys, path, tmp_path / "t", f"held_out={held_out}", "partitions=3")
    test = found["results"]["test"]
    assert test["auroc"]["low"] < 0.5 < test["auroc"]["high"]
    assert not test["better"]
    assert test["groups"] < test["rows"]
    assert test["gain"]["low"] <= 0.0


def test_bags_that_differ_in_their_size_alone_are_said_to(tmp_path, capsys):
    """What the caveat advises, as many instances of each bag, takes the gain away."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), np.where(np.arange(60) % 2, 9, 5) + rng.integers(3, size=60))
    features = {f"f{d}": rng.normal(size=bag.size) for d in range(3)}
    table = pa.table({"bag_id": bag, "label": bag % 2} | features)
    path, target = written(tmp_path, table), tmp_path / "t"
    found = fitted(capsys, path, target, "model=embedding")
    assert found["results"]["test"]["auroc"]["value"] > 0.9
    assert "The number of instances alone gives 1" in printed(capsys, "show", target)
    place = np.arange(bag.size) - np.searchsorted(bag, bag)
    path = written(tmp_path, table.filter(pa.array(place < 5)))
    found = fitted(capsys, path, tmp_path / "u", "model=embedding")
    assert not found["results"]["test"]["better"]
    assert "number of instances alone" not in {
        r["name"] for r in found["results"]["test"]["rivals"]
    }


NAMES = {
    "barcode": lambda bag, of: f"TCGA-{'ABCD'[of % 4]}{of % 7}-A{of:03d}-01Z-00-DX{bag % 5}",
    "visit": lambda bag, of: f"P{of:02d}_t{bag % 5}",
    "no sign": lambda bag, of: f"P{of:02d}t{bag % 5}",
    "column": lambda bag, of: f"s{bag}",
    "numbers": lambda bag, of: f"s{bag}",
}


NIGHTLY = ("visit", "no sign", "column")


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.thorough] if k in NIGHTLY else []) for k in NAMES],
)
def test_bags_that_share_a_label_are_held_out_together(kind, tmp_path, capsys):
    """Labels are drawn by patient; without groups the AUROC is .8."""
    table = patients()
    patient = np.repeat(np.arange(40), 30)
    bag = np.repeat(np.arange(200), 6)
    names = pa.array([NAMES[kind](b, of) for b, of in zip(bag, patient, strict=True)])
    table = table.drop_columns("patient").set_column(0, "bag_id", names)
    if kind == "column":
        table = table.append_column("lot", pa.array([f"p{i}" for i in patient]))
    if kind == "numbers":
        table = table.append_column("patient", pa.array(1000 + patient))
    path = written(tmp_path, table)
    found = fitted(capsys, path, tmp_path / "t", "model=embedding", "partitions=3")
    test = found["results"]["test"]
    assert test["auroc"]["low"] < 0.5 < test["auroc"]["high"]
    assert not test["better"]
    assert np.unique(table_of(tmp_path / "t", "bags")["group"]).size == 40
    assert "200 bags are 40 groups" in "".join(found["warnings"])
    assert len(table_of(tmp_path / "t", "markers").filter(pc.field("feature") == "patient")) == 0
    if kind == "visit":
        alone = fitted(capsys, path, tmp_path / "a", "model=embedding", "group_parts=0")
        assert alone["results"]["test"]["auroc"]["value"] > 0.75
    if kind == "numbers":
        new = written(tmp_path, table.drop_columns(["patient", "label"]), "new.parquet")
        answer(capsys, "score", tmp_path / "t", new, tmp_path / "s")


@pytest.mark.parametrize("partitions", [1, 4])
def test_copies_are_held_out_together(tmp_path, capsys, partitions):
    path, target = written(tmp_path, copied()), tmp_path / "t"
    found = fitted(
        capsys, path, target, "held_out=0.4", "model=embedding", f"partitions={partitions}"
    )
    (said,) = [text for text in found["warnings"] if "bags are exact copies" in text]
    assert "30 of 135 instances, in 10 bags, are exact copies of others." in found["warnings"]
    assert said.startswith("10 bags are exact copies of one another (b0 and copy of b0, say)")
    bags = table_of(target, "bags")
    held = dict(zip(bags["bag_id"].to_pylist(), bags["held_out"].to_pylist(), strict=True))
    assert {held[f"b{i}"] for i in range(5)} == {True, False}
    assert all(held[f"b{i}"] == held[f"copy of b{i}"] for i in range(5))


def test_fitted_bags_are_no_headline(tmp_path, capsys):
    """A model that predicts no bag without itself says how to test it; the stack does predict."""
    path = written(tmp_path, instances(40))
    found = fitted(capsys, path, tmp_path / "t", "model=gp_probit")
    assert found["results"]["test"] is None
    found = fitted(capsys, path, tmp_path / "t", "model=embedding")
    bags = table_of(tmp_path / "t", "bags")
    p, without = bags["probability"].to_numpy(), bags["without_it"].to_numpy()
    right, test = (without > 0.5) == bags["label"].to_numpy(), found["results"]["test"]
    assert (test["rows"], test["right"]) == (40, right.sum())
    for band, some in zip(
        test["bands"],
        (without <= 0.2, (without > 0.2) & (without < 0.8), without >= 0.8),
        strict=True,
    ):
        assert (band["rows"], band["wrong"]) == (some.sum(), (~right[some]).sum())
    seen = np.where(bags["label"].to_numpy() == 1, p - without, without - p)
    assert seen.mean() > 0.0


@pytest.mark.parametrize(("count", "held"), [(480, False), (520, True)])
def test_a_fifth_is_held_out_of_many_bags(tmp_path, capsys, count, held):
    path = written(tmp_path, instances(count))
    code, out, _ = run(capsys, "check", "bags", path, "--set", "model=embedding", *PLAIN)
    assert code == 0
    said = [text for text in json.loads(out)["warnings"] if "held out of the fit" in text]
    assert bool(said) is held


def test_features_and_labels_have_the_users_names(tmp_path, capsys):
    table = patients()
    word = pa.array(["yes it is" if label else "other" for label in table["label"].to_pylist()])
    names = ["bag_id", "group", "label", "CD3", "CD8", "area", "PDL1"]
    path = written(tmp_path, table.set_column(2, "label", word).rename_columns(names))
    fitted(capsys, path, tmp_path / "t", "model=embedding", "positive=yes it is", "max_iter=3000")
    found = open_run(str(tmp_path / "t"))[1].results
    assert (found["names"]["positive"], found["names"]["negative"]) == ("yes it is", "other")
    assert {one["feature"] for one in found["fit"]["pools"]} == {"CD3", "CD8", "area", "PDL1"}
    bags = table_of(tmp_path / "t", "bags").to_pandas()
    assert (bags.label_given == np.where(bags.label == 1, "yes it is", "other")).all()


def test_a_bag_has_one_group_and_one_group_of_all_bags_is_said(tmp_path, capsys):
    table = instances(40)
    several = table.append_column("group", [[f"g{i % 2}" for i in range(len(table))]])
    code, out, _ = run(capsys, "check", "bags", written(tmp_path, several), *PLAIN)
    assert code == 2
    assert "one group for bag" in json.loads(out)["error"]
    (tmp_path / "one").mkdir()
    one = table.append_column("group", [["all"] * len(table)])
    found = fitted(capsys, written(tmp_path / "one", one), tmp_path / "t", "held_out=0")
    assert any(text.startswith("All bags are of one group") for text in found["warnings"])
    assert found["results"]["test"] is None


def test_the_page_has_one_probability_of_each_bag(tmp_path, capsys):
    """Fitted bags are counted and shown by what is predicted of them without their own label."""
    path = written(tmp_path, instances(40))
    found = fitted(capsys, path, tmp_path / "t", "model=embedding")
    bags = table_of(tmp_path / "t", "bags").to_pandas().set_index("bag_id")
    assert (bags.probability != bags.without_it).all()
    for one in found["results"]["bags"]["most"]:
        assert one["predicted"] == bags.without_it[one["name"]]
    assert sum(map(sum, found["results"]["spread"])) == 40


def test_constant_features_are_left_out_of_the_columns(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = instances(30).drop_columns("features")
    for name, values in {"f0": rng.normal(size=90), "f1": np.ones(90), "f2": np.zeros(90)}.items():
        table = table.append_column(name, pa.array(values))
    table = table.append_column("f3", table["f0"])
    found = fitted(capsys, written(tmp_path, table), tmp_path / "t", "model=embedding")
    assert "2 of 4 features constant, so not used: f1, f2." in found["notes"]
    assert not any("constant" in text for text in found["warnings"])
    _, record = open_run(str(tmp_path / "t"))
    used = {one.name: one.used for one in record.columns}
    assert used["f0"] == "feature"
    assert used["f1"] == "left out: constant"


def test_bags_on_the_other_side_than_their_label_are_counted_named_and_listed(tmp_path, capsys):
    """A wrong label is found: the bag is predicted without it, and clearly so."""
    table = instances(60)
    label = np.array(table["label"].to_pylist(), np.int8)
    wrong = np.array([name in ("b7", "b8") for name in table["bag_id"].to_pylist()])
    features = np.random.default_rng(0).normal(size=(180, 2)) + 3.0 * label[:, None]
    table = instances(60, features=features.tolist(), label=np.where(wrong, 1 - label, label))
    fitted(capsys, written(tmp_path, table), tmp_path / "t", "model=embedding")
    bags = table_of(tmp_path / "t", "bags").to_pandas().set_index("bag_id")
    apart = (bags.without_it > 0.5) != (bags.label == 1)
    up, down = (int((apart & (bags.label == y)).sum()) for y in (1, 0))
    _, record = open_run(str(tmp_path / "t"))
    test, labels = record.results["test"], record.results["labels"]
    assert (test["missed"], test["called"]) == (up, down)
    p = bags.without_it
    clear = (p <= 0.2) | (p >= 0.8)
    assert (labels["clear"], labels["otherwise"]) == (clear.sum(), (apart & clear).sum())
    assert labels["expected"] == pytest.approx(np.minimum(p, 1 - p)[clear].sum())
    assert {"b7", "b8"} <= {one["name"] for one in record.results["bags"]["otherwise"]}


def test_features_are_summed_by_modality_over_primary_instances_and_the_others():
    kinds = {"image": np.array([[1.0, 2.0], [3.0, 4.0]]), "text": np.array([[9.0], [5.0]])}
    data = bags(
        [Instances(rows, np.array([0, 1, 2]), np.empty(0, np.int8)) for rows in kinds.values()],
        np.array([1, 0], np.int8),
    )
    table = pa.table({
        "modality": ["image", "text", "image", "text"], "probability": [0.9, 0.1, 0.2, 0.7],
    })  # fmt: skip
    sums = feature_sums(table, data, BagForm(modalities=[*kinds], widths=[2, 1], own=0))
    assert sums is not None
    assert sums["image"].tolist() == [[1.0, 2.0, 1.0], [3.0, 4.0, 1.0]]
    assert sums["text"].tolist() == [[5.0, 1.0], [9.0, 1.0]]


def with_column(values):
    return patients().drop_columns("patient").append_column("c", pa.array(values))


@pytest.mark.parametrize("kind", ["subtype", "measurement", "mixed"])
def test_columns_that_are_no_groups_stay_what_they_are(kind, tmp_path, capsys):
    """Few values; numbers that rise with the label; values whose bags differ in label."""
    table = patients()
    label = np.array(table["label"].to_pylist())
    bag = np.repeat(np.arange(200), 6)
    values = {
        "subtype": [f"{'ab'[y]}{b % 3}" for y, b in zip(label, bag, strict=True)],
        "measurement": 20 * label + bag % 20,
        "mixed": [f"site {b % 12}" for b in bag],
    }[kind]
    path = written(tmp_path, with_column(values))
    code, out, _ = run(capsys, "check", "bags", path, "--set", "model=embedding", *PLAIN)
    assert code == 0
    assert "groups by" not in out


def test_a_column_called_group_is_said_to_group_bags(tmp_path, capsys):
    """It is used unnamed; and no setting that cannot turn it off is advised."""
    table = patients()
    names = ["group" if name == "patient" else name for name in table.column_names]
    path = written(tmp_path, table.rename_columns(names))
    code, out, _ = run(capsys, "check", "bags", path, "--set", "model=embedding", *PLAIN)
    assert code == 0
    assert "200 bags are 40 groups by column group, held out together." in out


def in_time():
    """Sixty bags in groups of five, in reversed order of time; one has no date."""
    random = np.random.default_rng(1)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=7 * (60 - b)) for b in range(60)]
    bag = np.repeat(np.arange(60), 3)
    return pa.table(
        {
            "bag_id": [f"x{b:02d}" for b in bag],
            "label": pa.array(bag % 2),
            "group": [f"p{b // 5}" for b in bag],
            "seen": [f"{days[b]:%d.%m.%Y}" if b != 30 else "" for b in bag],
            "changed": [f"2020-01-{1 + i % 28:02d}" for i in range(180)],
            "ward": [f"ward {b % 3}" for b in bag],
            "f1": random.normal(size=180),
        }
    )


@pytest.mark.parametrize(
    ("by", "bags", "said"),
    [
        ("last", range(45, 60), "The last 12 bags by last are held out."),
        ("seen", range(15), "The last 12 bags by seen are held out; 1 without it are fitted."),
    ],
)
def test_the_last_bags_are_held_out_with_their_groups(by, bags, said, tmp_path, capsys):
    path = written(tmp_path, in_time())
    for partitions in (1, 3):
        target = tmp_path / f"t{partitions}"
        options = (f"held_out={by}", "model=embedding", f"partitions={partitions}", "missing=50")
        found = fitted(capsys, path, target, *options)
        table = table_of(target, "bags")
        held = table["bag_id"].filter(table["held_out"]).to_pylist()
        assert sorted(held) == [f"x{b:02d}" for b in bags]
        assert found["results"]["test"]["rows"] == 15
        assert said in found["warnings"]
    new = written(tmp_path, in_time().drop_columns(["seen", "label"]), "new.parquet")
    answer(capsys, "score", target, new, tmp_path / "scored")


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("ward", "last, or a column of dates or numbers that differ"),
        ("gone", "no column gone for held_out"),
        ("changed", "one held_out for bag x00"),
        ("1.5", "held_out"),
    ],
)
def test_what_does_not_order_bags_holds_none_out(by, said, tmp_path, capsys):
    path = written(tmp_path, in_time())
    code, _, err = run(capsys, "check", "bags", path, "--set", f"held_out={by}")
    assert code == 2
    assert said in err
