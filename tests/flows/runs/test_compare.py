"""Two runs compared: what was changed, both on the same rows, and the rows that moved."""

import json

import numpy as np
import pyarrow as pa
import pytest

from flows import storage
from flows.faults import InputError
from flows.read import compared_rows
from flows.read.compare import compare, headline, page, terminal
from flows.records.runs import InputRecord, RunPaths, complete
from tests.flows.commands import run
from tests.flows.runs.test_publish import record

PIPELINE = {"pipeline": "experts", "settings": {"n_experts": None}}


def tables(target, name, table="rows", **columns):
    """Write a table in two parts."""
    paths = RunPaths(str(target), name)
    half = len(next(iter(columns.values()))) // 2
    labels = {"of": {"label": "of which"}}
    schema = pa.table(columns).schema
    fields = [one.with_metadata(labels.get(one.name)) for one in schema]
    rows = pa.table(columns, pa.schema(fields))
    storage.write_table(paths.table(table, 0), rows.slice(0, half))
    storage.write_table(paths.table(table, 1), rows.slice(half))
    return paths


def finished(target, name, own=None, **columns):
    paths = tables(target, name, **columns)
    complete(paths, record(run_id=name, **{**PIPELINE, **(own or {})}))
    return paths.root


def of_rows(tmp_path, first, second):
    """Compare two runs of one table each."""
    runs = [finished(tmp_path, name, **rows) for name, rows in (("a", first), ("b", second))]
    return compare(*runs)


def listed(moved):
    return [("".join(row.names.values()), row.what, row.first, row.second) for row in moved.rows]


def test_rows_are_matched_by_name_whatever_their_order(tmp_path):
    first = {"id": ["a", "a", "b", "c"], "of": ["x", None, None, None]}
    first["probability"] = [0.1, 0.4, 0.9, 0.5]
    second = {"id": ["e", "b", "a", "a"], "of": [None, None, None, "x"]}
    second["probability"] = [0.3, 0.85, 0.7, 0.1]
    (found,) = of_rows(tmp_path, first, second).moved
    assert (found.shared, found.first_alone, found.second_alone) == (3, 1, 1)
    assert found.mean == pytest.approx((0.0 + 0.3 + 0.05) / 3)
    assert found.largest == pytest.approx(0.3)
    assert (found.selected, found.crossed, found.moved) == (None, 1, 0)
    assert listed(found) == [("a", "crossed", 0.4, 0.7)]
    assert list(found.headings.values()) == ["id", "of which", "probability"]


@pytest.mark.parametrize(
    "columns",
    [
        {"id": ["a", "a"], "probability": [0.1, 0.2]},
        {"value": [1.0, 2.0], "probability": [0.1, 0.2]},
        {"id": ["a", "b"], "feature_1": [0.1, 0.2]},
    ],
)
def test_rows_that_cannot_be_matched_are_said_so(columns, tmp_path):
    found = of_rows(tmp_path, columns, columns)
    assert (found.moved, headline(found)) == ((), "No rows of the two runs can be matched")


def test_a_selection_says_what_was_added_and_dropped_and_how_many_may_be_right(tmp_path):
    first = {"id": list("wxyz"), "probability": [0.9, 0.8, 0.6, 0.3]}
    second = {"id": list("wxyz"), "probability": [0.9, 0.4, 0.9, 0.7]}
    first["selected"], second["selected"] = [True, True, False, False], [True, False, True, True]
    found = of_rows(tmp_path, first, second)
    (moved,) = found.moved
    assert (moved.selected, moved.added, moved.dropped) == (2, 2, 1)
    assert (moved.added_right, moved.dropped_right) == pytest.approx((1.6, 0.8))
    assert [one[:2] for one in listed(moved)] == [("y", "added"), ("z", "added"), ("x", "dropped")]
    assert headline(found) == "Rows: 2 added (2 expected right), 1 dropped, 1 stay"


