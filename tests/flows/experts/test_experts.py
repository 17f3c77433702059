"""The experts pipeline from files to tables, and what it says to bad input."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss

from flows.events import Sweep, listening
from tests.flows.commands import printed, refused, setting_args, succeed
from tests.flows.experts.runs import latest, probabilities_of, rivals_of, rows_of, written

QUICK = setting_args("n_experts=3", "inference=cavi", "tau=0.3")


def plain(n=60, seed=0, **more):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    label = (x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(np.int8)
    columns = {"id": [f"r{i}" for i in range(n)], "a": x[:, 0], "b": x[:, 1]}
    return {**columns, "label": label, **more}


class Climbed:
    """Keeps what each sweep of a run shows, in order."""

    def __init__(self):
        self.sweeps = []

    def on_event(self, event):
        if isinstance(event, Sweep):
            self.sweeps.append(event)


def test_every_phase_of_a_fit_names_what_it_climbs(tmp_path):
    seen = Climbed()
    source, target = written(tmp_path, plain(n=120)), tmp_path / "out"
    with listening(seen):
        succeed("experts", source, target, *setting_args("n_experts=2", "baselines=false"))
    names = [one.objective for one in seen.sweeps]
    assert list(dict.fromkeys(names))[:2] == ["log likelihood of the fit", "log posterior"]
    changed = [one for one, before in zip(seen.sweeps[1:], names, strict=False)
               if one.objective != before]  # fmt: skip
    assert changed
    assert all(one.change is None for one in changed)
    assert latest(target)[1]["objective"] == names[-1]


def test_a_score_of_rows_without_labels_counts_them_by_their_probabilities(tmp_path, capsys):
    """And a fit says how many rows it learned from, with those that it predicts alone."""
    columns = plain()
    columns["label"] = [None if i < 9 else int(one) for i, one in enumerate(columns["label"])]
    source, target = written(tmp_path, columns), tmp_path / "out"
    args = setting_args("n_experts=1", "baselines=false")
    said = printed(capsys, "experts", source, target, *args)
    assert "warning: 9 of 60 rows (15 %) have no label and are only predicted" in said
    folder, record = latest(target)
    rows = rows_of(folder).to_pydict()
    assert [one is None for one in rows["without_it"]] == [i < 9 for i in range(60)]
    results = record["results"]
    assert (results["counts"]["fitted"], results["counts"]["unlabelled"]) == (51, 9)
    assert (results["test"]["rows"], results["folds"]) == (51, 5)
    cells = {k: v for k, v in plain(seed=1).items() if k != "label"}
    cells["a"] = [99.0, *cells["a"][1:]]
    new = written(tmp_path, cells, "new.parquet")
    succeed("score", target, new, tmp_path / "scored")
    folder, record = latest(tmp_path / "scored")
    p, scored = probabilities_of(folder), record["results"]
    counts = {"negative": np.sum(p <= 0.2), "positive": np.sum(p >= 0.8)}
    assert scored["predicted"] == counts | {"unclear": 60 - sum(counts.values())}
    assert scored["clear"][0]["outside"] > 0
    assert scored["outside"][0]["value"] == 99.0
    assert scored["test"] is None
    assert scored["fit"]["test"] == results["test"]
    assert [one["at"] for one in scored["fit"]["thresholds"]] == [
        one["at"] for one in results["thresholds"]
    ]
    half = [one["at"] for one in results["thresholds"]].index(0.5)
    assert scored["called"][half] == np.sum(p >= 0.5)
    assert len(scored["lists"]["all"]["rows"]) == 60


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    succeed("simulate", "experts", folder, "--rows", "800", "--seed", "0")
    return folder


@pytest.fixture(scope="module")
def fitted(simulated, tmp_path_factory):
    target = tmp_path_factory.mktemp("fitted")
    succeed("experts", simulated, target, *QUICK, "--partitions", "3")
    return target


@pytest.mark.thorough
def test_tables_and_report_of_a_run(simulated, fitted):
    folder, record = latest(fitted)
    rows = rows_of(folder)
    source = pq.read_table(simulated / "table.parquet")
    assert rows["id"].to_pylist() == source["id"].to_pylist()
    names = ["id", "label", "probability_1", "expert_1", "expert_2", "expert_3"]
    names += ["without_it", "held_out"]
    assert rows.column_names == names
    given = source["label"].to_pylist()
    assert rows["label"].to_pylist() == [None if one is None else str(one) for one in given]
    shares = np.stack([rows[f"expert_{k}"].to_numpy() for k in (1, 2, 3)])
    np.testing.assert_allclose(shares.sum(0), 1.0)
    truth = pq.read_table(simulated / "_truth" / "rows.parquet")
    unseen = np.asarray(source["label"].is_null())
    assert 40 < unseen.sum() < 130
    y, p = truth["label"].to_numpy()[unseen], rows["probability_1"].to_numpy()[unseen]
    best = truth["probability"].to_numpy()[unseen]
    assert log_loss(y, p) < log_loss(y, best) + 0.15
    experts = rows_of(folder, "experts")
    assert experts.num_rows == 3 * 2 * 7
    assert set(experts["column"].to_pylist()) == {*(f"x{d}" for d in range(1, 7)), "intercept"}
    results = record["results"]
    assert record["converged"]
    assert rivals_of(record)["logistic regression"]["more"]["value"] > 0
    assert results["counts"]["unlabelled"] == unseen.sum()
    assert results["test"]["rows"] == 800 - unseen.sum() == results["counts"]["fitted"]
    assert record["notes"] == [f"rows without a label, predicted: {unseen.sum()}"]
    assert record["warnings"] == []
    assert record["dropped"] == []
    assert [one["number"] for one in results["experts"]]


@pytest.mark.thorough
def test_the_default_is_additive_and_is_compared_with_simple_forms(simulated, tmp_path):
    """Its report opens with them; a score, of columns in another order, gives the same."""
    out = tmp_path / "out"
    more = ["--set", "n_experts=3", "--set", "test_share=0.3"]
    succeed("experts", simulated, out, "--partitions", "3", *more)
    folder, record = latest(out)
    results = record["results"]
    assert record["converged"]
    assert {one["name"] for one in results["parts"]} >= {"curves"}
    assert any(one["with_experts"] for one in results["parts"])
    rivals, loss = rivals_of(record), results["test"]["loss"]["value"]
    assert loss < rivals["logistic regression"]["loss"] - 0.1
    assert set(rivals) == {
        "logistic regression", "this model without experts",
        "this model without the Gaussian process", "boosted trees",
    }  # fmt: skip
    for one in rivals.values():
        assert one["more"]["value"] == pytest.approx(one["loss"] - loss)
        assert one["more"]["low"] < one["more"]["value"] < one["more"]["high"]
    experts = rows_of(folder, "experts").to_pylist()
    additive = [row for row in experts if row["role"] == "additive"]
    assert {row["expert"] for row in additive} == {0}
    assert sum("(curve 1)" in row["column"] for row in additive) == 6
    assert sum("(curve " in row["column"] for row in additive) >= 6 * 16
    assert "additive" in rows_of(folder, "posterior")["name"].to_pylist()
    source = pq.read_table(simulated / "table.parquet").slice(100, 50).drop_columns("label")
    names = ["id", *reversed(source.column_names[1:])]
    pq.write_table(source.select(names), tmp_path / "new.parquet")
    new = tmp_path / "new"
    succeed("score", out, tmp_path / "new.parquet", new)
    scored = probabilities_of(latest(new)[0])
    np.testing.assert_allclose(scored, probabilities_of(folder)[100:150], rtol=1e-10)


@pytest.mark.thorough
def test_columns_that_say_nothing_leave_the_share_of_the_label(tmp_path):
    rng = np.random.default_rng(0)
    path = written(tmp_path, {**plain(n=300), "label": (rng.random(300) < 0.3).astype(int)})
    succeed("experts", path, tmp_path / "out")
    folder, record = latest(tmp_path / "out")
    assert [one["name"] for one in record["results"]["parts"]] == ["intercept"]
    assert not record["results"]["test"]["better"]
    p = probabilities_of(folder)
    assert np.ptp(p) < 1e-12


def test_cells_that_overflow_are_named(fitted, tmp_path, capsys):
    columns = plain(a=np.linspace(-1e155, 1e155, 60))
    path = written(tmp_path, columns)
    said = refused(capsys, "experts", path, tmp_path / "out", *QUICK, "--set", "standardise=false")
    assert "column a: expected cells within 1e+100 after scaling, found -1e+155 in the row" in said
    columns = pq.read_table(latest(fitted)[1]["inputs"][0]["url"]).slice(0, 9).to_pydict()
    columns["x2"][4] = 1e130
    path = written(tmp_path, columns)
    said = refused(capsys, "score", fitted, path, tmp_path / "out")
    assert "column x2: expected cells within 1e+100 after scaling, found 1e+130 in the row" in said


@pytest.mark.thorough
@pytest.mark.parametrize("prior", ["gaussian", "mabn1", "mabn2"])
def test_sampling_runs_with_every_prior_and_is_diagnosed(tmp_path, prior):
    path = written(tmp_path, plain(n=120))
    more = setting_args("inference=mh", "n_experts=2", "warmup=150", "draws=40", "chains=2")
    succeed("experts", path, tmp_path / "out", *more, *setting_args(f"prior={prior}"))
    folder, record = latest(tmp_path / "out")
    results = record["results"]
    assert record["converged"]
    assert results["largest_r_hat"] > 0.9
    assert min(one["ess_bulk"] for one in results["chains"]) > 1.0
    if results["largest_r_hat"] > 1.05:
        assert "chains do not agree" in " ".join(record["warnings"])
    p = probabilities_of(folder)
    assert log_loss(plain(n=120)["label"], p) < 0.5
    succeed("score", tmp_path / "out", path, tmp_path / "new")
    again = probabilities_of(latest(tmp_path / "new")[0])
    np.testing.assert_allclose(again, p, rtol=1e-10)
