"""Predictions of two runs are compared by the names of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flows.cli.output import out as console
from flows.data import storage
from flows.data.runs import InputRecord, RunPaths, complete
from flows.faults import InputError
from flows.runs.changed_rows import (
    moved_in_words,
    reasons_in_words,
    rows_in_words,
)
from flows.runs.compare import (
    changes,
    compare,
    effects,
    headline,
)
from flows.runs.compare_page import _page, _predictions, _tiles
from flows.runs.listing import rows_of
from flows.runs.paired import compare_held_out
from flows.runs.predictions import (
    ALIKE,
    BELOW,
    BEYOND,
    CROSSED,
    GAINED,
    LOST,
    MOVED,
    NEITHER,
    STAYED,
    Change,
    compare_predictions,
    why_not_compared,
)
from flows.runs.predictions import (
    BOTH as BOTH_SELECT,
)
from tests.flows.commands import answer, run, succeed
from tests.flows.experts.runs import latest, written
from tests.flows.experts.runs import rows_of as table_of
from tests.flows.runs.test_publish import record

BOTH = "first", "second"
CAPTION = ": probability in both runs, the "


def run_with(target, name, **columns):
    paths = RunPaths(str(target), name)
    half = len(next(iter(columns.values()))) // 2
    table = pa.table(columns)
    storage.write_table(paths.table("rows", 0), table.slice(0, half))
    storage.write_table(paths.table("rows", 1), table.slice(half))
    return paths


def named(change):
    return ", ".join(filter(None, change.row.values()))


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
    assert found.changed() == [Change({"id": "a", "of": ""}, 0.4, 0.7, what=CROSSED)]
    assert found.largest == pytest.approx(0.3)
    expected = np.corrcoef([0.1, 0.4, 0.9], [0.1, 0.7, 0.85])[0, 1]
    assert found.correlation == pytest.approx(expected)


def test_rows_without_names_of_their_own_are_not_compared(tmp_path):
    columns = {"id": ["a", "a"], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "ab")) == []
    columns = {"value": [1.0, 2.0], "probability": [0.1, 0.2]}
    assert compare_predictions(*(run_with(tmp_path, n, **columns) for n in "cd")) == []


def test_why_no_row_is_compared_is_what_the_tables_show(tmp_path):
    one = run_with(tmp_path, "a", id=["a", "a"], term=["s", "t"], probability=[0.1, 0.2])
    for name, columns, why in (
        ("b", {"id": ["c"], "term": ["s"]}, "no id of rows in common (1 and 1)."),
        ("c", {"id": ["a"], "term": ["u"]}, "no row of rows in common (2 and 1)."),
        (
            "d",
            {"of": ["a"], "term": ["s"]},
            "rows has id, term, probability, then of, term, probability.",
        ),
    ):
        two = run_with(tmp_path, name, **columns, probability=[0.3])
        assert compare_predictions(one, two) == []
        assert why_not_compared(one, two).endswith(why)
    two = run_with(tmp_path, "e", value=[1.0, 2.0])
    assert "no table of both runs" in why_not_compared(one, two)
    fits = [run_with(tmp_path, name, id=["a"], feature_1=[0.1]) for name in "fg"]
    assert why_not_compared(*fits).endswith("features of two fits are not matched.")


def test_a_run_without_spread_has_no_correlation(tmp_path):
    runs = [run_with(tmp_path, n, id=["a", "b"], probability=[0.5, 0.5]) for n in "ab"]
    (found,) = compare_predictions(*runs)
    assert found.correlation is None
    alike = _predictions(found, "")
    assert alike.text == "2 rows are in both runs, and no probability differs."
    assert (alike.plots, alike.grids) == ((), ())
    assert found.as_json(rows=False)["mean_change"] == 0.0


def compared(tmp_path, **second):
    """Return the headline for a run whose second fit differs in what is named."""
    for number, own in enumerate(({}, second)):
        paths = run_with(tmp_path, f"r{number}", id=["a", "b"], probability=[0.1, 0.4 + number / 2])
        values = {"run_id": paths.run_id, "settings": {"prior": 0.01, "tol": 1e-6}, **own}
        complete(paths, record(**values))
    return headline(compare(*(f"{tmp_path}/runs/r{number}" for number in range(2))))


def tile(value):
    return {"headline": f"{value} found", "tiles": [{"label": "found", "value": value, "note": ""}]}


def interval(value, note):
    tiles = [{"label": "AUROC", "value": value, "note": f"{note}; 46 rows not fitted"}]
    return {"tiles": tiles}


def two_runs(tmp_path, **second):
    """Compare runs with an AUROC, the second with what is named."""
    first = {**interval("0.996", "0.985 to 1.000"), "settings": {"n_experts": None}, "elbo": -9.0}
    for name, own in (("a", first), ("b", first | second)):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        complete(paths, record(run_id=name, **own))
    return compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")


def test_where_intervals_overlap_there_is_no_clear_difference_and_no_cause(tmp_path):
    found = two_runs(
        tmp_path, settings={"n_experts": 1}, **interval("0.998", "0.992 to 1.000")
    )  # fmt: skip
    assert headline(found) == (
        "With n_experts=1 instead of the default: no clear difference in AUROC, 0.998 (0.992 to "
        "1.000) instead of 0.996 (0.985 to 1.000); none of 2 probabilities crossed 0.5. Neither "
        "run is shown to be better."
    )
    assert found.as_json()["answer"]["AUROC"]["clear"] is False
    (tile,) = list(_tiles(found))[:1]
    assert tile.value == "0.996 → 0.998"
    assert tile.note.endswith("0.992 to 1.000: no clear difference (the intervals overlap)")


def test_an_interval_ends_before_what_its_note_adds(tmp_path):
    found = two_runs(tmp_path, **interval("99.8%", "99.2% to 100.0% (95\u00a0%)"))
    assert found.parts["answer"]["AUROC"]["intervals"] == ["0.985 to 1.000", "99.2% to 100.0%"]


def test_where_intervals_are_apart_the_difference_is_clear(tmp_path):
    found = two_runs(tmp_path, settings={"n_experts": 1}, **interval("0.5", "0.4 to 0.6"))
    assert headline(found).startswith(
        "With n_experts=1 instead of the default: AUROC 0.5 (0.4 to 0.6) instead of 0.996 (0.985 "
        "to 1.000); none"
    )
    assert headline(found).endswith(" Prefer the first run: clearly better by AUROC.")
    assert effects(found)[0].note.endswith("a clear difference (the intervals do not overlap)")


def test_time_and_memory_are_no_difference(tmp_path):
    found = two_runs(tmp_path, seconds=9.0)
    assert effects(found) == []
    assert found.parts["fit"]["seconds"]["second"] == 9.0


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
    assert headline(compared).endswith(
        ": 1 row added, probability 0.50; 1 row dropped, probability 0.30 by the first run; the "
        "other 1 stays."
    )
    assert (found.gained_right, found.lost_right, found.selected) == (0.5, 0.3, (2, 2))
    assert [(named(one), one.what) for one in found.changed()] == [("b, y", GAINED), ("a, y", LOST)]
    new, gone = _predictions(found, "").grids
    assert new.caption == f"1 newly selected{CAPTION}most probable first"
    assert gone.caption == f"1 no longer selected{CAPTION}most probable first"
    assert (new.rows, gone.rows) == ([("y", "0.10", "0.50", "b")], [("y", "0.30", "0.25", "a")])
    assert new.columns == gone.columns == ("phrase", *BOTH, "document")
    step, _, every = _page(compared, f"{tmp_path}/c.html").next_steps
    assert step.command.endswith("runs/b rows --new --selected")
    assert every.command == f"vbflows compare {tmp_path}/runs/a {tmp_path}/runs/b --rows"


def test_a_row_that_is_not_selected_has_the_reason(tmp_path, capsys, monkeypatch):
    """From what a run selects at least, and at most of a document, and the row's rank there."""
    columns = {"doc_id": ["a"] * 5, "term": list("vwxyz"), "observed": [False] * 5}
    for name, p, rank, selected, least, most in (
        ("a", [0.9, 0.8, 0.7, 0.6, 0.2], [1, 2, 3, 4, 5], [True] * 4 + [False], 0.3, 4),
        ("b", [0.7, 0.6, 0.5, 0.1, 0.65], [1, 3, 4, 5, 2], [True] + [False] * 3 + [True], 0.2, 3),
    ):
        paths = run_with(
            tmp_path, name, **columns, probability=p, selected=selected, rank=rank,
        )  # fmt: skip
        results = {"least_probability": least, "most_per_document": most}
        tiles = [{"label": "expected to be right", "value": f"{most} %", "note": ""}]
        settings = {"keyphrases": most}
        complete(
            paths,
            record(
                run_id=name, pipeline="keywords", results=results, tiles=tiles, settings=settings
            ),
        )
    runs = [f"{tmp_path}/runs/{name}" for name in "ab"]
    found = compare(*runs)
    (moved,) = found.predictions
    below, beyond = [BELOW.format(least) for least in (0.3, 0.2)], BEYOND.format(3)
    assert [(one.row["term"], one.what, one.why) for one in moved.changed()] == [
        ("z", GAINED, f"first run: {below[0]}"), ("w", LOST, f"second run: {ALIKE}"),
        ("x", LOST, f"second run: {beyond}"), ("y", LOST, f"second run: {below[1]}"),
        ("v", STAYED, BOTH_SELECT),
    ]  # fmt: skip
    assert reasons_in_words(moved) == (
        "Why the second run does not select the 3 no longer selected: part or near copy of another "
        "(1), beyond the 3 best of its document (1), below the limit of 0.2 (1). Why the first run "
        "does not select the 1 newly selected: below the limit of 0.3 (1)."
    )
    new, gone, stayed = _predictions(moved, "").grids
    assert (new.columns[-1], gone.columns[-1]) == tuple(f"why not in the {n} run" for n in BOTH)
    assert [row[-1] for row in new.rows] == [below[0]]
    assert [row[-1] for row in gone.rows] == [ALIKE, beyond, below[1]]
    assert stayed.columns == ("phrase", *BOTH, "document")
    assert headline(found).startswith("With keyphrases=3 (per document) instead of 4: ")
    code, out, _ = run(capsys, "compare", *runs, "--rows")
    assert (code, "beyond the" in out, "near copy" in out) == (0, True, True)
    monkeypatch.setenv("COLUMNS", "64")
    console.cache_clear()  # it keeps the width of an environment that has one
    _, out, _ = run(capsys, "compare", *runs, "--rows")
    console.cache_clear()
    assert "not shown: why (--json and --report have them)" in " ".join(out.split())
    (table,) = answer(capsys, "compare", *runs, "--rows")["predictions"]
    assert [row["why"] for row in table["rows"]] == [one.why for one in moved.changed()]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            [0.4, 0.5],
            [0.1, 0.3],
            "Of the 2, 0 rose and 2 fell; they moved by 0.25 on average, 0.30 at most.",
        ),
        ([0.4, 0.5], [0.4, 0.7], "Of the 2, 1 rose and 0 fell; they moved by 0.10 on average"),
        (
            [0.4, 0.5],
            [0.1, 0.7],
            "Of the 2, 1 rose and 1 fell; they moved by 0.25 on average, 0.30 at most.",
        ),
    ],
)
def test_the_direction_of_all_changes_is_said(tmp_path, first, second, said):
    runs = [
        run_with(tmp_path, n, id=["a", "b"], probability=p)
        for n, p in (("a", first), ("b", second))
    ]
    (found,) = compare_predictions(*runs)
    assert said in moved_in_words(found)


