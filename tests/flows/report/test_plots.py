"""Each mark of a picture carries its own values; a picture stays small."""

from __future__ import annotations

import re
import warnings

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
            NAMES, [("case", [(0.1, 0.05, 0.2), (0.01, 0.01, 0.01)])], "rate"
        ),
        ["first, case: 0.1 (0.05 to 0.2)", "second, case: 0.01"],
    ),
    "lines": (
        lambda: plots.lines([1000, 1001], [("case", [5.0, 6.5])], "chr1", "depth", "D"),
        ["case at 1,000: 5", "case at 1,001: 6.5"],
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


@pytest.mark.parametrize("kind", PICTURES)
def test_every_mark_has_its_words(kind):
    drawn, told = PICTURES[kind]
    assert re.findall(r'<g class="tip"><title>([^<]*)</title>', drawn()) == told


def test_a_long_line_has_a_hundred_marks_with_words():
    svg = plots.lines(np.arange(5000), [("case", np.ones(5000))], "chr1", "depth", "D")
    assert svg.count('class="tip"') == 100
    assert "case at 0: 1" in svg
    assert "case at 4,999: 1" in svg


@pytest.mark.parametrize("name", ["年龄多大", "नमस्ते", "age 🚀", "a\x1b[2Jb", "한국어 $x$"])
def test_names_without_glyphs_warn_of_nothing_and_stay_text(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = plots.bars([name, "<b>&"], [1.0, 2.0], name, "t")
        plots.lines([1.0, 2.0], [(name, [1.0, 2.0]), ("b", [2.0, 1.0])], name, name, "t")
        plots.heat_map([name], [name], [[0.5]], "t")
    if "\x1b" in name:
        assert "\x1b" not in svg.split("<title>", 2)[0]
    else:
        assert f"{name}</text>" in svg
        assert "&lt;b&gt;&amp;</text>" in svg
    assert "<text" not in plots.bars(["plain"], [1.0], "x", "t")  # drawn as it was
