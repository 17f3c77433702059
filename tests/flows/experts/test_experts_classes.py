"""Labels of more than two classes: probabilities, scores, explanations, partitioning."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss

from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, rivals_of, rows_of

QUICK = setting_args("n_experts=1", "test_share=0.3", "tau=1")
NAMES = ["blue", "green", "red"]


def table(n=700, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    kind = rng.choice(["u", "v"], n)
    odds = np.column_stack([2.0 * x[:, 0], 2.0 * x[:, 1] ** 2 - 2.0, 1.5 * (kind == "u")])
    chance = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    code = (rng.random((n, 1)) > np.cumsum(chance, axis=1)).sum(1)
    label = [None if i % 10 == 0 else NAMES[c] for i, c in enumerate(code.tolist())]
    columns = {"id": [f"r{i}" for i in range(n)], "a": x[:, 0], "b": x[:, 1], "kind": kind}
    return {**columns, "label": label}, chance


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    pq.write_table(pa.table(table()[0]), folder / "in.parquet")
    succeed("experts", folder / "in.parquet", folder / "out", *QUICK)
    return folder


@pytest.mark.thorough
def test_every_class_has_a_probability_and_is_scored(fitted):
    folder, record = latest(fitted / "out")
    columns, chance = table()
    rows = rows_of(folder)
    names = [f"probability_{name}" for name in NAMES]
    assert rows.column_names == ["id", "label", "predicted", *names, "without_it", "held_out"]
    assert rows["label"].to_pylist() == columns["label"]
    assert rows["id"].to_pylist() == columns["id"]
    p = np.column_stack([rows[f"probability_{name}"].to_numpy() for name in NAMES])
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert rows["predicted"].to_pylist() == [NAMES[k] for k in p.argmax(1)]
    assert np.mean(np.sum(chance * np.log(chance / p), axis=1)) < 0.15
    results, rivals = record["results"], rivals_of(record)
    test, loss = results["test"], results["test"]["loss"]["value"]
    assert results["names"]["classes"] == NAMES
    assert test["rows"] == np.sum(test["counts"]) > 100
    assert test["right"] == np.trace(test["counts"])
    assert set(rivals) == {"multinomial logistic regression", "boosted trees"}
    assert loss < rivals["multinomial logistic regression"]["loss"]
    for one in rivals.values():
        assert one["more"]["value"] == pytest.approx(one["loss"] - loss)
    assert {row["label"] for row in rows_of(folder, "experts").to_pylist()} == set(NAMES)
    assert [one["of"] for one in results["effects"]] == NAMES


@pytest.mark.thorough
def test_new_rows_and_partitions_give_the_same_chances(fitted, tmp_path):
    source = pq.read_table(fitted / "in.parquet")
    pq.write_table(source.slice(50, 40).drop_columns("label"), tmp_path / "new.parquet")
    succeed("score", fitted / "out", tmp_path / "new.parquet", tmp_path / "new")
    names = [f"probability_{name}" for name in NAMES]
    old, new = (
        np.column_stack([rows_of(latest(t)[0])[n].to_numpy() for n in names])
        for t in (fitted / "out", tmp_path / "new")
    )
    np.testing.assert_allclose(new, old[50:90], rtol=1e-9)
    how = (*QUICK, *setting_args("baselines=false"), "--partitions", 3)
    succeed("experts", fitted / "in.parquet", tmp_path / "cut", *how)
    cut = np.column_stack([rows_of(latest(tmp_path / "cut")[0])[n].to_numpy() for n in names])
    np.testing.assert_allclose(cut, old, atol=1e-5)
    truth = [NAMES.index(v) if v else -1 for v in source["label"].to_pylist()]
    known = np.array(truth) >= 0
    assert log_loss(np.array(truth)[known], cut[known]) < 0.85