def test_a_row_of_one_run_alone_enters_and_leaves_the_selection(tmp_path):
    for name, ids in (("a", ["x", "y"]), ("b", ["x", "z"])):
        columns = {"id": ids, "probability": [0.9, 0.8], "selected": [True, True]}
        complete(run_with(tmp_path, name, **columns), record(run_id=name))
    (found,) = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b").predictions
    assert [one.as_row() for one in found.changed()] == [
        {"id": "z", "first": None, "second": 0.8, "what": GAINED},
        {"id": "y", "first": 0.8, "second": None, "what": LOST},
    ]
    assert (found.shared, found.only_first, found.only_second) == (1, 1, 1)
    assert rows_in_words(found) == (
        "1 row added (1 of these only the second run has), probability 0.80; 1 row dropped (1 of "
        "these only the first run has), probability 0.80 by the first run; the other 1 stays"
    )


def test_every_row_that_changed_is_printed_and_on_the_page(tmp_path, capsys):
    """Not the most moved alone: 120 leave the selection."""
    names = [f"n{i}" for i in range(200)]
    for name, kept in (("a", 150), ("b", 30)):
        selected = [i < kept for i in range(200)]
        columns = {"id": names, "probability": [0.5] * 200, "selected": selected}
        complete(run_with(tmp_path, name, **columns), record(run_id=name))
    runs = [f"{tmp_path}/runs/{name}" for name in "ab"]
    code, out, _ = run(capsys, "compare", *runs)
    assert (code, "--rows for all rows" in out) == (0, True)
    code, out, _ = run(capsys, "compare", *runs, "--rows")
    assert (code, out.count(LOST), out.count("120 rows dropped")) == (0, 120, 1)
    (table,) = answer(capsys, "compare", *runs, "--rows")["predictions"]
    assert [row["id"] for row in table["rows"]] == sorted(names[30:150])
    assert "rows" not in answer(capsys, "compare", *runs)["predictions"][0]
    (grid,) = _predictions(compare(*runs).predictions[0], "").grids
    assert len(grid.rows) == 120
    assert grid.most > 1000