def test_a_row_that_was_not_read_has_not_left_the_selection(tmp_path, monkeypatch):
    monkeypatch.setattr(compared_rows, "MOST_ROWS", 3)
    rows = {"id": list("abcd"), "probability": [0.9] * 4, "selected": [True] * 4}
    other = {name: values[::-1] for name, values in rows.items()}
    (found,) = of_rows(tmp_path, rows, other).moved
    assert (found.is_cut, found.dropped, found.added) == (True, 0, 0)


def test_a_fitted_row_is_compared_without_its_own_label(tmp_path):
    columns = {
        "bag_id": ["x", "y"], "label": pa.array([1, None], pa.int8()), "probability": [0.9, 0.8],
    }  # fmt: skip
    found = of_rows(
        tmp_path, columns | {"without_it": [0.2, None]}, columns | {"without_it": [0.7, None]}
    )
    (moved,) = found.moved
    assert listed(moved) == [("x", "crossed", 0.2, 0.7)]
    assert moved.rows[0].given == "1"


def test_numbers_move_in_units_of_their_spread(tmp_path):
    names = [f"r{i}" for i in range(100)]
    predicted = np.arange(100.0)
    other = predicted.copy()
    other[7] += 20.0
    other[8] += 0.5
    found = of_rows(
        tmp_path, {"id": names, "predicted": predicted}, {"id": names, "predicted": other}
    )
    (moved,) = found.moved
    assert (moved.is_chance, moved.moved, moved.crossed) == (False, 1, 0)
    assert listed(moved) == [("r7", "moved", 7.0, 27.0)]


def test_rows_of_a_group_are_drawn_together(tmp_path):
    """Ten rows of each of 40 groups differ alike: as if there were 40 rows."""
    rng = np.random.default_rng(1)
    shift, y = np.repeat(rng.standard_normal(40), 10), rng.standard_normal(400)
    names = [f"r{i}" for i in range(400)]
    widths = []
    for place, group in enumerate((names, [f"g{i // 10}" for i in range(400)])):
        rows = {"id": names, "label": y, "held_out": [True] * 400, "group": group}
        worse = {"predicted": y + 1.0 + 0.3 * shift}
        found = of_rows(tmp_path / str(place), rows | {"predicted": y}, rows | worse)
        less = found.paired.less
        assert (found.paired.rows, found.paired.measure, less.high < 0.0) == (400, "RMSE", True)
        widths.append(less.high - less.low)
        assert headline(found).startswith("The first run is better: RMSE ")
    assert widths[1] > 2.5 * widths[0]


def test_rows_weigh_as_they_did_in_the_first_run(tmp_path):
    y, weight = np.arange(6.0), np.array([1.0, 1.0, 1.0, 1.0, 4.0, 4.0])
    rows = {"id": [f"r{i}" for i in range(6)], "label": y, "held_out": [True] * 6}
    first = {"predicted": y + np.array([1.0] * 4 + [3.0] * 2), "weight": weight}
    found = of_rows(tmp_path, rows | first, rows | {"predicted": y + 2.0}).paired
    assert found.first == pytest.approx(np.sqrt((4 * 1.0 + 8 * 9.0) / 12))
    assert found.second == pytest.approx(2.0)
    assert found.less.value > 0.0
    less = {"predicted": first["predicted"], "weight": [1.0, 1.0, 1.0, 0.0, 4.0, None]}
    found = of_rows(tmp_path / "less", rows | less, rows | {"predicted": y + 2.0}).paired
    assert (found.rows, found.second_alone) == (4, 2)
    assert found.first == pytest.approx(np.sqrt((3 * 1.0 + 4 * 9.0) / 7))


@pytest.mark.parametrize(("kind", "measure"), [("number", "RMSE"), ("count", "deviance")])
def test_numbers_are_compared_by_fits_without_their_rows(tmp_path, kind, measure):
    """A fit that repeats its own labels is no better, where it is worse without them."""
    rng = np.random.default_rng(3)
    y = rng.poisson(4.0, 300).astype(float)
    rows = {"id": [f"r{i}" for i in range(300)], "label": y, "held_out": [False] * 300}
    first = {"predicted": np.full(300, 5.0), "without_it": np.full(300, 4.0)}
    second = {"predicted": y + 1e-3, "without_it": np.full(300, 9.0)}
    own = {"results": {"kind": kind}}
    runs = [
        finished(tmp_path, name, own, **(rows | more))
        for name, more in (("a", first), ("b", second))
    ]
    found = compare(*runs)
    assert (found.paired.measure, found.paired.less.high < 0.0) == (measure, True)
    assert headline(found).startswith(f"The first run is better: {measure} ")


