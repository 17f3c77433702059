"""The features pipeline from files to tables, and what it says to bad input."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flows.catalogue import pipeline_named
from flows.features.input.categories import classes_of, encode, order_levels
from flows.features.input.columns import cuts_of
from flows.features.settings import FeatureSettings
from reproduce.ibp_images import matched_f1
from tests.faults import pipelines
from tests.feature_tables import split_rows
from tests.flows.commands import printed, refused, setting_args, succeed
from tests.flows.experts.runs import latest, written
from vbmodels.core.fit import fit
from vbmodels.estimators import LatentFeatures
from vbmodels.features.forms import make
from vbmodels.tables.levels import Levels

QUICK = setting_args("n_features=8", "tol=1e-6")


def words(rng, n, levels=("left", "right")):
    return [str(x) for x in rng.choice(levels, n)]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    succeed("simulate", "features", str(folder), "--rows", "500", "--seed", "0")
    return folder


@pytest.fixture(scope="module")
def fitted(simulated, tmp_path_factory):
    target = tmp_path_factory.mktemp("fitted")
    succeed("features", str(simulated), str(target), *QUICK, "--partitions", "3")
    return target


@pytest.mark.thorough
def test_a_run_finds_the_features_and_leaves_what_it_promises(fitted, simulated):
    folder, record = latest(fitted)
    rows = pq.read_table(folder / "rows")
    truth = pq.read_table(simulated / "_truth" / "features.parquet")
    assert rows["id"].to_pylist() == truth["id"].to_pylist()
    found = np.stack([rows[c].to_numpy() for c in rows.column_names[1:]], 1)
    true = np.stack([truth[c].to_pylist() for c in truth.column_names[1:]], 1)
    assert matched_f1(found > 0.5, true) > 0.75
    results = record["results"]
    assert len(results["features"]) == found.shape[1]
    assert all("question_" in one["name"][0]["columns"][0] for one in results["features"])
    assert results["starts"] == 2
    shares = [one["share"]["value"] for one in results["features"]]
    assert np.allclose(shares, found.mean(0))
    assert results["columns"][0]["levels"].keys() == {"answer 0", "answer 1"}
    weights = pq.read_table(folder / "weights")
    assert set(weights["feature"].to_pylist()) == set(range(found.shape[1] + 1))


@pytest.fixture(scope="module")
def agreed(tmp_path_factory):
    """A fit of answers in words, of 60 rows."""
    folder = tmp_path_factory.mktemp("agreed")
    rng = np.random.default_rng(0)
    columns = {f"q{d}": words(rng, 60, ("Agree", "Disagree")) for d in range(3)}
    columns["sure"] = words(rng, 60, ("yes", "no"))
    source = written(folder, columns)
    succeed("features", source, folder / "out", *setting_args("n_features=1", "starts=1"))
    return folder / "out", columns


def test_new_answers_are_the_fits_whatever_their_case(agreed, tmp_path, capsys):
    run, columns = agreed
    half = {name: [c.lower() for c in cells[:30]] + cells[30:] for name, cells in columns.items()}
    said = printed(capsys, "score", run, written(tmp_path, half), tmp_path / "out")
    assert "'agree' (" in said
    scored, fitted = (pq.read_table(latest(at)[0] / "rows") for at in (tmp_path / "out", run))
    assert scored.drop_columns(["id"]).equals(fitted.drop_columns(["id"]))
    assert not pq.read_table(latest(tmp_path / "out")[0] / "imputed").num_rows


def test_a_new_answer_among_yes_and_no_is_said(agreed, tmp_path, capsys):
    run, columns = agreed
    source = written(tmp_path, {**columns, "sure": ["perhaps", *columns["sure"][1:]]})
    said = printed(capsys, "score", run, source, tmp_path / "out")
    assert "sure: categories that the fit never saw are left out: 'perhaps' (1)" in said


def test_new_answers_of_which_none_is_known_are_refused(agreed, tmp_path, capsys):
    run, columns = agreed
    coded = [str(1 + (cell == "Agree")) for cell in columns["q1"]]
    source = written(tmp_path, {**columns, "q1": coded})
    said = refused(capsys, "score", run, source, tmp_path / "out")
    assert "column q1" in said
    assert "'Agree'" in said
    assert "'2'" in said
    one = {name: ["perhaps"] for name in columns}
    assert "'perhaps'" in refused(capsys, "score", run, written(tmp_path, one), tmp_path / "out")
    blank = {name: pa.nulls(3, pa.string()) for name in columns}
    refused(capsys, "score", run, written(tmp_path, blank), tmp_path / "out")


@pytest.mark.thorough
def test_the_multinomial_form_runs_and_scores(simulated, tmp_path):
    more = setting_args("inference=multinomial", "tol=1e-4")
    succeed("features", simulated, tmp_path, *QUICK, *more)
    folder, record = latest(tmp_path)
    assert record["converged"]
    assert record["results"]["features"]  # it ends near where it began
    succeed("score", folder, simulated / "table.parquet", tmp_path)
    again, before = pq.read_table(latest(tmp_path)[0] / "rows"), pq.read_table(folder / "rows")
    assert again.column_names == before.column_names


def test_the_least_max_iter_is_what_multinomial_needs():
    codes, levels = np.array([[0, 1], [1, 0], [1, 1], [0, 0]] * 3), np.array([2, 2])
    options, least = {"inference": "multinomial", "n_features": 2}, 24
    settings = FeatureSettings(**options, max_iter=least)
    data = split_rows(codes, levels, 1, grouped=False)
    model = make(settings)
    assert fit(model, data, max_iter=settings.max_iter).converged
    with pytest.raises(ValueError, match=f"max_iter must be at least {least}"):
        FeatureSettings(**options, max_iter=least - 1)


def test_of_a_column_with_100_000_categories_the_frequent_ones_stay():
    counts = {str(i): 1 for i in range(100_000)} | {"often": 60_000, "also": 5}
    column = order_levels("x", Levels(counts, 0), 5, 100)
    assert column.levels == ("(rare)", "often", "also")
    assert column.counts == (100_000, 60_000, 5)
    coded = encode({"x": pa.array(["7", "often", "new", None, "also"])}, [column])
    assert coded.codes[:, 0].tolist() == [0, 1, -1, -1, 2]
    assert (coded.unknown, coded.respelt) == ({"x": {"new": 1}}, {})
    said = encode({"x": pa.array([" OFTEN", "also"])}, [column])
    assert (said.codes[:, 0].tolist(), said.respelt) == ([1, 2], {"x": {" OFTEN": 1}})


def people(answers, ids, **more):
    """Fifty people, three rows each."""
    rng = np.random.default_rng(0)
    return {**ids, **{name: words(rng, 150) for name in answers}, **more}


REPEATED = {
    "respondent": [f"R{i // 3}" for i in range(150)],
    "worker_id": [1000 + i // 3 for i in range(150)],
    "whose": [f"{i % 80}x" for i in range(150)],
}


@pytest.mark.parametrize("name", REPEATED)
def test_ids_that_repeat_are_no_answers(tmp_path, capsys, name):
    source = written(tmp_path, people(["a", "b", "c"], {name: REPEATED[name]}))
    found = json.loads(printed(capsys, "check", "features", source, "--json"))
    used = {one["name"]: one["used"] for one in found["columns"]}
    by_name = name == "worker_id"  # of whole numbers
    assert used[name].startswith("left out: id" if by_name else "left out: repeated ids")
    assert {used[c] for c in "abc"} == {"yes"}
    warned = f"{name} has {len(set(REPEATED[name]))} in 150 rows"
    assert by_name or any(warned in warning for warning in found["warnings"])


def test_a_table_in_long_format_is_refused_and_one_of_waves_is_not(tmp_path, capsys):
    item = [f"item {i % 3}" for i in range(150)]
    ids = {"subject": REPEATED["respondent"]}
    long = written(tmp_path, people(["says", "mode"], ids, item=item))
    said = refused(capsys, "features", long, tmp_path / "out")
    assert "expected one row for all answers of a respondent" in said
    assert "column item" in said
    assert "each value of subject" in said
    printed(capsys, "check", "features", long, "--set", "include=item,says,mode")
    with pytest.raises(ValueError, match="long format"):
        LatentFeatures().fit(pq.read_table(long))
    waves = written(tmp_path, people(["a", "b"], ids, wave=item))
    printed(capsys, "check", "features", waves)


def test_what_a_survey_tool_adds_is_no_answer(tmp_path, capsys):
    answers = {name: words(np.random.default_rng(i), 60) for i, name in enumerate("abc")}
    pages = ["4" if i % 5 else "2" for i in range(60)]
    source = written(tmp_path, many(60, {**answers, "lastpage": pages}))
    checked = json.loads(printed(capsys, "check", "features", source, "--json"))
    used = {one["name"]: one["used"] for one in checked["columns"]}
    assert used["lastpage"] == "left out: how the answers came, not one of them (by its name)"
    wanted = "categories=lastpage"
    checked = json.loads(printed(capsys, "check", "features", source, "--json", "--set", wanted))
    assert {one["name"]: one["used"] for one in checked["columns"]}["lastpage"] == "yes"


def test_a_date_that_is_left_out_is_not_asked_about(tmp_path, capsys):
    dates = [f"0{1 + i % 9}/03/2024 08:00:00" for i in range(60)]
    table = many(60, {"b": words(np.random.default_rng(1), 60), "Timestamp": dates})
    source = written(tmp_path, table)
    found = json.loads(printed(capsys, "check", "features", source, "--json"))
    used = {one["name"]: one["used"] for one in found["columns"]}
    assert used["Timestamp"] == "left out: dates, not categories"
    assert "Timestamp" in refused(capsys, "check", "features", source, "--set", "bins=2")


@pytest.mark.parametrize(("start", "width"), [(0.0, 1.0), (1.7e9, 3600.0), (1e6, 5.0), (1.0, 1e-9)])
def test_classes_of_numbers_far_from_0_are_set_apart(start, width):
    values = start + width * np.random.default_rng(1).random(200)
    counts = Counter(classes_of(values, cuts_of(values, 4)).to_pylist())
    assert (len(counts), min(counts.values()) > 40) == (4, True)


def many(n, columns):
    rng = np.random.default_rng(0)
    return {"id": [f"r{i}" for i in range(n)], "a": words(rng, n), **columns}


@pytest.mark.thorough
def test_rare_categories_are_joined_and_scored_as_one(tmp_path, capsys):
    n = 60
    rng = np.random.default_rng(4)
    x = ["common" if i < 30 else "usual" if i < 50 else f"rare {i}" for i in range(n)]
    every = [f"level {i % 20}" for i in range(n)]
    table = many(n, {"x": x, "every": every, "b": words(rng, n)})
    source = written(tmp_path, table)
    more = setting_args("n_features=2", "max_levels=8", "rare_below=3", "tol=1e-3")
    said = printed(capsys, "features", source, tmp_path / "out", *QUICK, *more)
    assert "(rare) in 2 columns: x (10), every (13)" in said
    _, record = latest(tmp_path / "out")
    levels = {c["name"]: c["levels"] for c in record["results"]["columns"]}
    assert levels["x"] == {"common": 30, "usual": 20, "(rare)": 10}
    assert len(levels["every"]) == 8
    assert levels["every"]["(rare)"] == 39
    new = many(4, {"x": ["rare 55", "common", None, "never seen"], "every": ["level 3"] * 4,
                   "b": words(rng, 4)})  # fmt: skip
    folder = tmp_path / "new"
    folder.mkdir()
    said = printed(capsys, "score", tmp_path / "out", written(folder, new), tmp_path / "scored")
    assert "never seen" in said
    assert "rare 55" not in said
    scored, _ = latest(tmp_path / "scored")
    imputed = pq.read_table(scored / "imputed").to_pylist()
    assert {(r["id"], r["category"]) for r in imputed if r["column"] == "x"} == {
        (name, c) for name in ("r2", "r3") for c in ("common", "usual", "(rare)")
    }


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_moves_that_lose_what_they_promised_do_not_keep_the_search_going(tmp_path):
    """On this table moves look some nats better, until the fit has converged."""
    source = pipeline_named("features").simulate(str(tmp_path / "in"), 2000, 1)[0]
    settings = {"partitions": None, "n_features": 12, "max_iter": 600}
    outcome = pipelines.run("features", source, str(tmp_path / "out"), **settings)
    assert outcome["converged"]
    assert len(outcome["results"]["features"]) == 4
    assert outcome["elbo"] > -34_850
