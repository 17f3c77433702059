"""The probit Gaussian process in the bags pipeline: forms, several classes, the recipe."""

import json

import numpy as np
import pyarrow as pa
import pytest

from flows.data import storage
from flows.data.runs import open_run
from tests.flows.bags.bag_files import PLAIN, instances, run, table_of, written

# The probit Gaussian process.


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("kernel=linear+rbf", "n_inducing=7"),
        ("inference=gibbs", "chains=2", "warmup=10", "draws=20"),
        ("model=gp_logistic",),
    ],
    ids=["direct", "sum", "gibbs", "logistic"],
)
def test_every_form_of_the_gaussian_process_runs(tmp_path, capsys, options):
    path = written(tmp_path, instances(60, primary=pa.array(np.tile([True, False, True], 60))))
    settings = [p for o in ("model=gp_probit", "held_out=0.3", *options) for p in ("--set", o)]
    target = tmp_path / "t"
    code, out, _ = run(capsys, "bags", path, target, "--partitions", "3", *settings, *PLAIN)
    assert code == 0
    assert json.loads(out)["results"]["auroc"] > 0.6
    bags, found = table_of(target, "bags"), table_of(target, "instances")
    logistic = "model=gp_logistic" in options
    for column in (bags["bald"], found["bald"]):
        assert column.null_count == (len(column) if logistic else 0)
    assert np.all(np.isfinite(found["score"].to_numpy()))
    assert bags["probability"].to_numpy().min() > 0


def test_the_gaussian_process_scores_new_bags_as_in_the_fit(tmp_path, capsys):
    path = written(tmp_path, instances(50))
    place = tmp_path / "t"
    assert run(capsys, "bags", path, place, "--set", "model=gp_probit", *PLAIN)[0] == 0
    _, record = open_run(str(place))
    fitted_run = tmp_path / "t" / "runs" / record.run_id
    assert run(capsys, "score", fitted_run, path, tmp_path / "s", *PLAIN)[0] == 0
    for name in ("bags", "instances"):
        one, two = (table_of(t, name)["probability"].to_numpy() for t in (place, tmp_path / "s"))
        np.testing.assert_allclose(np.sort(one), np.sort(two), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("model=gp_probit", "inference=mean_field"), "direct or gibbs"),
        (("model=vmmic", "inference=direct"), "collapsed or mean_field or gibbs"),
    ],
)
def test_models_refuse_what_they_do_not_have(tmp_path, capsys, options, said):
    path = written(tmp_path, instances())
    settings = [p for o in options for p in ("--set", o)]
    code, _, err = run(capsys, "bags", path, tmp_path / "t", *settings, *PLAIN)
    assert code == 2
    assert said in err


def test_the_gaussian_process_refuses_two_modalities(tmp_path, capsys):
    kinds = pa.array(["image", "text", "text"] * 40)
    path = written(tmp_path, instances(modality=kinds))
    code, _, err = run(capsys, "bags", path, tmp_path / "t", "--set", "model=gp_probit", *PLAIN)
    assert code == 2
    assert "instances of one modality" in err


def multi_label(n=60, **columns):
    """Bags whose instances carry class x (first feature high), y (second), or none."""
    rng = np.random.default_rng(3)
    bag = np.repeat(np.arange(n), 4)
    features = rng.normal(size=(4 * n, 2))
    own = rng.integers(0, 6, 4 * n)
    features[own == 0, 0] += 4
    features[own == 1, 1] += 4
    lists = [[name for k, name in enumerate("xy") if (own[bag == b] == k).any()] for b in range(n)]
    table = {
        "bag_id": [f"b{i:03d}" for i in bag],
        "labels": pa.array([lists[b] for b in bag], pa.list_(pa.string())),
        "features": features.tolist(),
        "own": own,
    }
    return pa.table({**table, **columns})


def test_bags_of_several_classes_are_one_problem_a_class(tmp_path, capsys):
    table = multi_label()
    path = written(tmp_path, table.drop_columns("own"))
    options = ("--partitions", "3", "--set", "model=gp_probit", "--set", "held_out=0.2", *PLAIN)
    code, out, err = run(capsys, "bags", path, tmp_path / "t", *options)
    assert (code, err) == (0, err)
    assert json.loads(out)["results"]["auroc"] > 0.8
    found = table_of(tmp_path / "t", "instances")
    for k, name in enumerate("xy"):
        of_class = found.filter(np.array(found["class"].to_pylist()) == name).sort_by(
            [("bag_id", "ascending"), ("instance_id", "ascending")]
        )
        score, true = of_class["score"].to_numpy(), table["own"].to_numpy() == k
        assert score[true].mean() > score[~true].mean() + 1
    bags = table_of(tmp_path / "t", "bags")
    assert bags.num_rows == 120
    assert set(bags["class"].to_pylist()) == {"x", "y"}
    given = {(r["bag_id"], r["class"]): r["label"] for r in bags.to_pylist()}
    for bag, classes in zip(table["bag_id"].to_pylist(), table["labels"].to_pylist(), strict=True):
        assert [given[bag, name] for name in "xy"] == [int(name in classes) for name in "xy"]


