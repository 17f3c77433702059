"""Pages in the words of the user's columns."""

from flows.report import plots
from flows.report.own_words import in_own_words
from flows.report.page import Findings, Grid, NextStep, Section

COLUMNS = {"bag": "Scan_ID", "instance": "eye"}


def findings():
    opened = Section("", "", (), (Grid(("instance",), [["x1"]], "Instances of a"),))
    return Findings(
        "3 of 4 bags are positive",
        [
            Section("In short", "Bags of an instance, in the table bags.", measures=True),
            Section(
                "A bag's instances",
                "See bag_id and {run}/bags.",
                [plots.bars(["a"], [1.0], "bags", "Bags")],
                [Grid(("bag", "P"), [("a", 0.5)], details=(opened,))],
            ),
        ],
        results={"bags": 4},
        next_steps=[NextStep("List all bags:", "vbflows show {run} bags")],
        predicted="3 bags",
    )


def test_prose_takes_the_words_of_the_columns_and_names_in_code_stay():
    found = in_own_words(findings(), COLUMNS, ["a", "x1"])
    first, second = found.sections
    assert (found.headline, found.predicted) == ("3 of 4 scans are positive", "3 scans")
    assert first.text == "Scans of an eye, in the table bags."
    assert second.title == "A scan's eyes"
    assert second.text.splitlines() == [
        "See bag_id and {run}/bags.",
        "In the words of the documentation a scan is a bag, an eye is an instance.",
    ]
    (grid,) = second.grids
    assert grid.columns == ("scan", "P")
    assert grid.details[0].grids[0].columns == ("eye",)
    assert second.plots[0]["description"] == "Scans"
    assert found.results == {"bags": 4}
    assert found.next_steps == [NextStep("List all scans:", "vbflows show {run} bags")]


def test_nothing_is_replaced_where_the_data_use_a_word_or_the_column_says_nothing():
    own = findings()
    assert in_own_words(own, COLUMNS, ["Bag 1"]) is own
    assert in_own_words(own, {"bag": "bag_id", "instance": ""}, []) is own
    assert in_own_words(own, {"bag": "scan", "instance": "scan"}, []) is own
    assert in_own_words(own, {"bag": "x1", "instance": "cells"}, []) is own
