"""The probit Gaussian process in the bags pipeline: forms, several classes, the recipe."""

import numpy as np
import pyarrow as pa
import pytest

from flows.records.runs import open_run
from tests.flows.bags.bag_files import fitted, instances, table_of, written
from tests.flows.commands import succeed

GP = "model=gp_probit"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("kernel=linear+rbf", "n_inducing=7"),
        ("inference=gibbs", "chains=2", "warmup=10", "draws=20"),
    ],
    ids=["direct", "sum", "gibbs"],
)
def test_every_form_of_the_gaussian_process_runs(tmp_path, capsys, options):
    path = written(tmp_path, instances(60, primary=pa.array(np.tile([True, False, True], 60))))
    target = tmp_path / "t"
    found = fitted(capsys, path, target, GP, "held_out=0.3", "partitions=3", *options)
    assert found["results"]["test"]["auroc"]["value"] > 0.6
    bags, found = table_of(target, "bags"), table_of(target, "instances")
    assert np.all(np.isfinite(found["score"].to_numpy()))
    assert bags["probability"].to_numpy().min() > 0


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


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A fit of bags of two classes, on three partitions."""
    folder = tmp_path_factory.mktemp("classes")
    table = multi_label()
    written(folder, table.drop_columns("own"))
    options = (GP, "held_out=0.2", "show_bags=[b003]")
    settings = [p for o in options for p in ("--set", o)]
    succeed("bags", folder / "in.parquet", folder / "t", "--partitions", 3, *settings)
    return folder, table


def by_bag_and_class(target, name="bags"):
    return table_of(target, name).sort_by([("bag_id", "ascending"), ("class", "ascending")])


@pytest.mark.thorough
def test_bags_of_several_classes_are_one_problem_a_class(classes):
    folder, table = classes
    _, record = open_run(str(folder / "t"))
    assert record.results["test"]["auroc"]["value"] > 0.8
    assert [one["name"] for one in record.results["classes"]] == ["x", "y"]
    assert min(one["auroc"] for one in record.results["classes"]) > 0.8
    shown = record.results["bags"]["requested"]
    assert [(one["name"], one["of_class"]) for one in shown] == [("b003", "x"), ("b003", "y")]
    found = table_of(folder / "t", "instances")
    for k, name in enumerate("xy"):
        of_class = found.filter(np.array(found["class"].to_pylist()) == name).sort_by(
            [("bag_id", "ascending"), ("instance_id", "ascending")]
        )
        score, true = of_class["score"].to_numpy(), table["own"].to_numpy() == k
        assert score[true].mean() > score[~true].mean() + 1
    bags = table_of(folder / "t", "bags")
    assert bags.num_rows == 120
    given = {(r["bag_id"], r["class"]): r["label"] for r in bags.to_pylist()}
    for bag, of_bag in zip(table["bag_id"].to_pylist(), table["labels"].to_pylist(), strict=True):
        assert [given[bag, name] for name in "xy"] == [int(name in of_bag) for name in "xy"]


@pytest.mark.thorough
def test_several_classes_score_new_bags_and_do_not_depend_on_partitions(classes, tmp_path, capsys):
    folder, table = classes
    new = table.drop_columns(["own", "labels"]).append_column("label", pa.nulls(240, pa.int8()))
    succeed("score", folder / "t", written(tmp_path, new), tmp_path / "s")
    fitted(capsys, folder / "in.parquet", tmp_path / "one", GP, "held_out=0.2", "partitions=1")
    fit, score, one = map(by_bag_and_class, (folder / "t", tmp_path / "s", tmp_path / "one"))
    p = fit["probability"].to_numpy()
    np.testing.assert_allclose(score["probability"].to_numpy(), p, rtol=1e-9)
    np.testing.assert_allclose(one["probability"].to_numpy(), p, atol=2e-3)
    assert score["label"].null_count == 120


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["gp_probit", "gp_probit leak=false", "vmmic"])
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
    warnings = fitted(capsys, path, target, f"model={model}", "partitions=2", *more)["warnings"]
    said = [w for w in warnings if "without instances: this model gives them" in w]
    found = table_of(target, "bags")
    of = dict(zip(found["bag_id"].to_pylist(), found["probability"].to_pylist(), strict=True))
    (dropped,) = open_run(str(target))[1].dropped
    assert dropped.count == 3
    if model == "vmmic":
        assert not said
        assert of["e1"] > 0
        assert "intercept" in dropped.reason
    elif model == "gp_probit" and not more:
        assert not said
        assert 0 < of["e1"] == of["e2"] == of["e3"] < 0.2
        assert "leak" in dropped.reason
    else:
        assert said[0].startswith("2 positive bags without instances")
        assert of["e1"] == of["e2"] == of["e3"] == 0.0
        assert "its probability is 0" in dropped.reason
