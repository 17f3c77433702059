"""The numbers at the head of each pipeline's report, from what its run.json has."""

from __future__ import annotations

import pytest

from flows.experts.tiles import tiles_of as experts
from flows.keywords.tiles import tiles_of as keywords
from flows.report.baselines import baseline_tile
from flows.report.page import Findings, Tile
from flows.report.page import render as page_of
from tests.flows.runs.test_publish import record


def shown(tiles):
    return {one.label: (one.value, one.note) for one in tiles}


@pytest.mark.parametrize(
    ("interval", "value"),
    [
        ((0.1, 0.3), "this model is better"),
        ((-0.3, -0.1), "this model is worse"),
        ((-0.1, 0.3), "no clear difference"),
    ],
)
def test_the_best_baseline_is_the_one_compared(interval, value):
    baselines = {
        "logistic regression": {"log_loss": 0.9, "more": 0.5, "interval": [0.4, 0.6]},
        "boosted trees": {"log_loss": 0.5, "more": 0.1, "interval": list(interval)},
    }
    low, high = interval
    note = f"log loss, baseline minus model: +0.100 ({low:+.3f} to {high:+.3f})"
    assert baseline_tile({"baselines": baselines}) == [Tile("against boosted trees", value, note)]
    assert baseline_tile({}) == []


def test_experts():
    assert shown(experts({}))["accuracy"][0] == "not known"
    results = {
        "accuracy": 0.957, "accuracy_interval": [0.93, 0.982], "test_rows": 46, "log_loss": 0.0822,
        "log_loss_interval": [0.0151, 0.1499], "share_log_loss": 0.6145,
        "test_positives": 14,
        "baselines": {
            "boosted trees": {"log_loss": 0.08, "more": -0.002, "interval": [-0.1, 0.1]},
            "this model without experts": {"log_loss": 0.01, "more": -0.07, "interval": [-1, -0.5]},
        },
    }  # fmt: skip
    found = shown(experts(results))
    assert found["accuracy"] == (
        "95.7\u00a0%",
        "93.0\u00a0% to 98.2\u00a0% (95\u00a0%); 46 held-out rows; higher is better",
    )
    assert found["log loss"] == (
        "0.082",
        "0.015 to 0.150 (95\u00a0%); lower is better; always saying 30.4\u00a0% has 0.615",
    )
    assert found["against boosted trees"][0] == "no clear difference"


def test_keywords():
    results = {
        "found": 921, "documents": 277, "documents_with_new": 209, "candidates": 26_424,
        "observed": 394, "expected_right": [0.398, 0.4021],
        "expected_false": 554.1, "keyword_rate": 0.0377, "keyword_rate_sources": ["your setting"],
        "keyword_rate_log_sd": 0.4,
        "known_given": 669, "known_absent": 266,
        "f": 0.576, "precision": 0.5, "recall": 0.68,
    }  # fmt: skip
    found = shown(keywords(results))
    assert found["new keyphrases"] == (
        "921",
        "in 209 of 277 documents",
    )
    assert found["known keyphrases"] == (
        "394",
        "of 669 given; 266 are not in their document's text; 9 other forms of one that is listed",
    )
    wrong = "by the model's own estimate: about 554 of the 921 are wrong"
    assert found["expected to be right"] == ("40 %", wrong)
    without = {name: value for name, value in results.items() if name != "f"}
    assert "estimate, not measured: about" in shown(keywords(without))["expected to be right"][1]
    number = "from your setting; of 95 candidate phrases, on average"
    assert found["keyphrases assumed in a text"] == ("3.6 (2.4 to 5.4)", number)
    assert found["F1 against true keyphrases"] == ("0.58", "precision 0.50, recall 0.68")
    results["expected_right"] = [0.21, 0.54]
    results["keyword_rate_log_sd"] = 0.0
    assert shown(keywords(results))["expected to be right"][0] == "21 to 54 %"
    results["expected_right"] = [0.04, 0.99]
    assert "expected to be right" not in shown(keywords(results))
    results["keyword_rate_sources"] = ["known keyphrases", "other corpora"]
    assert shown(keywords(results))["keyphrases assumed in a text"][1] == (
        "from known keyphrases and other corpora; of 95 candidate phrases, on average"
    )




def test_one_row_not_used_is_named_in_its_tile_and_has_no_table():
    lost = [{"reason": "position without a read", "count": 1, "examples": ["amplicon:300"]}]
    found = page_of(record(rows_read=300, rows_kept=299, dropped=lost), Findings("h", []))
    assert "<dd>not used: position without a read (1, amplicon:300)</dd>" in found
    assert "Rows and values not used" not in found
    lost[0] |= {"count": 2}
    found = page_of(record(rows_read=300, rows_kept=298, dropped=lost), Findings("h", []))
    assert "Rows and values not used" in found


@pytest.mark.parametrize(
    ("kept", "note"),
    [
        (277, "not used: document without a candidate (3)"),
        (280, "no row was left out"),
    ],
)
def test_the_rows_not_used_are_those_that_the_tile_names(kept, note):
    lost = [{"reason": "known keyphrase not in the text", "count": 266}]
    lost += [{"reason": "document without a candidate", "count": 3}] if kept < 280 else []
    found = page_of(record(rows_read=280, rows_kept=kept, dropped=lost), Findings("h", []))
    assert f"<dt>rows used</dt><dd>{kept} of 280</dd><dd>{note}</dd>" in found
