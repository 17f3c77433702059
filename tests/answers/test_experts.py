"""Answers of experts: kept words of each kind, and what no page may say whatever the numbers."""

from dataclasses import replace

import numpy as np
import pytest

from flows.experts.answer import Answer
from flows.report import render
from tests.answers.snapshots import check_headline, kept, shown

KEPT = kept("experts")
LONG = "the pathologist's final diagnosis after review"


def answer_of(name: str) -> Answer:
    return shown("experts", name).answer


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("label", ["y", LONG])
@pytest.mark.parametrize("count", [1, 49, 1_234_567])
@pytest.mark.parametrize("better", [True, False])
def test_a_headline_has_at_most_90_characters(name, label, count, better):
    one = answer_of(name)
    test = one.test and replace(one.test, rows=count, better=better)
    if test is not None and hasattr(test, "right"):
        test = replace(test, right=count, common=count)
    names = replace(one.names, label=label, positive=label, classes=(label,) * 3)
    counts = replace(one.counts, rows=count)
    predicted = dict.fromkeys(one.predicted, count)
    changed = replace(one, names=names, test=test, counts=counts, predicted=predicted)
    check_headline("experts", name, changed, count)


def test_a_label_is_called_as_the_file_calls_it():
    one = answer_of("held_out")
    assert (one.names.positive, one.names.negative) == ("malignant", "benign")
    assert {row.label for row in one.lists["worst"].rows} == {"malignant", "benign"}


def test_a_score_says_what_the_fit_measured_and_measures_nothing_that_the_fit_has_read():
    fit = answer_of("held_out").test
    for name, seen in (("score", 0), ("score_labels", 0), ("score_seen", 1)):
        one = answer_of(name)
        assert (one.fit.test, one.seen) == (fit, seen)
        assert (one.test is not None) == (name == "score_labels")
    assert f"{fit.right} of {fit.rows} were right" in render.terminal(shown("experts", "score"))


@pytest.mark.parametrize("name", ["label", "groups", "classes", "number", "count"])
def test_all_rows_are_tested_by_folds(name):
    one = answer_of(name)
    assert (one.on, one.folds) == ("folds", 5)
    assert one.test.rows == one.counts.fitted == one.counts.rows
    assert one.test.groups == (60 if name == "groups" else one.test.rows)


def test_intervals_of_thresholds_are_wider_where_rows_are_of_groups():
    """As wide as of as many rows as the groups are worth."""
    one = answer_of("groups")
    half = next(found for found in one.thresholds if found.at == 0.5)
    share, n = half.miss_share, one.test.positives
    alone = 1.96 * np.sqrt(share.value * (1.0 - share.value) / n)
    assert share.high - share.low > 2.2 * alone
