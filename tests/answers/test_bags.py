"""Answers of bags: kept words of each kind, and what no page may say whatever the numbers."""

from dataclasses import replace

import pytest

from flows.bags.answer import Answer
from flows.report import render
from tests.answers.snapshots import check_headline, kept, shown

KEPT = kept("bags")
LONG = "the pathologist's final diagnosis after review"


def answer_of(name: str) -> Answer:
    return shown("bags", name).answer


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("label", ["y", LONG])
@pytest.mark.parametrize("count", [1, 49, 1_234_567])
@pytest.mark.parametrize("better", [True, False])
def test_a_headline_has_at_most_90_characters(name, label, count, better):
    one = answer_of(name)
    test = one.test and replace(one.test, rows=count, better=better)
    if test is not None and one.kind != "number":
        test = replace(test, right=count, common=count // 2)
    names = replace(one.names, label=label, positive=label, levels=(label,) * len(one.names.levels))
    counts = replace(one.counts, bags=count)
    predicted = tuple(count for _ in one.predicted)
    changed = replace(one, names=names, test=test, counts=counts, predicted=predicted)
    check_headline("bags", name, changed, count)


def test_a_label_is_called_as_the_file_calls_it():
    one = answer_of("held_out")
    assert (one.names.positive, one.names.negative) == ("malignant", "benign")
    assert answer_of("score").names == one.names
    given = {bag.given for some in one.bags.values() for bag in some}
    assert given == {"malignant", "benign"}


def test_a_score_says_what_the_fit_measured_and_measures_nothing_that_the_fit_has_read():
    fit = answer_of("held_out").test
    for name, seen in (("score", 0), ("score_labels", 0), ("score_seen", 1)):
        one = answer_of(name)
        assert (one.tested_at_fit, one.seen) == (fit, seen)
        assert (one.test is not None) == (name == "score_labels")
    said = render.terminal(shown("bags", "score_seen"))
    assert f"at the fit {fit.right} of {fit.rows} were right" in said