def test_a_default_that_other_settings_decide_is_shown_with_its_value(tmp_path):
    for name, count in (("a", None), ("b", 5)):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        complete(paths, record(run_id=name, pipeline="experts", settings={"n_experts": count}))
    found = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")
    assert headline(found).startswith("With n_experts=5 instead of the default (10): ")
    back = compare(f"{tmp_path}/runs/b", f"{tmp_path}/runs/a")
    assert headline(back).startswith("With the default (10) for n_experts instead of 5: ")


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
    assert found.as_json()["results"]["n_experts"]["change"] == -1
    steps = " ".join(step.command for step in _page(found, f"{tmp_path}/c.html").next_steps)
    assert f"vbflows show {tmp_path}/runs/b rows" in steps


@pytest.mark.parametrize(
    "label", [pa.array([1, None, None], pa.int8()), pa.array(["1", None, None])]
)
def test_rows_that_moved_have_their_labels(tmp_path, capsys, label):
    columns = {"bag_id": ["a", "b", "c"], "label": label}
    runs = [
        run_with(tmp_path, name, **columns, probability=[first, 0.2, first])
        for name, first in (("a", 0.1), ("b", 0.9))
    ]
    (found,) = compare_predictions(*runs)
    (grid,) = _predictions(found, "").grids
    assert grid.columns == ("bag", *BOTH, "label as given")
    rows = [("a", "0.10", "0.90", "1"), ("c", "0.10", "0.90", "")]
    assert grid.rows == rows
    for paths in runs:
        complete(paths, record(run_id=paths.run_id))
    code, out, _ = run(capsys, "compare", *(paths.root for paths in runs))
    assert (code, grid.caption) == (0, f"2 crossed 0.5{CAPTION}largest change first")
    assert "given" in out


