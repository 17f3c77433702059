"""Each mark of a chart carries its own values; a chart is plain JSON and stays small."""

import json

import numpy as np
import pytest

from flows.report import plots

NAMES = ["first", "second"]
PICTURES = {
    "trace": (
        lambda: plots.trace([1, 2], [-3.5, -1234.25]),
        ["sweep 1: -3.5000 nats", "sweep 2: -1,234.2500 nats"],
    ),
    "histogram": (
        lambda: plots.histogram([0.25, 0.75], "q", "words", "Q", bins=2, counts=[1200, 3]),
        ["0 to 0.5: 1,200 words", "0.5 to 1: 3 words"],
    ),
    "split_histogram": (
        lambda: plots.split_histogram(
            [("yes", np.array([2, 0])), ("no", np.array([1, 0]))], "p", "bags", "B"
        ),
        ["0 to 0.5: 2 yes", "0 to 0.5: 1 no"],
    ),
    "bars": (
        lambda: plots.bars(NAMES, [1.0, 2.5], "words", "W"),
        ["first: 1 words", "second: 2.5 words"],
    ),
    "intervals": (
        lambda: plots.intervals(NAMES, [1.0, -2.0], [0.5, 1.0], "slope", "S"),
        ["first: 1 (0.02 to 1.98)", "second: -2 (-3.96 to -0.04)"],
    ),
    "calibration": (
        lambda: plots.calibration([0.1, 0.9], [0.0, 1.0], [16, 1200], "C"),
        [
            "predicted 0.1: observed share 0 (0 to 0.231; n = 16)",
            "predicted 0.9: observed share 1 (0.996 to 1; n = 1,200)",
        ],
    ),
    "paired_intervals": (
        lambda: plots.paired_intervals(
            NAMES, [("case", [(0.1, 0.05, 0.2), (0.01, 0.01, 0.01)])], "rate", "R"
        ),
        ["first, case: 0.1 (0.05 to 0.2)", "second, case: 0.01"],
    ),
    "curve": (
        lambda: plots.curve([0.0, 1.0], [2.0, 3.0], [0.0, 1.0], "age", "log odds", "age"),
        ["age = 0: 2 (2 to 2)", "age = 1: 3 (1.04 to 4.96)"],
    ),
    "heat_map": (
        lambda: plots.heat_map(["F1"], NAMES, [[0.5, -0.25]], "H"),
        ["F1, first: 0.5", "F1, second: -0.25"],
    ),
}


def tips(spec):
    return [
        row["tip"] for layer in spec["layer"] for row in layer["data"]["values"] if "tip" in row
    ]


@pytest.mark.parametrize("kind", PICTURES)
def test_every_mark_has_its_text(kind):
    draw, texts = PICTURES[kind]
    spec = draw()
    assert list(dict.fromkeys(tips(spec))) == texts
    assert spec["description"]
    assert spec["usermeta"]["how"].endswith(".")
    json.dumps(spec, allow_nan=False)


def test_a_histogram_has_a_line_at_the_limit_of_the_selection():
    spec = plots.histogram([0.25, 0.75], "q", "words", "Q", bins=2, counts=[3, 1], limit=0.4)
    _, numbers, line = spec["layer"]
    assert [row["y"] for row in numbers["data"]["values"]] == [3, 1]
    assert numbers["encoding"]["text"]["field"] == "y"
    assert line["data"]["values"][0]["x"] == 0.4
    assert spec["usermeta"]["how"] == (
        "Words in steps of 0.5; lengths are logarithmic. Selected ones are right of the line at "
        "0.40."
    )


def test_a_rule_has_ticks_of_ratios_on_both_sides():
    spec = plots.paired_intervals(NAMES, [("a", [(1.0, 0.9, 1.2)] * 2)], "x", "t", rule=1.0)
    assert spec["layer"][0]["encoding"]["x"] == {"datum": 1.0}
    ticks = spec["encoding"]["x"]["axis"]["values"]
    assert [one for one in ticks if 0.6 < one < 2.0] == [0.67, 0.83, 1.0, 1.2, 1.5]


def test_what_is_not_finite_is_null():
    spec = plots.trace([1, 2], [np.nan, 1.0])
    assert [row["y"] for row in spec["layer"][0]["data"]["values"]] == [None, 1.0]


def test_a_steep_start_is_cut_off():
    elbo = [-1e6, *np.linspace(-10.0, -9.0, 20)]
    low, high = plots.trace(list(range(21)), elbo)["encoding"]["y"]["scale"]["domain"]
    assert -11.0 < low < elbo[2]
    assert -9.0 < high < -8.5


@pytest.mark.parametrize("name", ["年龄多大", "नमस्ते", "age 🚀", "a\x1b[2Jb", "한국어 $x$"])
def test_names_are_data_and_have_no_control_characters(name):
    spec = plots.bars([name, "<b>&"], [1.0, 2.0], name, name)
    (labels,) = spec["params"]
    expected = name.replace("\x1b", r"\x1b")
    assert labels["value"] == [expected, "<b>&"]
    assert spec["description"] == spec["encoding"]["x"]["title"] == expected
