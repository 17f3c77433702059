"""The bags pipeline as a user has it: tables, forms of inference, new data, bad input."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flows import storage
from flows.bags.input.form import FILE, BagForm
from flows.bags.settings import BagSettings
from flows.catalogue import pipeline_named
from flows.records import json_files
from flows.records.runs import RunPaths, new_run_id, open_run
from flows.storage import DamagedError
from tests.flows.bags.bag_files import fitted as fitted_by
from tests.flows.bags.bag_files import instances, table_of, written
from tests.flows.commands import run, succeed
from vbmodels.bags.simulate import simulate
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.core.state import State, from_bytes

VMMIC = ("--set", "model=vmmic")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    succeed("simulate", "bags", folder, "--rows", "150", "--seed", "1")
    return folder


@pytest.fixture(scope="module")
def fitted(simulated, tmp_path_factory):
    target = tmp_path_factory.mktemp("fitted")
    options = (*VMMIC, "--partitions", "4", "--set", "held_out=0.25")
    succeed("bags", simulated, target, *options)
    return target


@pytest.mark.thorough
def test_a_run_leaves_what_it_promises(fitted, simulated):
    place, record = open_run(str(fitted))
    assert sorted(os.listdir(place.root)) == [
        ".vbflows", "bags", "instances", "posterior", "report.html", "rivals", "run.json",
        "trace.parquet",
    ]  # fmt: skip
    assert (record.rows_read, record.rows_kept, record.partitions) == (3000, 3000, 4)
    assert record.converged
    bags, found = table_of(fitted, "bags"), table_of(fitted, "instances")
    assert bags.column_names == [
        "bag_id", "label", "probability", "held_out", "without_it", "class", "predicted",
        "label_given", "group",
    ]  # fmt: skip
    assert found.column_names == [
        "bag_id", "instance_id", "modality", "probability", "score", "contribution", "class",
    ]  # fmt: skip
    source = storage.read_table(str(simulated / "bags.parquet"))
    given = dict(zip(source["bag_id"].to_pylist(), source["label"].to_pylist(), strict=True))
    assert dict(zip(*(bags[c].to_pylist() for c in ("bag_id", "label")), strict=True)) == given
    key = ("bag_id", "instance_id", "modality")
    rows, expected = (
        {*zip(*(t[c].to_pylist() for c in key), strict=True)} for t in (found, source)
    )
    assert rows == expected
    assert 0.1 < np.mean(bags["held_out"].to_numpy(zero_copy_only=False)) < 0.4
    assert record.results["likely"]["auroc"] > 0.75
    assert "primary" in {one["name"] for one in record.results["fit"]["blocks"]}


@pytest.mark.thorough
def test_probabilities_belong_to_their_bags_and_instances(fitted, simulated):
    """The same as the posterior says of the simulated arrays, so no table is out of order."""
    place, _ = open_run(str(fitted))
    url = storage.join(place.root, "posterior", "q.npz")
    q = from_bytes(storage.read_bytes(url), State, url)
    data, truth = simulate(np.random.default_rng(1), n_bags=150)
    posterior = CollapsedVMMIC().posterior(q)
    expected = predict(posterior.draws(), posterior.scaling, data)
    bags = table_of(fitted, "bags").sort_by("bag_id")
    np.testing.assert_allclose(bags["probability"].to_numpy(), expected.bag, rtol=1e-9)
    rows = table_of(fitted, "instances").to_pylist()
    rows.sort(key=lambda r: (r["modality"], r["bag_id"], int(r["instance_id"])))
    for name, columns in (
        ("probability", expected.instances),
        ("contribution", expected.contributions),
    ):
        found = [r[name] for r in rows]
        np.testing.assert_allclose(found, np.concatenate(columns), rtol=1e-9, atol=1e-12)
    assert len(rows) == sum(p.size for p in truth.primary)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        ("inference=mean_field", "tol=0.001"),
        ("inference=gibbs", "chains=2", "warmup=10", "draws=20"),
        ("precision=float32", "standardise=false"),
    ],
    ids=["mean_field", "gibbs", "single"],
)
def test_every_form_runs(simulated, tmp_path, capsys, options):
    results = fitted_by(capsys, simulated, tmp_path / "t", "model=vmmic", *options)["results"]
    assert results["counts"]["bags"] == 150
    assert (results["fit"]["r_hat"] is not None) == ("inference=gibbs" in options)


@pytest.mark.thorough
def test_scattered_rows_and_several_files_are_the_same_bags(tmp_path, capsys):
    whole = instances()
    answers = []
    order = np.random.default_rng(1).permutation(len(whole))
    shuffled = whole.take(pa.array(order))
    for name, tables in {"a": [whole], "b": [shuffled.slice(0, 50), shuffled.slice(50)]}.items():
        folder = tmp_path / name
        folder.mkdir()
        for i, table in enumerate(tables):
            written(folder, table, f"{i}.parquet")
        fitted_by(capsys, folder, tmp_path / f"t{name}", f"partitions={2 * len(tables) - 1}")
        answers.append(table_of(tmp_path / f"t{name}", "bags").sort_by("bag_id"))
    for column in ("bag_id", "label"):
        assert answers[0][column].equals(answers[1][column])
    np.testing.assert_allclose(*(a["probability"].to_numpy() for a in answers), atol=1e-6)


@pytest.mark.thorough
def test_bags_without_instances_label_or_modality_are_kept_and_named(tmp_path, capsys):
    """The first ten bags have instances of one kind only, and are scored by those."""
    of = np.arange(120) // 3
    kind = np.where((np.arange(120) % 3 == 2) & (of >= 10), "b", "a").tolist()
    table = instances(bag_features=of[:, None].astype(float).tolist(), modality=kind)
    extra = pa.table(
        {
            "bag_id": ["empty", "unknown"],
            "instance_id": pa.array([None, "0"]),
            "label": pa.array([1, None], pa.int8()),
            "features": pa.array([None, [0.5, 0.5]], pa.list_(pa.float64())),
            "bag_features": [[3.0], [4.0]],
            "modality": ["a", "a"],
        }
    )
    source = written(tmp_path, pa.concat_tables([table, extra]))
    found = fitted_by(capsys, source, tmp_path / "t")
    counts = found["results"]["counts"]
    assert (counts["bags"], counts["labelled"]) == (42, 41)
    record = open_run(str(tmp_path / "t"))[1]
    assert [(d.count, d.examples) for d in record.dropped] == [(1, ["empty"])]
    probability = table_of(tmp_path / "t", "bags")["probability"].to_numpy()
    assert np.all((probability > 0.0) & (probability < 1.0))
    found = table_of(tmp_path / "t", "instances")
    assert found["modality"].value_counts().to_pylist() == [
        {"values": "a", "counts": 91}, {"values": "b", "counts": 30},
    ]  # fmt: skip


def test_real_bags_are_read(tmp_path, capsys, shared_data):
    source = shared_data / "bags" / "musk1.parquet"
    code, out, _ = run(capsys, "check", "bags", source)
    assert code == 0
    assert "476" in out


@pytest.mark.slow
@pytest.mark.parametrize(("model", "many"), [("vmmic", 1_000_000), ("auto", 400_000)])
def test_a_bag_of_a_million_instances_goes_all_the_way(tmp_path, capsys, model, many):
    """Check, ingest, fit, score and publish; none of its instances is lost."""
    table = instances()
    rng = np.random.default_rng(0)
    flat = pa.array(rng.normal(size=2 * many))
    large = pa.table(
        {
            "bag_id": pa.array(["large"] * many),
            "instance_id": pa.array(np.arange(many)).cast(pa.string()),
            "label": pa.array(np.ones(many, np.int8)),
            "features": pa.FixedSizeListArray.from_arrays(flat, 2).cast(pa.list_(pa.float64())),
        }
    )
    source = written(tmp_path, pa.concat_tables([table, large]))
    here = ("--workers", "0", "witness_memory=1") if model == "auto" else ()
    found = fitted_by(capsys, source, tmp_path / "t", f"model={model}", "partitions=2", *here)
    assert found["results"]["counts"]["instances"] == many + 120
    left_out = [w for w in found["warnings"] if "more than witness_memory=1" in w]
    assert len(left_out) == (model == "auto")
    record = open_run(str(tmp_path / "t"))[1]
    assert (record.rows_read, record.rows_kept) == (many + 120, many + 120)
    bags = table_of(tmp_path / "t", "bags").to_pylist()
    (own,) = (b["probability"] for b in bags if b["bag_id"] == "large")
    assert 0.0 < own < 1.0
    found = table_of(tmp_path / "t", "instances")
    ids = found.filter(pc.equal(found["bag_id"], "large"))["instance_id"]
    assert ids.cast(pa.int64()).to_numpy().tolist() == list(range(many))


def test_a_form_that_was_read_in_part_is_not_published(tmp_path):
    paths = RunPaths(str(tmp_path), new_run_id())
    form = BagForm(modalities=["first"], widths=[3], own=0)
    json_files.write(paths.kept(FILE, work=True), form)
    file = Path(paths.kept(FILE, work=True))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DamagedError):
        pipeline_named("bags").keep(None, BagSettings(), paths, None)
    json_files.write(paths.kept(FILE, work=True), form)
    pipeline_named("bags").keep(None, BagSettings(), paths, None)
    assert json_files.read(paths.kept(FILE), BagForm) == form