def test_a_fitted_row_is_compared_without_its_own_label(tmp_path):
    runs = [
        run_with(tmp_path, name, bag_id=["x", "y"], label=pa.array([1, None], pa.int8()),
                 probability=[0.9, 0.8], without_it=[without, None])
        for name, without in (("a", 0.2), ("b", 0.7))
    ]  # fmt: skip
    (found,) = compare_predictions(*runs)
    (change,) = found.changed()
    assert (named(change), change.first, change.second) == ("x", 0.2, 0.7)
    assert "without its own label" in _predictions(found, "").how


def test_rows_that_moved_most_are_first(tmp_path):
    for name, p in (("a", [0.1, 0.4, 0.7]), ("b", [0.45, 0.7, 0.95])):
        complete(run_with(tmp_path, name, id=["a", "b", "c"], probability=p), record(run_id=name))
    (found,) = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b").predictions
    assert [(named(one), one.what) for one in found.changed()] == [
        ("a", MOVED), ("b", CROSSED), ("c", MOVED),
    ]  # fmt: skip


def test_every_row_that_moved_is_listed_and_counted(tmp_path):
    """One that neither run selects too, after those that are selected, with its own size."""
    for name, p in (("a", [0.9, 0.1, 0.3]), ("b", [0.7, 0.4, 0.3])):
        columns = {"id": list("xyz"), "probability": p, "selected": [True, False, False]}
        complete(run_with(tmp_path, name, **columns), record(run_id=name))
    (found,) = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b").predictions
    assert [(named(one), one.what) for one in found.changed()] == [("x", STAYED), ("y", NEITHER)]
    assert (found.count, found.moved) == (2, 2)
    assert found.changed()[1].size == pytest.approx(found.largest)


