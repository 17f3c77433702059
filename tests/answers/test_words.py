"""What holds of kept answers of all families: their words are kept, and say what numbers do."""

import re
from dataclasses import replace
from html import unescape

import pytest

from flows.evaluate.estimate import Estimate
from flows.report import render
from tests.answers import keep
from tests.answers.snapshots import ALL, FAMILIES, compare, kept, shown, words

PREDICTED = [one for one in ALL if one[0] in ("bags", "experts")]
TESTED = [one for one in PREDICTED if shown(*one).answer.test]
COMPARED = [one for one in TESTED if shown(*one).answer.test.rivals]
GONE = {
    "bags": ("Predict new bags", "Surest", "Largest", "What marks", "Most informative"),
    "experts": ("Predict new rows", "Predicted worst", "Which threshold", "What each column adds"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_of_each_kind_is_kept(family):
    assert kept(family) == sorted(keep.runs_of(family).RUNS)


@pytest.mark.parametrize(("family", "name"), ALL)
def test_a_kept_answer_is_said_in_the_kept_words(family, name):
    compare(family, name)


@pytest.mark.parametrize(("family", "name"), ALL)
def test_prefect_has_the_first_rows_of_the_terminal(family, name):
    one = shown(family, name)
    cells = re.findall(r"^\| (.*) \|$", render.markdown(one).split("| | |")[0], re.MULTILINE)
    text = render.terminal(one).splitlines()
    for row in [cells[0], *cells[2:]] if cells else []:
        plain = unescape(re.sub(r"\\(.)", r"\1", row)).replace("\u00a0", " ").split(" | ")
        assert [line for line in text if line.split() == " ".join(plain).split()]


@pytest.mark.parametrize(("family", "name"), COMPARED)
@pytest.mark.parametrize("ends", [(0.0004, 0.0013), (-0.0004, 0.0003), (-0.5, -0.1), (-0.1, 0.5)])
def test_better_and_worse_are_said_of_what_is_printed(family, name, ends):
    one = shown(family, name).answer
    rivals = (replace(one.test.rivals[0], more=Estimate(sum(ends) / 2, *ends)),)
    changed = replace(one, test=replace(one.test, better=True, rivals=rivals))
    if family == "experts":
        rivals = (replace(rivals[0], name="trees"),)
        changed = replace(changed, repeated="", test=replace(changed.test, rivals=rivals))
    said = render.terminal(shown(family, name, changed))
    verdict, low, high = re.search(r"against .*: (.*) \(.* \((\S+) to (\S+)\)\)", said).groups()
    assert ("better" in verdict) == (float(low) > 0)
    assert ("worse" in verdict) == (float(high) < 0)
    assert ("Better on these " in said) == (float(high) < 0)


@pytest.mark.parametrize(("family", "name"), TESTED)
def test_without_a_gain_lists_and_advice_to_act_go(family, name):
    one = shown(family, name).answer
    changed = replace(one, test=replace(one.test, better=False))
    page = words(render.page(shown(family, name, changed)))
    assert page.splitlines()[2].startswith("No better than ")
    assert "Do not act on these predictions" in page
    for said in GONE[family]:
        assert said not in page