def label_rows(kind, n=300):
    """Return names, labels and two sets of predictions, the second better."""
    rng = np.random.default_rng(2)
    y = (rng.random(n) < 0.4).astype(int)
    chances = [np.clip(0.5 + by * (y - 0.5), 0.05, 0.95) for by in (0.2, 0.5)]
    names = [f"r{i}" for i in range(n)]
    if kind == "bags":
        return [
            {"bag_id": names, "label": pa.array(y, pa.int8()), "probability": p,
             "held_out": [False] * n, "without_it": p}
            for p in chances
        ]  # fmt: skip
    text = np.where(y == 1, "Yes", "No").tolist()
    if kind == "tested":
        return [
            {"id": names, "label": text, "unit": range(n), "this model: No": 1.0 - p,
             "this model: Yes": p, "trees: No": p, "trees: Yes": 1.0 - p}
            for p in chances
        ]  # fmt: skip
    if kind == "levels":
        return [
            {"bag_id": names, "label": y + 1.0, "level": text, "held_out": [False] * n,
             "probability_No": [0.5] * n, "probability_Yes": [0.5] * n, "without_it_No": 1.0 - p,
             "without_it_Yes": p, "without_it": y + 1.0, "group": range(n)}
            for p in chances
        ]  # fmt: skip
    columns = [{"probability_yes": p} for p in chances]
    if kind == "classes":
        columns = [{"probability_no": 1.0 - p, "probability_yes": p} for p in chances]
    return [{"id": names, "label": text, "held_out": [True] * n, **own} for own in columns]


@pytest.mark.parametrize("kind", ["bags", "experts", "classes", "tested", "levels"])
def test_labels_are_judged_on_the_rows_that_both_have_tested(kind, tmp_path):
    found = of_rows(tmp_path, *label_rows(kind))
    paired = found.paired
    assert (paired.measure, paired.rows, paired.less.is_above) == ("log loss", 300, True)
    assert paired.second < paired.first
    assert paired.first - paired.second == pytest.approx(paired.less.value)
    assert headline(found).startswith("The second run is better: log loss ")
    same = of_rows(tmp_path / "same", label_rows(kind)[0], label_rows(kind)[0])
    assert headline(same).startswith("No clear difference: log loss ")


@pytest.mark.parametrize(
    ("columns", "labels"),
    [
        (["probability_1"], ["Yes", "true", "no"]),
        (["probability_1", "probability_2"], ["1.0", "1", "2.0"]),
    ],
)
def test_labels_are_those_of_their_columns_however_they_are_written(columns, labels, tmp_path):
    """New data may say yes or 1.0 where those of the fit said 1."""
    rows = {"id": list("abc"), "label": labels, "held_out": [True] * 3}
    rows |= dict(zip(columns, ([0.9, 0.9, 0.1], [0.1, 0.1, 0.9]), strict=False))
    found = of_rows(tmp_path, rows, rows).paired
    assert (found.rows, found.first) == (3, pytest.approx(-np.log(0.9)))


def test_chances_of_two_labels_are_not_compared_with_each_other(tmp_path):
    rows = {"id": list("abc"), "label": ["yes", "no", "no"], "held_out": [True] * 3}
    found = of_rows(
        tmp_path, rows | {"probability_yes": [0.9] * 3}, rows | {"probability_no": [0.1] * 3}
    )
    assert (found.paired, found.moved) == (None, ())