def test_several_classes_score_new_bags(tmp_path, capsys):
    path = written(tmp_path, multi_label().drop_columns("own"))
    place = tmp_path / "t"
    assert run(capsys, "bags", path, place, "--set", "model=gp_probit", *PLAIN)[0] == 0
    _, record = open_run(str(place))
    new = written(tmp_path, multi_label().drop_columns(["own", "labels"]).append_column(
        "label", pa.nulls(240, pa.int8())), "new.parquet")  # fmt: skip
    fitted_run = place / "runs" / record.run_id
    assert run(capsys, "score", fitted_run, new, tmp_path / "s", *PLAIN)[0] == 0
    one, two = (
        table_of(t, "bags").sort_by([("bag_id", "ascending"), ("class", "ascending")])
        for t in (place, tmp_path / "s")
    )
    np.testing.assert_allclose(
        one["probability"].to_numpy(), two["probability"].to_numpy(), rtol=1e-9
    )
    assert two["label"].null_count == 120


def test_wrong_lists_of_classes_are_refused(tmp_path, capsys):
    table = multi_label().drop_columns("own")
    path = written(tmp_path, table)
    code, _, err = run(capsys, "bags", path, tmp_path / "t", *PLAIN)
    assert code == 2
    assert "take model=gp_probit" in err
    lists = table["labels"].to_pylist()
    lists[2] = ["z"]
    wrong = table.set_column(1, "labels", pa.array(lists, pa.list_(pa.string())))
    path = written(tmp_path, wrong, "wrong.parquet")
    code, _, err = run(capsys, "bags", path, tmp_path / "t", "--set", "model=gp_probit", *PLAIN)
    assert code == 2
    assert "others for bag 'b000'" in err
    assert "row 3" in err


def test_a_class_that_no_bag_lacks_is_warned_of(tmp_path, capsys):
    table = multi_label().drop_columns("own")
    lists = [[*classes, "always"] for classes in table["labels"].to_pylist()]
    table = table.set_column(1, "labels", pa.array(lists, pa.list_(pa.string())))
    path = written(tmp_path, table)
    code, _, _ = run(capsys, "bags", path, tmp_path / "t", "--set", "model=gp_probit", *PLAIN)
    assert code == 0
    _, record = open_run(str(tmp_path / "t"))
    assert any("Class always has 60 positive and 0 negative" in w for w in record.warnings)


def masked(bits=(3, 7), kind=None):
    """The same bags with a mask in place of lists: x is class 3, y class 7."""
    table = multi_label().drop_columns("own")
    masks = [sum(1 << bits["xy".index(c)] for c in cs) for cs in table["labels"].to_pylist()]
    column = pa.array(masks, kind or pa.int32())
    return table.drop_columns("labels").append_column("bag_label_mask", column)


def test_a_mask_says_what_lists_say(tmp_path, capsys):
    found = []
    for name, table in (("lists", multi_label().drop_columns("own")), ("mask", masked())):
        path = written(tmp_path, table, f"{name}.parquet")
        options = ("--partitions", "2", "--set", "model=gp_probit", *PLAIN)
        assert run(capsys, "bags", path, tmp_path / name, *options)[0] == 0
        found.append(table_of(tmp_path / name, "bags"))
    lists, mask = found
    assert set(mask["class"].to_pylist()) == {"03", "07"}
    assert mask["label"].equals(lists["label"])
    np.testing.assert_array_equal(mask["probability"], lists["probability"])


def test_masks_that_are_wrong_are_refused(tmp_path, capsys):
    table = masked()
    numbers = table["bag_label_mask"].to_pylist()
    negative = pa.array([-1, *numbers[1:]], pa.int32())
    other = pa.array([numbers[0] ^ 8, *numbers[1:]], pa.int32())
    place = table.column_names.index("bag_label_mask")
    lists = multi_label()["labels"]
    for wrong, said in (
        (table.set_column(place, "bag_label_mask", negative), "row 1: expected a mask of bits 0"),
        (table.set_column(place, "bag_label_mask", other), "column bag_label_mask, row 2"),
        (table.append_column("labels", lists), "found labels and bag_label_mask"),
    ):
        path = written(tmp_path, wrong)
        code, _, err = run(capsys, "bags", path, tmp_path / "t", "--set", "model=gp_probit", *PLAIN)
        assert code == 2
        assert said in err
    path = written(tmp_path, table)
    code, _, err = run(capsys, "bags", path, tmp_path / "t", *PLAIN)
    assert code == 2
    assert "take model=gp_probit" in err