def test_columns_that_were_named_are_compared_by_name(tmp_path):
    found = two_runs(tmp_path, settings={"n_experts": None, "columns": {"id": "patient"}})
    assert headline(found).startswith("With column id=patient (was not named): ")
    assert [(row.name, row.first, row.second) for row in changes(found)] == [
        ("column id", "not named", "patient")
    ]


def test_a_card_has_only_numbers_of_both_runs(tmp_path):
    more = {"label": "against trees", "value": "+1", "note": ""}
    found = two_runs(tmp_path, tiles=[more, *interval("0.9", "0.8 to 1.0")["tiles"]])
    assert [tile.label for tile in _tiles(found)][:1] == ["AUROC"]
    assert "against trees" not in [tile.label for tile in _tiles(found)]


ONE = "1 of 2 probabilities crossed 0.5."
NO_FILE = "0 files, 1 of 2 rows"


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            {"settings": {"prior": 0.05, "tol": 1e-6}, **tile("9")},
            f"With prior=0.05 instead of 0.01: found 9 in the second run alone; {ONE}",
        ),
        (
            {"settings": {"prior": None, "tol": 1.0}, **tile("9")},
            "With the default for prior instead of 0.01 and tol=1 instead of 1e-06: found 9 in the "
            f"second run alone; {ONE}",
        ),
        (
            {"rows_kept": 7, "inputs": [InputRecord(url="a", size=1, fingerprint="f", rows=7)]},
            f"With another input (1 file, 7 of 2 rows, instead of {NO_FILE}): the same answer; "
            f"{ONE}",
        ),
        ({}, f"With the same settings, input and versions: the same answer; {ONE}"),
        (
            {"fitted": "20261126-b", **tile("9")},
            "With the fit of 20261126-b instead of its own fit: found 9 in the second run alone; "
            f"{ONE}",
        ),
    ],
)
def test_the_headline_says_what_differs_and_then_what_that_did(second, said, tmp_path):
    assert compared(tmp_path, **second) == said


def test_a_file_that_was_written_again_is_not_called_other_data(tmp_path):
    for name, mark in (("a", "one"), ("b", "two")):
        paths = run_with(tmp_path, name, id=["a", "b"], probability=[0.1, 0.4])
        inputs = [InputRecord(url="x", size=9, fingerprint=mark, rows=2)]
        complete(paths, record(run_id=name, inputs=inputs))
    found = compare(f"{tmp_path}/runs/a", f"{tmp_path}/runs/b")
    assert headline(found).startswith(
        "With an input that was written again or changed (1 file, 1 of 2 rows): "
    )
    (row,) = changes(found)
    assert row.name == "input"
    assert row.note == (
        "0 of 1 files in the second run are as the first run read them; the others have the same "
        "size and number of rows."
    )


