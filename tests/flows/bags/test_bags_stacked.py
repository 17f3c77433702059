"""The models auto and embedding in the bags pipeline."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.records.runs import open_run
from tests.flows.bags.bag_files import fitted, instances, table_of, written
from tests.flows.commands import answer, run, succeed
from vbmodels.core.state import State, from_bytes

MODELS = ("auto", "embedding")


def posterior(target):
    place, _ = open_run(str(target))
    return from_bytes(storage.read_bytes(storage.join(place.root, "posterior", "q.npz")), State)


def report(target):
    place, _ = open_run(str(target))
    return storage.read_bytes(storage.join(place.root, "report.html")).decode()


def with_empty_bags(n=60):
    """Bags of three instances, and three without any."""
    table = instances(n)
    rows = zip(table["bag_id"].to_pylist(), table["features"].to_pylist(), strict=True)
    features = [None if bag in ("b0", "b1", "b6") else row for bag, row in rows]
    return table.set_column(3, "features", pa.array(features, pa.list_(pa.float64())))


@pytest.mark.thorough
@pytest.mark.parametrize("model", MODELS)
def test_bags_and_baselines_are_written(tmp_path, capsys, model):
    path, target = written(tmp_path, with_empty_bags()), tmp_path / "t"
    found = fitted(capsys, path, target, f"model={model}", "partitions=3", "held_out=0.3")
    results = found["results"]
    assert results["test"]["auroc"]["value"] > 0.7
    assert {one["name"] for one in results["test"]["rivals"]} == {
        "boosted trees on pooled features", "boosted trees on instances",
        "number of instances alone",
    }  # fmt: skip
    bags, found = (table_of(target, n) for n in ("bags", "instances"))
    p = dict(zip(bags["bag_id"].to_pylist(), bags["probability"].to_pylist(), strict=True))
    assert all(0.0 < p[bag] < 1.0 for bag in ("b0", "b1", "b6"))
    assert found["contribution"].null_count == 0
    assert found["probability"].null_count == (len(found) if model == "embedding" else 0)
    if model == "auto":
        assert abs(sum(results["fit"]["members"].values()) - 1.0) < 1e-9
    else:
        assert results["fit"]["members"] == {}


def test_a_stack_over_its_memory_is_without_the_witness(tmp_path, capsys):
    """It says so before the fit and after it; instances have contributions only."""
    path, target = written(tmp_path, instances(60)), tmp_path / "t"
    small = "witness_memory=0.0001"
    code, out, _ = run(capsys, "check", "bags", path, "--set", small, "--json")
    assert code == 0
    (said,) = [w for w in json.loads(out)["warnings"] if "witness_memory" in w]
    assert "so it is left out of the stack" in said
    found = fitted(capsys, path, target, small, "held_out=0.3")
    assert said in found["warnings"]
    assert set(found["results"]["fit"]["members"]) == {"pooled features", "base rate"}
    found = table_of(target, "instances")
    assert found["probability"].null_count == found.num_rows
    assert found["contribution"].null_count == 0
    assert posterior(target).needed > 0.0001 * 2**30
    succeed("score", target, path, tmp_path / "s")
    one, two = (table_of(t, "bags")["probability"].to_numpy() for t in (target, tmp_path / "s"))
    np.testing.assert_allclose(np.sort(one), np.sort(two), rtol=1e-9)


@pytest.mark.parametrize("n", [2, 6])
def test_the_default_takes_few_bags(tmp_path, capsys, n):
    path = written(tmp_path, instances(n))
    found = fitted(capsys, path, tmp_path / "t")
    assert set(found["results"]["fit"]["members"]) == {"pooled features", "instances", "base rate"}
    p = table_of(tmp_path / "t", "bags")["probability"].to_numpy()
    assert np.all((p > 0.0) & (p < 1.0))


def test_instances_are_explained_by_the_member_with_the_largest_weight(tmp_path, capsys):
    """One instance of six makes a bag positive, by f2: the process of instances finds it."""
    rng = np.random.default_rng(0)
    bag, label = np.repeat(np.arange(80), 6), np.arange(80) % 2
    features = rng.normal(size=(480, 4))
    own = (label[bag] == 1) & (np.arange(480) % 6 == 0)
    features[own, 2] += 4.0
    table = {"bag_id": [f"b{i}" for i in bag], "label": label[bag]}
    table |= {f"f{d}": features[:, d] for d in range(4)}
    target = tmp_path / "t"
    found = fitted(capsys, written(tmp_path, pa.table(table)), target)
    weights = found["results"]["fit"]["members"]
    assert weights["instances"] > weights["pooled features"]
    markers, instances = (table_of(target, name) for name in ("markers", "instances"))
    likely = {(r["bag_id"], r["instance_id"]) for r in instances.to_pylist()
              if r["probability"] > 0.9}  # fmt: skip
    first = [r for r in markers.to_pylist()[::3] if (r["bag_id"], r["instance_id"]) in likely]
    assert len(first) >= 20
    assert all(r["feature"] == "f2" and r["adds"] > 1.0 and r["value"] > 2.0 for r in first)
    assert weights["pooled features"] < 0.1
    assert instances["contribution"].null_count == len(instances)
    [mark, *_] = found["results"]["marks"]
    assert (mark["feature"], mark["adds"] > 1.0, mark["here"] > 2.0) == ("f2", True, True)
    chances = instances["probability"].to_numpy()
    assert found["results"]["likely"]["above_half"] == np.sum(chances > 0.5)
    table["bag_id"] = [f"n{i}" for i in bag]
    source = tmp_path / "new.parquet"
    pq.write_table(pa.table(table), source)
    new = answer(capsys, "score", target, source, tmp_path / "new")["results"]
    page = report(tmp_path / "new")
    assert all(f">n{i}</td>" in page for i in range(80))
    assert page.count('<tr class="detail">') >= 80
    assert len(new["bags"]["all"]) == 8  # in run.json: all are in the table
    assert new["tested_at_fit"] == found["results"]["test"]
    assert new["base"] == found["results"]["base"]