def test_bags_without_a_mask_are_scored_only(tmp_path, capsys):
    table = masked()
    numbers = table["bag_label_mask"].to_pylist()
    place = table.column_names.index("bag_label_mask")
    some = pa.array([None if i < 16 else m for i, m in enumerate(numbers)], pa.int64())
    path = written(tmp_path, table.set_column(place, "bag_label_mask", some))
    options = ("--set", "model=gp_probit", *PLAIN)
    assert run(capsys, "bags", path, tmp_path / "t", *options)[0] == 0
    bags = table_of(tmp_path / "t", "bags")
    assert bags["label"].null_count == 8
    assert bags["probability"].null_count == 0


def test_birdsong_is_read_as_it_is(tmp_path, capsys, shared_data):
    source = shared_data / "bags" / "birdsong.parquet"
    code, out, err = run(capsys, "check", "bags", source, "--set", "model=gp_probit")
    assert (code, err) == (0, err)
    assert "4,998" in out or "4998" in out


@pytest.mark.slow
def test_several_classes_on_1_and_3_partitions_and_new_data(tmp_path, capsys):
    path = written(tmp_path, multi_label().drop_columns("own"))
    wanted = ("held_out=0.2", "kernel=linear+rbf", "show_bags=[b003]")
    settings = [p for o in ("model=gp_probit", *wanted) for p in ("--set", o)]
    found = []
    for count in ("1", "3"):
        target = tmp_path / count
        options = ("--partitions", count, *settings, *PLAIN)
        code, out, err = run(capsys, "bags", path, target, *options)
        assert (code, err) == (0, err)
        assert json.loads(out)["results"]["auroc"] > 0.7
        keys = [("bag_id", "ascending"), ("class", "ascending")]
        found.append(table_of(target, "bags").sort_by(keys)["probability"].to_numpy())
    np.testing.assert_allclose(*found, atol=2e-3)
    place, record = open_run(str(tmp_path / "3"))
    page = storage.read_bytes(place.file("report.html")).decode()
    assert "Labels worth asking for" in page
    assert "What makes an instance positive, class y" in page
    assert "Bags that were asked for" in page
    assert "b003, class y: P(positive)" in page
    assert "BALD of the instance" in page
    fitted_run = tmp_path / "3" / "runs" / record.run_id
    assert run(capsys, "score", fitted_run, path, tmp_path / "s", *PLAIN)[0] == 0
    new = table_of(tmp_path / "s", "bags").sort_by(keys)["probability"].to_numpy()
    np.testing.assert_allclose(new, found[1], rtol=1e-9)


@pytest.mark.parametrize("model", ["gp_probit", "gp_probit leak=false", "gp_logistic", "vmmic"])
def test_an_empty_bag_with_the_label_1_is_warned_of(tmp_path, capsys, model):
    """Without a leak nothing in it can be positive: its probability is 0 whatever is learned."""
    model, *more = model.split()
    empty = pa.table(
        {
            "bag_id": ["e1", "e2", "e3"],
            "instance_id": pa.array([None] * 3, pa.string()),
            "label": pa.array([1, 1, 0], pa.int8()),
            "features": pa.array([None] * 3, pa.list_(pa.float64())),
        }
    )
    path = written(tmp_path, pa.concat_tables([instances(30), empty]))
    target = tmp_path / "t"
    code, out, err = run(
        capsys, "bags", path, target, "--set", f"model={model}", "--partitions", "2",
        *(part for one in more for part in ("--set", one)), *PLAIN,
    )  # fmt: skip
    assert code == 0, err
    told = [w for w in json.loads(out)["warnings"] if "have no instance" in w]
    found = table_of(target, "bags")
    of = dict(zip(found["bag_id"].to_pylist(), found["probability"].to_pylist(), strict=True))
    (dropped,) = open_run(str(target))[1].dropped
    assert dropped.count == 3
    if model == "vmmic":
        assert not told
        assert of["e1"] > 0
        assert "intercept" in dropped.reason
    elif model == "gp_probit" and not more:
        assert not told
        assert 0 < of["e1"] == of["e2"] == of["e3"] < 0.2
        assert "leak" in dropped.reason
    else:
        assert told[0].startswith("2 bags with the label 1 have no instance: model " + model)
        assert of["e1"] == of["e2"] == of["e3"] == 0.0
        assert "its probability is 0" in dropped.reason
