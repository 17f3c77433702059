"""Why a row has its probability, and whether its numbers were in the fit."""

import numpy as np
import pyarrow as pa
from scipy.special import expit

from flows.experts.input.design import Design, Forms
from flows.experts.input.encoding import Encoding, Outside, count_beyond
from flows.experts.reasons import MOST_COLUMNS, Move, Reasons, Why
from vbmodels.tables.columns import Rule
from vbmodels.tables.encoding import Encoded

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
    forms = Forms(encoding, design, None, 1.0)
    found = Reasons("", forms, lambda rows: expit(rows.dense @ np.array(weights)))
    vars(found)["table"] = table
    return found


def why(total, *moves, others=0, start=0.5):
    return Why(tuple(Move(*one) for one in moves), others, 0.0, start, total)


def test_reasons_are_what_columns_add_beyond_a_usual_cell():
    """The largest first; what adds next to nothing is none."""
    first, second, none = reasons().why(np.array([2, 0, 1]))
    assert first == why(9.5, ("age 90", 8.0), ("site b", 1.0), others=1)
    assert second == why(0.6, ("age 65", 3.0), ("site c", -2.9), others=1)
    assert none is None


def test_columns_that_measure_the_same_are_one_reason():
    said = reasons(groups=[("age", "smokes")], weights=(2.0, 1.0, -2.9, 0.5, 0.5)).why(np.arange(3))
    assert said[0] == why(1.1, ("age 65", 3.5, 1), ("site c", -2.9))


def test_a_flag_is_a_reason_by_its_word():
    found = reasons(weights=(0.0, 0.0, 0.0, 1.0, 0.0))
    assert found.why(np.arange(2)) == [why(1.0, ("smokes yes", 1.0), others=2, start=0.0), None]


def test_too_many_columns_have_no_reasons():
    found = reasons(weights=(1.0,) * (MOST_COLUMNS + 2))
    assert found.why(np.arange(3)) == [None] * 3


def test_numbers_outside_the_range_of_the_fit_are_found():
    found = reasons()
    assert found.outside.tolist() == [False, False, True]
    beyond = count_beyond(found.raw, found.forms.encoding, ["r1", "r2", "r3"])
    assert beyond == (1, {"age": 1}, [Outside("r3", "age", 90.0, 20.0, 80.0)])