def test_rows_of_a_class_whose_prediction_without_their_label_is_its_name_are_compared(tmp_path):
    rows = {"id": ["a", "b"], "label": ["x", "y"], "predicted": ["x", "x"], "held_out": [True] * 2}
    rows |= {"probability_x": [0.9, 0.7], "probability_y": [0.1, 0.3], "without_it": ["x", None]}
    found = of_rows(tmp_path, rows, rows | {"probability_x": [0.9, 0.4]})
    assert [listed(moved) for moved in found.moved] == [[("bx", "crossed", 0.7, 0.4)]]


def test_the_probability_of_any_class_counts_and_is_named(tmp_path):
    """The first class stays as it is; the row is now of another class."""
    rows = {"id": ["a", "b", "c"], "probability_x": [0.1, 0.2, 0.2]}
    first = rows | {"probability_y": [0.8, 0.7, 0.4], "probability_z": [0.1, 0.1, 0.4]}
    second = rows | {"probability_y": [0.2, 0.7, 0.2], "probability_z": [0.7, 0.1, 0.6]}
    comparison = of_rows(tmp_path, first, second)
    (found,) = comparison.moved
    assert (found.shared, found.crossed, found.moved) == (3, 2, 0)
    assert listed(found) == [("ay", "crossed", 0.8, 0.2), ("cz", "crossed", 0.4, 0.6)]
    assert list(found.headings.values()) == ["id", "class", "probability"]
    assert found.mean == pytest.approx((0.6 + 0.2) / 3)
    assert headline(comparison).startswith("2 of 3 probabilities crossed 0.5")


def test_a_predicted_number_without_a_bag_is_no_probability_of_its_level(tmp_path):
    rows = {"bag_id": ["a", "b"], "predicted": [2.1, 1.2], "without_it": [2.3, 1.4]}
    rows |= {"probability_1": [0.1, 0.9], "probability_2": [0.9, 0.1]}
    first = rows | {"without_it_1": [0.2, 0.8], "without_it_2": [0.8, 0.2]}
    second = first | {"without_it_1": [0.2, 0.4], "without_it_2": [0.8, 0.6]}
    (found,) = of_rows(tmp_path, first, second).moved
    assert listed(found) == [("b1", "crossed", 0.8, 0.4)]


def test_bags_of_several_classes_have_a_row_for_each(tmp_path):
    rows = {
        "bag_id": ["x", "x", "y", "y"], "label": pa.array([1, 0, 0, 1], pa.int8()),
        "probability": [0.9, 0.1, 0.2, 0.8], "held_out": [True] * 4,
        "class": ["a", "b", "a", "b"], "group": pa.array([1, 1, None, None], pa.int64()),
    }  # fmt: skip
    found = of_rows(tmp_path, rows, rows | {"probability": [0.9, 0.1, 0.7, 0.3]})
    assert (found.paired.rows, found.paired.second > found.paired.first) == (4, True)
    assert sorted(listed(found.moved[0])) == [
        ("ya", "crossed", 0.2, 0.7),
        ("yb", "crossed", 0.8, 0.3),
    ]


def test_rows_with_other_labels_are_not_measured(tmp_path):
    one, two = label_rows("experts")
    two["label"] = two["label"][::-1]
    assert of_rows(tmp_path, one, two).paired is None


def test_a_score_is_measured_on_all_its_labels(tmp_path):
    one, two = (rows | {"held_out": [False] * 300} for rows in label_rows("experts"))
    assert of_rows(tmp_path / "fits", one, two).paired is None
    runs = [
        finished(tmp_path, name, {"fitted": "r0"}, **rows)
        for name, rows in (("a", one), ("b", two))
    ]
    assert compare(*runs).paired.rows == 300


ROWS = {"id": ["a", "b"], "probability": [0.1, 0.4]}


def changes(tmp_path, first, second):
    runs = [finished(tmp_path, name, own, **ROWS) for name, own in (("a", first), ("b", second))]
    found = compare(*runs)
    return found, [(one.kind, one.name, one.first, one.second) for one in found.changes]


