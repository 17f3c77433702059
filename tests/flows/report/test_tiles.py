"""The numbers at the head of each pipeline's report, from what its run.json has."""

from __future__ import annotations

import pytest

from flows.experts.tiles import tiles_of as experts
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
