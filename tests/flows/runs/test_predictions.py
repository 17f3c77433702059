"""Predictions of two runs are compared by the names of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flows.data import storage
from flows.data.runs import InputRecord, RunPaths, complete
from flows.faults import InputError
from flows.runs.compare import compare, headline
from flows.runs.compare_page import _page, _part, _predictions, _tiles
from flows.runs.listing import rows_of
from flows.runs.predictions import Change, compare_predictions
from tests.flows.runs.test_publish import record


def run_with(target, name, **columns):
    paths = RunPaths(str(target), name)
    half = len(next(iter(columns.values()))) // 2
    table = pa.table(columns)
    storage.write_table(paths.table("rows", 0), table.slice(0, half))
    storage.write_table(paths.table("rows", 1), table.slice(half))
    return paths


def test_rows_are_matched_by_name_whatever_their_order(tmp_path):
    first = run_with(
        tmp_path, "a", id=["a", "a", "b", "c"], of=["x", None, None, None],
        same=["s", "s", "s", "s"], probability=[0.1, 0.4, 0.9, 0.5],
    )  # fmt: skip
    second = run_with(
        tmp_path, "b", id=["e", "b", "a", "a"], of=[None, None, None, "x"],
        same=["s", "s", "s", "s"], probability=[0.3, 0.85, 0.7, 0.1],
    )  # fmt: skip
    (found,) = compare_predictions(first, second)
    assert (found.shared, found.only_first, found.only_second) == (3, 1, 1)
    assert found.mean_change == pytest.approx((0.0 + 0.3 - 0.05) / 3)
    assert found.mean_size == pytest.approx((0.0 + 0.3 + 0.05) / 3)
    assert (found.lost, found.gained) == (None, None)
    assert (found.moved, found.crossed) == (1, 1)
    assert found.largest[0] == Change({"id": "a", "of": ""}, 0.4, 0.7)
    assert (found.largest[0].label, found.largest[2].label) == ("a", "a, x")
    assert (found.largest[2].first, found.largest[2].second) == (0.1, 0.1)
    expected = np.corrcoef([0.1, 0.4, 0.9], [0.1, 0.7, 0.85])[0, 1]
    assert found.correlation == pytest.approx(expected)


def test_rows_without_names_of_their_own_are_not_compared(tmp_path):
    columns = {"id": ["a", "a"], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "ab")) == []
    columns = {"value": [1.0, 2.0], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "cd")) == []


def test_a_run_without_spread_has_no_correlation(tmp_path):
    runs = [run_with(tmp_path, n, id=["a", "b"], probability=[0.5, 0.5]) for n in "ab"]
    (found,) = compare_predictions(*runs)
    assert found.correlation is None
    assert found.as_json()["mean_change"] == 0.0


def compared(tmp_path, **second):
    """Return the headline for a run whose second fit differs in what is named."""
    for number, changes in enumerate(({}, second)):
        paths = run_with(tmp_path, f"r{number}", id=["a", "b"], probability=[0.1, 0.4 + number / 2])
        changes = {"run_id": paths.run_id, "settings": {"prior": 0.01, "tol": 1e-6}, **changes}
        complete(paths, record(**changes))
    return headline(compare(*(f"{tmp_path}/runs/r{number}" for number in range(2))))


def tile(value):
    return {"headline": f"{value} found", "tiles": [{"label": "found", "value": value, "note": ""}]}


def interval(value, note):
    tiles = [{"label": "AUROC", "value": value, "note": f"{note}; 46 rows not fitted"}]
    return {"tiles": tiles}


def two_runs(tmp_path, **second):
    """Compare runs with an AUROC, the second with what is named."""
    first = {**interval("0.996", "0.985 to 1.000"), "settings": {"n_experts": None}, "elbo": -9.0}
    for name, changes in (("a", first), ("b", first | second)):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        complete(paths, record(run_id=name, **changes))
    return compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")


def test_where_intervals_overlap_there_is_no_clear_difference_and_no_cause(tmp_path):
    found = two_runs(
        tmp_path, settings={"n_experts": 1}, **interval("0.998", "0.992 to 1.000")
    )  # fmt: skip
    assert headline(found) == (
        "No clear difference: AUROC 0.996 (0.985 to 1.000) → 0.998 (0.992 to 1.000). What differs: "
        "n_experts: default → 1. 0 of 2 probabilities in rows/ crossed 0.5."
    )


def test_where_intervals_are_apart_there_is_a_cause(tmp_path):
    found = two_runs(tmp_path, settings={"n_experts": 1}, **interval("0.5", "0.4 to 0.6"))
    assert headline(found).startswith("AUROC: 0.996 → 0.5, because of n_experts: default → 1.")


def test_bounds_are_compared_only_with_the_same_settings_of_the_model(tmp_path):
    same = {"settings": {"n_experts": None, "max_iter": 9}}
    assert two_runs(tmp_path / "a", elbo=-8.0, **same).parts["fit"]["bound"]["change"] == 1.0
    found = two_runs(tmp_path / "b", settings={"n_experts": 1}, elbo=-8.0)
    assert "bound" not in found.parts["fit"]
    assert found.parts["fit"]["state"]["first"] == "converged"


def test_two_pipelines_do_not_compare(tmp_path):
    with pytest.raises(InputError, match=r"expected two runs of one pipeline.*of features$"):
        compared(tmp_path, pipeline="features")


def test_a_selection_is_compared_where_there_is_one(tmp_path):
    """A known keyphrase has probability 1 in both runs, and counts in no mean."""
    columns = {"doc_id": ["a", "a", "b", "b"], "term": ["x", "y", "x", "y"]}
    runs = [
        run_with(
            tmp_path, name, **columns, probability=[1.0, *probability], selected=[True, *selected],
            observed=[True, False, False, False],
        )
        for name, probability, selected in (
            ("a", [0.3, 0.2, 0.1], [True, True, False]),
            ("b", [0.25, 0.1, 0.5], [False, True, True]),
        )
    ]  # fmt: skip
    for paths in runs:
        complete(paths, record(run_id=paths.run_id))
    compared = compare(*(f"{tmp_path}/runs/{name}" for name in "ab"))
    (found,) = compared.predictions
    assert (found.free, found.lost, found.gained) == (3, 1, 1)
    assert found.mean_change == pytest.approx((-0.05 - 0.1 + 0.4) / 3)
    said = "No longer selected: 1 of 4 rows in rows/; newly selected: 1."
    assert headline(compared).endswith(said)
    (grid,) = _predictions(found).grids
    assert grid.columns == ("doc_id, term", "first", "second", "change", "selected: first → second")
    assert [(row[0], row[4]) for row in grid.rows] == [
        ("b, y", "no → yes"), ("a, y", "yes → no"), ("b, x", "yes → yes"),
    ]  # fmt: skip
    (step, _) = _page(compared).next_steps
    assert step.command.endswith("runs/b rows --new --selected")


def test_a_default_that_other_settings_decide_is_shown_with_its_value(tmp_path):
    for name, count in (("a", None), ("b", 5)):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        complete(paths, record(run_id=name, pipeline="experts", settings={"n_experts": count}))
    found = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")
    assert "n_experts: default (10) → 5" in headline(found)


def test_a_page_has_shared_baselines_alone_and_every_number_once_by_its_label(tmp_path):
    trees = {"auroc": 0.9, "log_loss": 0.5, "more": 0.1, "interval": [0.0, 0.2]}
    first = {"auroc": 0.996, "n_experts": 3, "baselines": {"trees": trees}}
    second = {"auroc": 0.5, "n_experts": 2, "baselines": {"trees": trees, "shares": trees}}
    for name, results in (("a", first), ("b", second)):
        run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        more = interval("0.996", "0.985 to 1.000")
        more["tiles"].append({"label": f"against {name}", "value": "better", "note": ""})
        complete(RunPaths(str(tmp_path), name), record(run_id=name, results=results, **more))
    found = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")
    assert list(found.parts["answer"]) == ["AUROC"]
    (grid,) = [g for g in _part(found, "results", folded=True).grids if "differ" in g.caption]
    assert grid.rows == [("experts kept in the final fit", "3", "2", "-1")]
    (same,) = [g for g in _part(found, "results", folded=True).grids if "same" in g.caption]
    assert "trees: log loss, baseline minus model" in [row[0] for row in same.rows]
    assert not [row for row in same.rows if "shares" in row[0] or row[0] == "AUROC"]
    steps = " ".join(step.command for step in _page(found).next_steps)
    assert f"vbflows show {tmp_path}/runs/b rows" in steps


@pytest.mark.parametrize("label", [pa.array([1, None], pa.int8()), pa.array(["1", None])])
def test_rows_that_moved_have_their_labels(tmp_path, label):
    columns = {"bag_id": ["a", "b"], "label": label}
    runs = [
        run_with(tmp_path, name, **columns, probability=[first, 0.2])
        for name, first in (("a", 0.1), ("b", 0.9))
    ]
    (found,) = compare_predictions(*runs)
    assert [(row.label, row.truth) for row in found.largest] == [("a", "1"), ("b", "")]
    (grid,) = _predictions(found).grids
    assert grid.columns == ("bag_id", "first", "second", "change", "crossed 0.5", "label as given")
    assert len(grid.rows) == 1


def test_a_card_has_only_numbers_of_both_runs(tmp_path):
    more = {"label": "against trees", "value": "+1", "note": ""}
    found = two_runs(tmp_path, tiles=[more, *interval("0.996", "0.985 to 1.000")["tiles"]])
    assert [tile.label for tile in _tiles(found)][:1] == ["AUROC"]
    assert "against trees" not in [tile.label for tile in _tiles(found)]


CROSSED = "1 of 2 probabilities in rows/ crossed 0.5."


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            {"settings": {"prior": 0.05, "tol": 1e-6}, **tile("9")},
            f"Found: - → 9, because of prior: 0.01 → 0.05. {CROSSED}",
        ),
        (
            {"settings": {"prior": None, "tol": 1.0}, **tile("9")},
            f"Found: - → 9, with prior: 0.01 → default; tol: 1e-06 → 1. {CROSSED}",
        ),
        (
            {"rows_kept": 7, "inputs": [InputRecord(url="a", size=1, fingerprint="f", rows=7)]},
            f"The same answer, with other data: 1 → 7 rows. {CROSSED}",
        ),
        ({}, f"The same answer, with the same settings, data and versions. {CROSSED}"),
        (
            {"fitted": "20261126-b", **tile("9")},
            f"Found: - → 9, because of another fit: its own → 20261126-b. {CROSSED}",
        ),
    ],
)
def test_the_headline_says_what_changed_and_because_of_what(second, said, tmp_path):
    assert compared(tmp_path, **second) == said


def test_a_file_that_was_written_again_is_not_called_other_data(tmp_path):
    for name, mark in (("a", "one"), ("b", "two")):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        inputs = [InputRecord(url="x", size=9, fingerprint=mark, rows=2)]
        complete(paths, record(run_id=name, inputs=inputs))
    said = headline(compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b"))
    assert "an input written again, as large and with as many rows" in said


def test_rows_of_features_are_shown_by_the_probability_of_the_first(tmp_path):
    run = run_with(
        tmp_path, "a", id=["a", "b", "c"], feature_1=[0.1, 0.9, 0.5], feature_2=[1, 0, 0]
    )
    shown, count = rows_of(run, "rows", "", 2)
    assert (shown["id"].to_pylist(), count) == (["b", "c"], 3)
