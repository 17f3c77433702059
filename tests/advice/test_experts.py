"""Commands that pages and warnings of experts name, run as they stand, and what they bring."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.records.runs import open_run
from tests.advice.commands import obey, results_of, steps_of
from tests.answers.expert_runs import OF, QUICK, patients, write_sources
from tests.answers.keep import command
from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, rows_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources of the kept runs, and a fit with held-out rows."""
    place = tmp_path_factory.mktemp("patients")
    write_sources(place)
    succeed(*command("experts", "held_out", place))
    return place


def test_all_that_a_fit_advises_runs_and_new_rows_are_predicted(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    score, listed = steps_of(folder / "held_out")
    obey(capsys, score, "new_labels.parquet")
    assert results_of(folder / "scored")["test"]["better"]
    lines = obey(capsys, listed).splitlines()[1:9]
    chances = [float(line.split()[2].strip("<>")) for line in lines]
    assert chances == sorted(chances, reverse=True)
    [written] = steps_of(folder / "scored")
    file, _, name = written.partition(" > ")
    assert len(obey(capsys, file).splitlines()) == 41
    assert name in ("", "rows.csv")


def test_a_score_is_measured_once_its_labels_are_known(folder):
    """As the page of one without labels advises."""
    for name in ("new", "new_labels"):
        source, target = folder / f"{name}.parquet", folder / f"of_{name}"
        succeed("score", folder / "held_out", source, target)
        assert (results_of(target)["test"] is None) == (name == "new")


def test_another_column_makes_a_useless_model_useful(tmp_path):
    """What "Do not act on these predictions" advises."""
    columns, odds, rng = patients()
    given = {"patient": columns["patient"], "noise": rng.normal(size=240)}
    given["diagnosis"] = np.where(odds > 0.0, "ill", "well")
    for name, more in (("without", {}), ("with", {"marker": columns["marker"]})):
        pq.write_table(pa.table(given | more), tmp_path / f"{name}.parquet")
        succeed("experts", tmp_path / f"{name}.parquet", tmp_path / name, *OF, *QUICK)
        assert results_of(tmp_path / name)["test"]["better"] is (name == "with")


def test_a_column_for_each_answer_predicts_better_than_one_of_several_answers(tmp_path):
    """What is advised where cells hold several answers."""
    rng, n = np.random.default_rng(4), 400
    media = ["TV", "Radio", "Web", "Friends", "Posters"]
    told = rng.random((n, 5)) < 0.5
    odds = told @ [1.5, 0.0, -1.2, 0.8, 0.0] - 0.5
    label = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-odds)), "buys", "not")
    cells = [", ".join(np.array(media)[row]) for row in told]
    split = {name: np.where(told[:, i], "yes", "no") for i, name in enumerate(media)}
    loss = {}
    for name, given in (("whole", {"media": cells}), ("split", split)):
        pq.write_table(pa.table({**given, "label": label}), tmp_path / f"{name}.parquet")
        succeed("experts", tmp_path / f"{name}.parquet", tmp_path / name, *QUICK)
        loss[name] = results_of(tmp_path / name)["test"]["loss"]["value"]
        warned = latest(tmp_path / name)[1]["warnings"]
        advised = "Cells hold several answers each: media; make each answer a column."
        assert (advised in warned) is (name == "whole")
    assert loss["split"] < loss["whole"]


def test_later_rows_are_tested_by_the_last_ones(tmp_path):
    """What is advised where neighbours are alike: the error of later rows is then known."""
    rng, n = np.random.default_rng(5), 500
    date = np.datetime64("2020-01-01") + np.arange(n)
    demand = 50.0 + np.cumsum(rng.standard_normal(n))
    x = rng.standard_normal(n)
    rows = {"date": date.astype(str), "x": x, "demand": demand + x}
    pq.write_table(pa.table({k: v[:400] for k, v in rows.items()}), tmp_path / "past.parquet")
    pq.write_table(pa.table({k: v[400:] for k, v in rows.items()}), tmp_path / "future.parquet")
    errors = {}
    for how in ("", "last", "date"):
        target = tmp_path / f"by_{how}"
        more = setting_args(f"held_out={how}") if how else ()
        args = ("--column", "label=demand", *setting_args("baselines=no"), *more)
        succeed("experts", tmp_path / "past.parquet", target, *args)
        errors[how] = results_of(target)["test"]["loss"]["value"]
    succeed("score", tmp_path / "by_", tmp_path / "future.parquet", tmp_path / "scored")
    later = results_of(tmp_path / "scored")["test"]["loss"]["value"]
    assert abs(errors["last"] - later) < abs(errors[""] - later)
    assert errors["date"] == errors["last"]


@pytest.mark.thorough
def test_more_draws_make_chains_agree(folder):
    found = []
    for warmup, draws in ((60, 30), (1500, 600)):
        target = folder / f"draws{draws}"
        more = ("inference=mh", "n_experts=1", "chains=2", f"warmup={warmup}", f"draws={draws}")
        more += ("max_iter=4000", "baselines=no")
        succeed("experts", folder / "label.parquet", target, *OF, *setting_args(*more))
        found.append(results_of(target)["largest_r_hat"])
    assert found[1] < 1.2 < 1.5 < found[0]


def test_an_exposure_that_is_asked_about_makes_counts_more_exact(tmp_path):
    """What is advised where a column is named like an exposure, for a label that is a count."""
    rng, n = np.random.default_rng(8), 600
    age, years = rng.uniform(18.0, 80.0, n), rng.gamma(0.7, 1.0, n) + 0.01
    mean = years * np.exp(0.8 * np.cos(age / 20.0))
    rows = pa.table({"age": age, "person_years": years, "claims": rng.poisson(mean)})
    pq.write_table(rows[:400], tmp_path / "fitted.parquet")
    pq.write_table(rows[400:], tmp_path / "new.parquet")
    errors = []
    for more in ((), ("--column", "exposure=person_years")):
        target = tmp_path / f"out{len(more)}"
        args = ("--column", "label=claims", *setting_args("baselines=no", "target=count"), *more)
        succeed("experts", tmp_path / "fitted.parquet", target, *args)
        said = " ".join(open_run(str(target))[1].warnings)
        assert ("--column exposure=person_years" in said) is (not more)
        succeed("score", target, tmp_path / "new.parquet", tmp_path / f"new{len(more)}")
        predicted = rows_of(latest(tmp_path / f"new{len(more)}")[0])["predicted"].to_numpy()
        errors.append(np.mean((np.log(predicted) - np.log(mean[400:])) ** 2))
    assert errors[1] < 0.5 * errors[0]
