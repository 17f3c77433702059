"""What is shown of kept answers of variants, and what holds of whatever else they could be."""

from dataclasses import replace

import pytest

from flows.report import render
from tests.answers.snapshots import ODD, check_headline, kept, shown, words

KEPT = kept("variants")


@pytest.mark.parametrize("name", KEPT)
def test_kept_warnings_are_said(name):
    one = shown("variants", name)
    said = render.warnings("variants", one.answer, one.commands)
    before, now = ({each.split("vbflows ")[0] for each in some}
                   for some in (one.record.warnings, said))  # fmt: skip
    assert now <= before


def changed(answer, count, name):
    """Return an answer with other numbers of calls and positions, and long names."""
    calls = [
        replace(one, case=name, chrom=name, pos=248_956_422, ref="ACGT" * 12, qual=250.0)
        for one in answer.calls
    ]
    cases = [
        replace(one, name=name, passed=count if calls else 0, positions=count,
                callable=None if one.callable is None else count)
        for one in answer.cases
    ]  # fmt: skip
    asked = replace(answer.asked, against=name) if answer.asked.against else answer.asked
    return replace(
        answer, asked=asked, calls=tuple(calls), cases=tuple(cases), filtered=count,
        passed=count if answer.best else 0,
    )  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("count", [1, 1_234_567])
def test_a_headline_has_at_most_90_characters(name, count):
    answer = changed(shown("variants", name).answer, count, "GL000220.1 of the long name " * 3)
    check_headline("variants", name, answer, count)
    again = shown("variants", name, answer)
    said = f"{render.terminal(again)}\n{words(render.page(again))}"
    assert ODD.search(said) is None


@pytest.mark.parametrize(
    ("files", "seen", "said"), [(1, 1, "nothing here is new"), (3, 2, "2 of 3")]
)
def test_input_that_the_fit_has_read_is_said(files, seen, said):
    one = shown("variants", KEPT[0])
    answer = replace(one.answer, files=files, seen=seen)
    assert said in render.caveat("variants", answer, one.commands)