def test_rows_of_features_are_shown_by_the_probability_of_the_first(tmp_path):
    run = run_with(
        tmp_path, "a", id=["a", "b", "c"], feature_1=[0.1, 0.9, 0.5], feature_2=[1, 0, 0]
    )
    shown, count = rows_of(run, "rows", "", 2)
    assert (shown["id"].to_pylist(), count) == (["b", "c"], 3)


@pytest.mark.parametrize(
    ("note", "clear"),
    [("0.985 to 0.999. Higher is better", False), ("1,200 to 1,300, of all", True), ("", None)],
)
def test_an_interval_ends_where_its_sentence_does(tmp_path, note, clear):
    tiles = [{"label": "AUROC", "value": "0.9", "note": note}]
    found = two_runs(tmp_path, tiles=tiles)
    assert found.parts["answer"]["AUROC"]["clear"] is clear


def test_a_row_that_was_not_read_has_not_left_the_selection(tmp_path, monkeypatch):
    monkeypatch.setattr("flows.runs.predictions.MOST_ROWS", 3)
    ids = {"a": ["k", "l", "m", "n"], "b": ["l", "m", "n", "k"]}
    runs = [
        run_with(tmp_path, name, id=own, probability=[0.9, 0.8, 0.7, 0.6], selected=[True] * 4)
        for name, own in ids.items()
    ]
    (found,) = compare_predictions(*runs)
    assert (found.cut, found.shared, found.lost, found.gained) == (True, 2, 0, 0)


def held_out_of(folder):
    rows = table_of(folder)
    return set(rows.filter(rows["held_out"])["id"].to_pylist())


def test_a_column_is_judged_by_the_rows_that_both_runs_held_out(tmp_path, capsys):
    """Intervals of each run overlap; the difference of pairs of rows leaves out zero."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1200, 2))
    number = 10.0 + x[:, 0] + 0.35 * x[:, 1] + rng.standard_normal(1200)
    cells = {"id": [f"r{i}" for i in range(1200)], "a": x[:, 0], "b": x[:, 1], "label": number}
    source = written(tmp_path, cells)
    words = ("--set", "test_share=0.3", "--set", "baselines=no")
    for name, more in (("one", ()), ("two", ("--exclude", "b", "--partitions", "3"))):
        succeed("experts", source, tmp_path / name, *words, *more)
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    kept = [held_out_of(latest(folder)[0]) for folder in (one, two)]
    assert kept[0] == kept[1]
    capsys.readouterr()
    found = answer(capsys, "compare", one, two)["answer"]["R2"]
    assert (found["clear"], found["better"]) == (True, "first")


def test_rows_of_a_group_are_drawn_together(tmp_path):
    """Ten rows of each of 40 groups differ alike: as if there were 40 rows."""
    rng = np.random.default_rng(1)
    shift, y = np.repeat(rng.standard_normal(40), 10), rng.standard_normal(400)
    names = [f"r{i}" for i in range(400)]
    widths = {}
    for group in (names, [f"g{i // 10}" for i in range(400)]):
        paths = [
            run_with(
                tmp_path, f"{len(widths)}{k}", id=names, label=y, predicted=y + k + 0.3 * k * shift,
                held_out=[True] * 400, group=group,
            )
            for k in (0, 1)
        ]  # fmt: skip
        tiles = [{"label": "R2", "value": "0.5", "note": ""}]
        found = compare_held_out(tuple(paths), (record(tiles=tiles), record(tiles=tiles)))
        assert (found.rows, found.better) == (400, "first")
        widths[group[0]] = found.high - found.low
    assert widths["g0"] > 2.5 * widths["r0"]
