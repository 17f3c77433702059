"""Answers of bags: kept words of each kind, and what no page may say whatever the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from flows.bags.answer import Answer
from flows.bags.settings import BagSettings
from flows.evaluate.estimate import Estimate
from flows.report import render
from tests.answers.snapshots import ODD, compare, kept, shown, words

KEPT = {path.stem: path for path in kept("bags")}
LONG = "the pathologist's final diagnosis after review"


def answer_of(name: str) -> Answer:
    return shown(KEPT[name], BagSettings).answer


TESTED = [name for name in KEPT if answer_of(name).test]


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_answer_is_said_in_the_kept_words(name):
    one = shown(KEPT[name], BagSettings)
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
    if test is not None and one.kind != "number":
        test = replace(test, right=count, common=count // 2)
    names = replace(one.names, label=label, positive=label, levels=(label,) * len(one.names.levels))
    counts = replace(one.counts, bags=count)
    predicted = tuple(count for _ in one.predicted)
    changed = replace(one, names=names, test=test, counts=counts, predicted=predicted)
    said = shown(KEPT[name], BagSettings, changed).record.headline
    assert 20 < len(said) <= 90, said
    assert not ODD.search(said)
    assert f"{count:,}" in said


@pytest.mark.parametrize("name", [name for name in TESTED if answer_of(name).test.rivals])
@pytest.mark.parametrize("ends", [(0.0004, 0.0013), (-0.0004, 0.0003), (-0.5, -0.1), (-0.1, 0.5)])
def test_better_and_worse_are_said_of_what_is_printed(name, ends):
    one = answer_of(name)
    rivals = tuple(
        replace(rival, more=Estimate(sum(ends) / 2, *ends)) for rival in one.test.rivals[:1]
    )
    changed = replace(one, test=replace(one.test, better=True, rivals=rivals))
    said = render.terminal(shown(KEPT[name], BagSettings, changed))
    found = re.search(r"against .*: (.*) \(gain in .* \((\S+) to (\S+)\)\)", said)
    verdict, low, high = found.groups()
    assert ("better" in verdict) == (float(low) > 0)
    assert ("worse" in verdict) == (float(high) < 0)
    assert ("Better on these bags" in said) == (float(high) < 0)


@pytest.mark.parametrize("name", TESTED)
def test_without_a_gain_lists_and_advice_to_act_go(name):
    one = answer_of(name)
    changed = replace(one, test=replace(one.test, better=False))
    page = words(render.page(shown(KEPT[name], BagSettings, changed)))
    assert page.splitlines()[2].startswith("No better than ")
    assert "Do not act on these predictions" in page
    for said in ("Predict new bags", "Surest", "Largest", "What marks", "Most informative"):
        assert said not in page


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
    said = render.terminal(shown(KEPT["score_seen"], BagSettings))
    assert f"at the fit {fit.right} of {fit.rows} were right" in said