def test_what_was_changed_is_listed_settings_first(tmp_path):
    file = InputRecord(url="a", size=1, fingerprint="f", rows=7)
    settings = {"seed": 1, "n_experts": 5, "columns": {"id": "patient"}}
    own = {
        "settings": settings, "changed": {"n_experts": 5}, "inputs": [file], "source": "new.csv",
        "since": "r0", "fitted": "r9", "versions": {"numpy": "2"},
    }  # fmt: skip
    first = {"settings": {"seed": 0, "n_experts": None, "columns": {}}, "versions": {"numpy": "1"}}
    found, said = changes(tmp_path, first, own)
    assert said == [
        ("column", "id", "none", "patient"),
        ("setting", "n_experts", "10", "5"),
        ("setting", "seed", "0", "1"),
        ("input", "input", "in", "new.csv"),
        ("fit", "fit", "", "r9"),
        ("start", "since", "", "r0"),
        ("version", "numpy", "1", "2"),
    ]
    text = terminal(found, 5)
    assert "n_experts=5 (was 10)" in text
    assert "and 4 more" in text


def test_equal_runs_say_so_and_time_is_no_difference(tmp_path):
    found, said = changes(tmp_path, {"seconds": 1.0}, {"seconds": 9.0, "peak_memory_bytes": 7})
    assert said == []
    assert "Same settings, input and versions." in terminal(found, 5)


def test_a_warning_of_one_run_alone_is_shown(tmp_path):
    found, _ = changes(tmp_path, {"warnings": ["both", "old"]}, {"warnings": ["both"]})
    assert (found.first.warnings, found.second.warnings) == (("old",), ())
    assert "warning of the first run alone: old" in terminal(found, 5)


def test_two_pipelines_do_not_compare(tmp_path):
    runs = [
        finished(tmp_path, name, {"pipeline": name}, **ROWS) for name in ("experts", "keywords")
    ]
    with pytest.raises(InputError, match="a first run of experts and a second of keywords"):
        compare(*runs)


@pytest.mark.parametrize("rows", [1, 1_234_567])
@pytest.mark.parametrize("kind", ["paired", "selection", "chances"])
def test_a_headline_has_at_most_90_characters(kind, rows, tmp_path):
    from dataclasses import replace

    if kind == "paired":
        found = of_rows(tmp_path, *label_rows("experts"))
        found = replace(found, paired=replace(found.paired, rows=rows))
    else:
        (moved,) = (found := of_rows(tmp_path, ROWS, ROWS)).moved
        own = {"shared": rows, "crossed": rows, "moved": rows}
        if kind == "selection":
            own |= {"selected": 2 * rows, "added": rows, "dropped": rows, "added_right": rows}
        found = replace(found, moved=(replace(moved, **own),))
    assert 20 < len(headline(found)) <= 90


def test_the_command_prints_a_page_and_all_rows(tmp_path, capsys):
    names = [f"<b>{i:03d}" for i in range(120)]
    runs = [
        finished(tmp_path, name, id=names, probability=[p] * 120)
        for name, p in (("a", 0.1), ("b", 0.9))
    ]
    file = tmp_path / "compared.html"
    code, out, _ = run(capsys, "compare", *runs, "--report", file)
    assert (code, out.count("crossed\n")) == (0, 5)
    html = file.read_text(encoding="utf-8")
    assert "&lt;b&gt;119" in html
    assert "<b>" not in html
    assert html.count('report.html">report</a>') == 2
    code, out, _ = run(capsys, "compare", *runs, "--rows")
    assert (code, out.count("crossed\n")) == (0, 120)
    _, out, _ = run(capsys, "compare", *runs, "--rows", "--json")
    assert len(json.loads(out)["moved"][0]["rows"]) == 120
    _, out, _ = run(capsys, "compare", *runs, "--json")
    assert "rows" not in json.loads(out)["moved"][0]
    assert headline(compare(*runs)) in page(compare(*runs))


def test_the_terminal_says_how_many_rows_changed_where_it_lists_a_few(tmp_path):
    first, second = ({"id": list("abcdefg"), "probability": [p] * 6 + [0.3]} for p in (0.1, 0.4))
    said = terminal(of_rows(tmp_path, first, second), 2)
    assert (said.count("  moved"), "rows: 7 rows in both; 6 changed; moved by" in said) == (2, True)
