"""The numbers at the head of each pipeline's report, from what its run.json has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flows.experts.tiles import tiles_of as experts
from flows.features.tiles import tiles_of as features
from flows.keywords.tiles import tiles_of as keywords
from flows.report.baselines import baseline_tile
from flows.report.page import Findings, Tile
from flows.report.page import render as page_of
from flows.variants.bam_kernels import DUPLICATE, REACHED
from flows.variants.read_account import (
    FIELDS,
    SampleReads,
    input_grids,
    replicates_in_words,
    section,
)
from flows.variants.tiles import tiles_of as variants
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


def test_features():
    meaning = [
        {
            "feature": 1,
            "prevalence": 0.3,
            "prevalence_interval": [0.25, 0.35],
            "short_name": "a = 1",
            "other_starts": 2,
            "found_by": 2,
            "sure_rows": 0.75,
        },
        {"feature": 2, "prevalence": 0.4, "short_name": "b = 2", "other_starts": 2, "found_by": 0},
    ]
    results = {
        "features": 2, "rows": 216, "columns": [{}] * 4, "meaning": meaning, "imputed_cells": 12,
        "simpler_models": {
            "rows": 200.0, "features": -90.0, "best": "3 latent classes",
            "best_log_probability": -100.4,
        },
    }  # fmt: skip
    assert shown(features(results)) == {
        "features": ("2", "in 4 columns"),
        "most common feature": ("40\u00a0% of rows", "feature 2: b = 2"),
        "against 3 latent classes": ("no clear difference", "log probability of a row +0.0520"),
        "missing cells filled": (
            "12",
            "with the probability of each answer, in the table imputed/",
        ),
    }
    results["simpler_models"] |= {"best": "2 latent classes", "best_log_probability": -190.0}
    found = shown(features(results))
    assert found["against 2 latent classes"][0] == "this model is better"
    one = results | {"features": 1, "meaning": meaning[:1]}
    one["simpler_models"] |= {"each": [-109.0], "best": "one sliding scale"}
    found = shown(features(one))
    assert found["rows with the feature"] == (
        "30\u00a0% of rows",
        "95 % interval 25 to 35\u00a0% in the population",
    )  # fmt: skip
    assert "against 2 latent classes" not in found
    assert found["features"] == ("1", "in 4 columns: two groups, with and without it")
    assert found["against one sliding scale"][0] == "this model is better"
    found = shown(features(one, weighted=True))
    assert found["rows with the feature"][1].endswith(" in the population, by weight")
    none = {"features": 0, "rows": 9, "columns": [{}], "meaning": [], "imputed_cells": 0}
    assert list(shown(features(none))) == ["features"]
    models = {"features": -90.0, "best": "2 latent classes"}
    assert list(shown(features(none | {"simpler_models": models}))) == ["features"]


def test_variants():
    results = {"calls": 3, "passed": 1, "locations": 299, "callable_locations": 279,
               "median_limit_of_detection": 0.0147, "indels": 0, "indel_units": 436,
               "indel_alleles": 0}  # fmt: skip
    found = shown(variants(results, "at an FDR of 0.05", 0.05, 300))
    assert found["variants"] == ("1", "at an FDR of 0.05; 2 others filtered out")
    assert found["callable"] == (
        "93.0 %",
        "279 of 300 positions, for an allele in 5 % of the reads",
    )
    assert found["limit of detection"] == (
        "1.47 %",
        "of the reads; median of the 299 positions with reads",
    )
    assert found["insertions and deletions"] == ("0", "no read shows one")
    some = shown(variants(results | {"indel_alleles": 7}, "at an FDR of 0.05", 0.05, 300))
    assert some["insertions and deletions"] == ("0", "436 were tested")
    cases = {"cases": {"a": {"passed": 1}, "b": {"passed": 0}}, "calls": 2, "passed": 1}
    assert shown(variants(cases, "each", 0.05))["cases with a variant"] == ("1 of 2", "")


def test_every_file_of_reads_is_an_input():
    account = np.zeros((2, FIELDS), np.int64)
    account[:, REACHED], account[1, DUPLICATE] = (2000, 1000), 400
    depth = np.array([[6000, 3], [3000, 1]])
    columns = [("tumour", "1"), ("normal", "1")]
    reads = SampleReads(columns, 300, 299, depth, account, ["/d/t.bam", "/d/n.bam"])
    (grid,) = input_grids([reads, reads, None])
    assert list(grid.rows) == [
        ["tumour", "1", 2000, 0, "20.0", "t.bam"],
        ["normal", "1", 600, 400, "10.0", "n.bam"],
    ]
    assert grid.caption.endswith("; files are in /d")
    (grid,) = input_grids([SampleReads(columns, 300, 299, depth)])
    assert grid.columns == ["sample", "replicate", "mean depth"]
    assert grid.rows[0] == ["tumour", "1", "20.0"]
    assert input_grids([None]) == []


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


def test_the_account_of_reads_is_a_sentence_and_a_folded_table():
    rows = {"a 1": {"counted": 9, "unmapped": 0, "duplicate": 0},
            "b 1": {"counted": 8, "unmapped": 0, "duplicate": 1}}  # fmt: skip
    found = section(rows)
    assert found.grids[0].columns == ("replicate", "reads counted", "duplicates")
    assert found.grids[0].folded
    assert not section({"a 1": rows["a 1"]}).grids
    assert found.text.startswith("8 to 9 reads are counted in each replicate and 0 to 1 left out")


def test_replicates_of_one_sample_are_named_with_their_files():
    columns = [("tumour", "1"), ("tumour", "2"), ("normal", "1")]
    reads = SampleReads(columns, 300, 299, np.zeros((3, 2)), None, ["a.bam", "b.bam", "c.bam"])
    (said,) = replicates_in_words(reads)
    start = "a.bam and b.bam are taken as libraries of one sample, tumour. If they are different "
    assert said.startswith(f"{start}people, give each a sample name of its own")
    assert replicates_in_words(reads.of(columns[1:])) == ()
    assert replicates_in_words(replace(reads, files=())) == replicates_in_words(None) == ()
