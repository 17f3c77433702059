"""The experts pipeline from files to tables, and what it says to bad input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from flows.cli import main
from flows.data.names import digests_of
from flows.experts.design import fitted_rows
from tests.flows.experts.runs import latest, rows_of, run

QUICK = ["--set", "n_experts=3", "--set", "inference=cavi", "--set", "tau=0.3"]


def written(tmp_path, columns, name="in.parquet"):
    path = tmp_path / name
    pq.write_table(pa.table(columns), path)
    return path


def plain(n=60, seed=0, **more):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    label = (x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(np.int8)
    columns = {"id": [f"r{i}" for i in range(n)], "a": x[:, 0], "b": x[:, 1]}
    return {**columns, "label": label, **more}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experts")
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "experts", str(folder), "--rows", "800", "--seed", "0"])
    assert stopped.value.code == 0
    return folder


@pytest.fixture(scope="module")
def fitted(simulated, tmp_path_factory):
    target = tmp_path_factory.mktemp("fitted")
    with pytest.raises(SystemExit) as stopped:
        main(["experts", str(simulated), str(target), *QUICK, "--partitions", "3"])
    assert stopped.value.code == 0
    return target


def test_tables_and_report_of_a_run(simulated, fitted):
    folder, record = latest(fitted)
    rows = rows_of(folder)
    source = pq.read_table(simulated / "table.parquet")
    assert rows["id"].to_pylist() == source["id"].to_pylist()
    assert rows.column_names == ["id", "probability", "expert_1", "expert_2", "expert_3"]
    shares = np.stack([rows[f"expert_{k}"].to_numpy() for k in (1, 2, 3)])
    np.testing.assert_allclose(shares.sum(0), 1.0)
    truth = pq.read_table(simulated / "_truth" / "rows.parquet")
    unseen = np.asarray(source["label"].is_null())
    assert 40 < unseen.sum() < 130
    y, p = truth["label"].to_numpy()[unseen], rows["probability"].to_numpy()[unseen]
    best = truth["probability"].to_numpy()[unseen]
    assert log_loss(y, p) < log_loss(y, best) + 0.15
    experts = rows_of(folder, "experts")
    assert experts.num_rows == 3 * 2 * 7
    assert set(experts["column"].to_pylist()) == {*(f"x{d}" for d in range(1, 7)), "intercept"}
    results = record["results"]
    assert record["converged"]
    assert results["log_loss"] < results["logistic_log_loss"]
    assert record["dropped"][0]["count"] == unseen.sum()
    html = (folder / "report.html").read_text()
    for heading in ("How good it is", "Who is responsible", "How different the experts are"):
        assert heading in html


def test_the_default_is_additive_and_is_judged_beside_simple_forms(simulated, tmp_path, capsys):
    """Its report opens with them; a score, of columns in another order, gives the same."""
    out = tmp_path / "out"
    more = ["--set", "n_experts=3", "--set", "test_share=0.3"]
    code, said = run(capsys, "experts", simulated, out, "--partitions", "3", *more)
    assert code == 0, said
    folder, record = latest(out)
    results = record["results"]
    assert record["converged"]
    assert results["additive"]["form"] == "steps"
    assert results["chosen"]["n_experts"] in (2, 3)
    assert results["log_loss"] < results["logistic_log_loss"] - 0.1
    beside = results["baselines"]
    assert set(beside) == {
        "logistic regression", "the additive part alone", "without the Gaussian process",
        "boosted trees",
    }  # fmt: skip
    assert beside["logistic regression"]["log_loss"] == pytest.approx(results["logistic_log_loss"])
    for one in beside.values():
        assert one["more"] == pytest.approx(one["log_loss"] - results["log_loss"])
        assert one["interval"][0] < one["more"] < one["interval"][1]
    page = (folder / "report.html").read_text()
    places = [page.index(text) for text in (
        "How good it is", "Beside simple baselines", "What each column says", "Who is responsible",
    )]  # fmt: skip
    assert places == sorted(places)
    experts = rows_of(folder, "experts").to_pylist()
    additive = [row for row in experts if row["role"] == "additive"]
    assert {row["expert"] for row in additive} == {0}
    assert sum(" > " in row["column"] for row in additive) == 6 * 8
    assert "additive" in rows_of(folder, "posterior")["name"].to_pylist()
    source = pq.read_table(simulated / "table.parquet").slice(100, 50).drop_columns("label")
    names = ["id", *reversed(source.column_names[1:])]
    pq.write_table(source.select(names), tmp_path / "new.parquet")
    new = tmp_path / "new"
    code, said = run(capsys, "score", out, tmp_path / "new.parquet", new)
    assert code == 0, said
    scored = rows_of(latest(new)[0])["probability"].to_numpy()
    np.testing.assert_allclose(
        scored, rows_of(folder)["probability"].to_numpy()[100:150], rtol=1e-10
    )


def test_more_columns_than_the_default_takes_are_refused(tmp_path, capsys):
    more = {f"x{d}": np.arange(12) % 2 for d in range(3000)}
    path = written(tmp_path, {**plain(n=12), **more})
    code, said = run(capsys, "experts", path, tmp_path / "out")
    assert code == 2, said
    expected = "expected at most 3000 columns for inference=additive, found 3002"
    assert expected in " ".join(said.split())
    assert "give fewer columns" in " ".join(said.split())


def test_columns_that_say_nothing_leave_the_share_of_the_label(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path = written(tmp_path, {**plain(n=300), "label": (rng.random(300) < 0.3).astype(int)})
    code, said = run(capsys, "experts", path, tmp_path / "out")
    assert code == 0, said
    assert "No column tells the label" in said
    folder, record = latest(tmp_path / "out")
    assert record["results"]["additive"]["form"] == "intercept"
    p = rows_of(folder)["probability"].to_numpy()
    assert np.ptp(p) < 1e-12


def test_scoring_gives_the_probabilities_of_the_fit(simulated, fitted, tmp_path, capsys):
    """New rows come without labels and with their columns in another order."""
    source = pq.read_table(simulated / "table.parquet").slice(100, 50).drop_columns("label")
    names = ["id", *reversed(source.column_names[1:])]
    path = tmp_path / "new.parquet"
    pq.write_table(source.select(names), path)
    code, said = run(capsys, "score", fitted, path, tmp_path / "out")
    assert code == 0, said
    new = rows_of(latest(tmp_path / "out")[0])["probability"].to_numpy()
    old = rows_of(latest(fitted)[0])["probability"].to_numpy()[100:150]
    np.testing.assert_allclose(new, old, rtol=1e-10)


def test_partitions_change_only_rounding(simulated, fitted, tmp_path, capsys):
    arguments = (*QUICK, "--partitions", "1", "--set", "tol=1e-9")
    run(capsys, "experts", simulated, tmp_path / "one", *arguments)
    arguments = (*QUICK, "--partitions", "4", "--set", "tol=1e-9")
    run(capsys, "experts", simulated, tmp_path / "four", *arguments)
    one, four = (
        rows_of(latest(tmp_path / t)[0])["probability"].to_numpy() for t in ("one", "four")
    )
    np.testing.assert_allclose(one, four, atol=1e-3)


def test_coordinate_ascent_and_one_expert_run(tmp_path, capsys):
    path = written(tmp_path, plain())
    for more in (
        ["--set", "inference=cavi", "--set", "max_iter=20"],
        ["--set", "inference=cavi", "--set", "prior=mabn2", "--set", "max_iter=5"],
        ["--set", "n_experts=1"],
    ):
        code, said = run(capsys, "experts", path, tmp_path / "out", *more)
        assert code == 0, said
    assert latest(tmp_path / "out")[1]["results"]["n_experts"] == 1


def test_every_inference_is_compared_with_logistic_regression(tmp_path, capsys):
    columns = plain(n=200)
    path = written(tmp_path, columns)
    quick = ["--set", "n_experts=2", "--set", "test_share=0.3", "--partitions", "2"]
    sampled = ["inference=mh", "warmup=20", "draws=4"]
    losses = []
    for name, more in (("cavi", ["inference=cavi", "max_iter=9"]), ("mh", sampled)):
        asked = [part for setting in more for part in ("--set", setting)]
        code, said = run(capsys, "experts", path, tmp_path / name, *quick, *asked)
        assert code == 0, said
        folder, record = latest(tmp_path / name)
        losses.append(record["results"]["logistic_log_loss"])
        trace = "The log density's trace" if name == "mh" else "The bound's trace"
        html = (folder / "report.html").read_text().replace("&#39;", "'")
        assert trace in html
        assert "logistic regression</td>" in html
    assert losses[0] == losses[1]
    y = np.asarray(columns["label"])
    names = [n for n in columns if n not in ("id", "label")]
    x = np.column_stack([columns[n] for n in names])
    fit = fitted_rows(digests_of(columns["id"]), 2.0 * y - 1.0, 0.3)
    rival = LogisticRegression().fit(x[fit], y[fit]).predict_proba(x[~fit])[:, 1]
    assert losses[0] == pytest.approx(log_loss(y[~fit], rival), abs=0.03)
    code, said = run(capsys, "score", tmp_path / "cavi", path, tmp_path / "new")
    assert code == 0, said
    results = latest(tmp_path / "new")[1]["results"]
    assert results["test_rows"] == 200
    assert "logistic_log_loss" in results


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"label": np.ones(60, np.int8)}, "found 60 with 1 alone"),
        ({"label": np.arange(60)}, "expected labels of at most 50 classes, found 60"),
        ({"label": ["yes"] * 60}, "found 60 with yes alone; give rows"),
        ({"label": pa.nulls(60, pa.string())}, "expected a label in some of the rows, found none"),
        ({"label": ["a"] * 60}, "column label: expected rows with two labels, found 60 with a"),
        ({"label": [[0]] * 60}, "column label: expected labels (text, numbers, or true and false)"),
        ({"c": [[1.0]] * 60}, "column c: expected numbers, text, dates, or true and false, found"),
        ({"a": [np.inf] + [1.0] * 59}, "column a, row 1: expected a finite number, found inf"),
        (
            {"b": [*map(str, range(59)), "x"]},
            "column b, row 60: expected a number, as nearly all cells of this column are, found "
            "'x'; mend the cell, name it a missing one (missing) or name b in categories",
        ),
        ({"id": ["r0"] * 60}, "which row 1 has too"),
    ],
)
def test_bad_input_is_said_before_any_compute(tmp_path, capsys, change, expected):
    path = written(tmp_path, plain(**change))
    code, said = run(capsys, "experts", path, tmp_path / "out")
    assert code == 2
    assert expected in " ".join(said.split())


def test_no_columns_are_named(tmp_path, capsys):
    path = written(tmp_path, {"label": [0, 1]})
    code, said = run(capsys, "experts", path, tmp_path / "out")
    assert code == 2
    assert "at least one column that predicts" in " ".join(said.split())


def test_odd_columns_are_warned_of(tmp_path, capsys):
    columns = plain(n=20)
    columns["same"], columns["flat"] = columns["a"], np.full(20, 7.0)
    columns |= {f"more{i}": np.random.default_rng(i).standard_normal(20) for i in range(20)}
    path = written(tmp_path, columns)
    code, said = run(capsys, "experts", path, tmp_path / "out", *QUICK)
    assert code == 0, said
    warnings = " ".join(latest(tmp_path / "out")[1]["warnings"])
    assert "flat" in warnings
    assert "same (as a)" in warnings
    assert "the fit rests on its prior" in warnings


@pytest.mark.parametrize("standardise", ["true", "false"])
def test_new_values_of_a_column_with_one_value_count_for_nothing(tmp_path, capsys, standardise):
    path = written(tmp_path, plain(day=np.full(60, 20231101.0)))
    more = ["--set", f"standardise={standardise}"]
    code, said = run(capsys, "experts", path, tmp_path / "out", *QUICK, *more)
    assert code == 0, said
    assert "left out, in new rows too: day." in latest(tmp_path / "out")[1]["warnings"][0]
    found = rows_of(latest(tmp_path / "out")[0])["probability"].to_numpy()
    assert log_loss(plain()["label"], found) < 0.5
    new = {**plain(day=np.arange(60.0))}
    path = written(tmp_path, {n: c for n, c in new.items() if n != "label"}, "new.parquet")
    code, said = run(capsys, "score", tmp_path / "out", path, tmp_path / "new")
    assert code == 0, said
    again = rows_of(latest(tmp_path / "new")[0])["probability"].to_numpy()
    np.testing.assert_allclose(again, found, rtol=1e-10)


def test_cells_that_overflow_are_named(fitted, tmp_path, capsys):
    columns = plain(a=np.linspace(-1e155, 1e155, 60))
    path = written(tmp_path, columns)
    code, said = run(
        capsys, "experts", path, tmp_path / "out", *QUICK, "--set", "standardise=false"
    )
    assert code == 2
    said = " ".join(said.split())
    assert "column a: expected cells within 1e+100 after scaling, found -1e+155 in the row" in said
    columns = pq.read_table(latest(fitted)[1]["inputs"][0]["url"]).slice(0, 9).to_pydict()
    columns["x2"][4] = 1e130
    path = written(tmp_path, columns)
    code, said = run(capsys, "score", fitted, path, tmp_path / "out")
    assert code == 2
    said = " ".join(said.split())
    assert "column x2: expected cells within 1e+100 after scaling, found 1e+130 in the row" in said


def test_score_names_columns_that_are_missing(fitted, tmp_path, capsys):
    path = written(tmp_path, plain())
    code, said = run(capsys, "score", fitted, path, tmp_path / "out")
    assert code == 2
    assert "x1" in said


def test_settings_that_do_not_go_together_are_refused(tmp_path, capsys):
    path = written(tmp_path, plain())
    more = ["--set", "inference=additive", "--set", "prior=mabn2"]
    code, said = run(capsys, "experts", path, tmp_path / "out", *more)
    assert code == 2
    assert "prior mabn2 is for inference cavi or mh" in " ".join(said.split())


MH = ["--set", "inference=mh", "--set", "n_experts=2", "--set", "warmup=150"]
MH += ["--set", "draws=40", "--set", "chains=2"]


@pytest.mark.parametrize("prior", ["gaussian", "mabn1", "mabn2"])
def test_sampling_runs_with_every_prior_and_is_diagnosed(tmp_path, capsys, prior):
    path = written(tmp_path, plain(n=120))
    code, said = run(capsys, "experts", path, tmp_path / "out", *MH, "--set", f"prior={prior}")
    assert code == 0, said
    folder, record = latest(tmp_path / "out")
    results = record["results"]
    assert record["converged"]
    assert results["largest_r_hat"] > 0.9
    assert results["smallest_effective_draws"] > 1.0
    if results["largest_r_hat"] > 1.05:
        assert "chains do not agree" in " ".join(record["warnings"])
    assert "How far the chains can be trusted" in (folder / "report.html").read_text()
    p = rows_of(folder)["probability"].to_numpy()
    assert log_loss(plain(n=120)["label"], p) < 0.5
    code, said = run(capsys, "score", tmp_path / "out", path, tmp_path / "new")
    assert code == 0, said
    again = rows_of(latest(tmp_path / "new")[0])["probability"].to_numpy()
    np.testing.assert_allclose(again, p, rtol=1e-10)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["inference=cavi", "prior=mabn1"], "prior mabn1 is for inference mh, not cavi"),
        (["inference=mh", "omega=1"], "omega is for inference cavi with the Gaussian prior"),
        (["inference=cavi", "prior=mabn2", "omega=1"], "cavi with the Gaussian prior"),
        (["inference=mh", "class_weight=balanced"], "is for inference additive or cavi, not mh"),
        (["inference=mh", "draws=4000"], "max_iter must be at least 20901"),
    ],
)
def test_settings_of_sampling_that_do_not_go_together(tmp_path, capsys, more, expected):
    path = written(tmp_path, plain())
    told = [part for one in more for part in ("--set", one)]
    code, said = run(capsys, "experts", path, tmp_path / "out", *told)
    assert code == 2
    assert expected in " ".join(said.split())


def test_too_few_sweeps_for_a_posterior_are_said(simulated, tmp_path, capsys):
    target = tmp_path / "out"
    code, told = run(
        capsys, "experts", simulated, target, "--max-iter", 5,
        "--set", "n_experts=2",
    )  # fmt: skip
    assert code == 1
    assert "the fit stopped after 5 sweeps while the form was being chosen" in told
    assert not (target / "latest.json").exists()
