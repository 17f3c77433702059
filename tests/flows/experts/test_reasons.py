"""Why a row has its probability, and which thresholds of a fit call it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy.special import expit

from flows.experts.design import Design
from flows.experts.encoding import Encoding, beyond_ranges
from flows.experts.predictions import MOST_COLUMNS, Reasons
from flows.experts.thresholds import (
    SHOWN,
    called_by_thresholds,
    count_scores,
    missed_at,
    threshold_tables,
)
from vbmodels.core.columns import Rule
from vbmodels.experts.columns import Encoded

COLUMNS = [
    Encoded("age", "number", fill=50.0, cells=(9, 0)),
    Encoded("site", "category", ("b", "c"), ("a",), cells=(2, 1, 6, 0)),
    Encoded("smokes", "yes or no", fill=0.3, cells=(9, 0)),
]


def reasons(columns=COLUMNS, weights=(2.0, 1.0, -2.9, 0.01, 0.5), groups=()):
    """Explain rows of which the log odds are a sum over the model's columns and an intercept."""
    size = len(weights) - 1
    centre, scale = np.array([50.0] + [0.0] * (size - 1)), np.array([10.0] + [1.0] * (size - 1))
    design = Design(np.arange(size).astype(str), centre, scale, False, np.ones(2), 1.0)
    encoding = Encoding(
        columns=columns, rules={one.name: Rule(one.kind) for one in columns},
        ranges={"age": (20.0, 80.0)}, groups=[dict.fromkeys(one, 1.0) for one in groups],
    )  # fmt: skip
    table = pa.table({
        "c.age": [65.0, None, 90.0], "c.site": ["c", "a", "b"], "c.smokes": [1.0, 0.0, 1.0],
    })  # fmt: skip
    found = Reasons("", lambda rows: expit(rows.dense @ np.array(weights)), encoding, design, None)
    vars(found)["table"] = table
    return found


def test_reasons_are_what_columns_add_beyond_a_usual_cell():
    """The largest first; what adds next to nothing is none."""
    said = reasons().why(np.array([2, 0, 1]))
    assert said == [
        "age 90 (+8.0), site b (+1.0); 1 other +0.0, start +0.5: sum +9.5",
        "age 65 (+3.0), site c (-2.9); 1 other +0.0, start +0.5: sum +0.6",
        "",
    ]


def test_columns_that_measure_the_same_are_one_reason():
    said = reasons(groups=[("age", "smokes")], weights=(2.0, 1.0, -2.9, 0.5, 0.5)).why(np.arange(3))
    assert said[0] == "age 65 and 1 more (+3.5), site c (-2.9); start +0.5: sum +1.1"


def test_a_flag_is_a_reason_by_its_word():
    found = reasons(weights=(0.0, 0.0, 0.0, 1.0, 0.0))
    assert found.why(np.arange(2)) == [
        "smokes yes (+1.0); 2 others together +0.0, start +0.0: sum +1.0",
        "",
    ]


def test_too_many_columns_have_no_reasons():
    found = reasons(weights=(1.0,) * (MOST_COLUMNS + 2))
    assert found.why(np.arange(3)) == ["", "", ""]


def test_numbers_outside_the_range_of_the_fit_are_named():
    found = reasons()
    vars(found)["table"] = found.table.append_column("id", pa.array(["r1", "r2", "r3"]))
    assert found.outside() == [False, False, True]
    beyond = found.count(["well (P 0.1)", "", "ill (P 0.9)"])
    assert beyond == (1, {"age": 1}, [("r3", "age", "90", "20 to 80", "ill (P 0.9)")])
    text = "1 row has numbers outside the range of the fit, where predictions are extrapolated: "
    end = ". Check these values; correct them and score again. Where they are right, do not rely "
    end += "on the prediction."
    assert beyond_ranges([beyond]) == [f"{text}r3: age 90 (fit: 20 to 80){end}"]
    assert beyond_ranges([beyond], "Strange numbers") == [f"{text}r3 (see Strange numbers){end}"]
    assert beyond_ranges([]) == []


def test_the_thresholds_of_a_fit_call_new_rows():
    y, p = np.array([False, False, True, True]), np.array([0.05, 0.6, 0.4, 0.95])
    tables, found = threshold_tables(count_scores(y, p), "ill")
    new = np.array([0.3, 0.5, 0.97])
    grid = called_by_thresholds(found, (new[:, None] >= SHOWN).sum(0), 3, "ill")
    assert grid.columns[2] == "called, of 3"
    assert [row[2] for row in grid.rows] == [int((new >= float(row[0])).sum()) for row in grid.rows]
    assert [(*row[:2], *row[3:]) for row in grid.rows] == tables[0].rows
    older = [one for one in found if one["threshold"] not in (0.2, 0.8)]
    assert called_by_thresholds(older, (new[:, None] >= SHOWN).sum(0), 3, "ill") == grid
    said = missed_at({"thresholds": found, "test_rows": 4, "fitted_share": 0.4}, (0.2, 0.8), "ill")
    assert said == (
        "Of the fit's held-out rows none of 2 ill (0 to 66 %) was below 0.2 and none of 2 others "
        "(0 to 66 %) above 0.8. "
        "Whether 0.8 means 8 in 10 could not be checked: 4 rows are too few. "
        "Of the fitted rows 40 % are ill."
    )
