"""Answers of experts: kept words of each kind, and what no page may say whatever the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from flows.evaluate.estimate import Estimate
from flows.experts.answer import Answer
from flows.experts.settings import ExpertSettings
from flows.report import render
from tests.answers.snapshots import ODD, compare, kept, shown, words

KEPT = {path.stem: path for path in kept("experts")}
TESTED = [name for name in KEPT if shown(KEPT[name], ExpertSettings).answer.test]
LONG = "the pathologist's final diagnosis after review"


def answer_of(name: str) -> Answer:
    return shown(KEPT[name], ExpertSettings).answer


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_answer_is_said_in_the_kept_words(name):
    one = shown(KEPT[name], ExpertSettings)
    compare(KEPT[name], "html", words(render.page(one)))
    compare(KEPT[name], "txt", render.terminal(one) + "\n")
    assert not ODD.search(render.markdown(one))


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
    said = shown(KEPT[name], ExpertSettings, changed).record.headline
    assert 20 < len(said) <= 90, said
    assert not ODD.search(said)
    assert f"{count:,}" in said


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("ends", [(0.0004, 0.0013), (-0.0004, 0.0003), (-0.5, -0.1), (-0.1, 0.5)])
def test_better_and_worse_are_said_of_what_is_printed(name, ends):
    one = answer_of(name)
    if not one.test.rivals:
        pytest.skip("a score has no rivals")
    rivals = (replace(one.test.rivals[0], name="trees", more=Estimate(sum(ends) / 2, *ends)),)
    changed = replace(one, repeated="", test=replace(one.test, better=True, rivals=rivals))
    said = render.terminal(shown(KEPT[name], ExpertSettings, changed))
    verdict, low, high = re.search(r"against .*: (.*) \(.* \((\S+) to (\S+)\)\)", said).groups()
    assert ("better" in verdict) == (float(low) > 0)
    assert ("worse" in verdict) == (float(high) < 0)
    assert ("Better on these rows" in said) == (float(high) < 0)


@pytest.mark.parametrize("name", TESTED)
def test_without_a_gain_lists_and_advice_to_act_go(name):
    one = answer_of(name)
    changed = replace(one, test=replace(one.test, better=False))
    page = words(render.page(shown(KEPT[name], ExpertSettings, changed)))
    assert page.splitlines()[2].startswith("No better than ")
    assert "Do not act on these predictions" in page
    for said in ("Predict new rows", "Predicted worst", "Which threshold", "What each column adds"):
        assert said not in page


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
    assert f"{fit.right} of {fit.rows} were right" in render.terminal(
        shown(KEPT["score"], ExpertSettings)
    )


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
