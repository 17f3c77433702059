"""Answers of keywords: kept words of each kind, and what no page may say whatever the numbers."""

from dataclasses import replace

import pytest

from flows.evaluate.estimate import Estimate
from flows.keywords.answer import Answer, Expected, Measured
from flows.report import render
from tests.answers.snapshots import ODD, check_headline, kept, shown, words

KEPT = kept("keywords")


def answer_of(name: str) -> Answer:
    return shown("keywords", name).answer


def test_all_kinds_of_answers_are_kept():
    found = {name: answer_of(name) for name in KEPT}
    assert {one.likely.count > 0 for one in found.values()} == {True, False}
    assert {one.new.count > 0 for one in found.values()} == {True, False}
    assert found["titles"].cannot_tell
    assert found["gold"].measured
    assert (found["score"].fit.seen, found["score_seen"].fit.seen) == (0, 1)
    assert found["score"].fit.ranking == found["number"].ranking


def with_counts(answer: Answer, new: int, likely: int) -> Answer:
    right = Expected(0.42, 0.21, 0.54)
    levels = tuple(
        replace(level, count=n, documents=n, right=right if n else None)
        for level, n in zip(answer.levels, (new, likely, 0), strict=True)
    )
    counts = replace(answer.counts, documents=max(new, 1))
    return replace(answer, levels=levels, counts=counts)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("count", [1, 1_234_567])
@pytest.mark.parametrize("likely", [True, False])
def test_a_headline_has_at_most_90_characters(name, count, likely):
    changed = with_counts(answer_of(name), count, count if likely else 0)
    half = Estimate(0.5, 0.41, 0.59)
    for measured in (None, Measured(9, half, half, 0.5, half, 0.4)):
        check_headline("keywords", "number", replace(changed, measured=measured), count)


def test_with_nothing_new_there_is_no_list_and_no_advice_to_take_it():
    page = words(render.page(shown("keywords", "number",
                                   with_counts(answer_of("number"), 0, 0))))  # fmt: skip
    assert "likely.csv" not in page
    assert "is selected" in page


@pytest.mark.parametrize("ends", [(0.0004, 0.0013), (0.004, 0.013), (-0.5, -0.1), (-0.1, 0.5)])
def test_better_and_worse_are_said_of_what_is_printed(ends):
    one = answer_of("number")
    ranking = replace(one.ranking, apart=Estimate(sum(ends) / 2, *ends))
    found = shown("keywords", "number", replace(one, ranking=ranking))
    page, text = words(render.page(found)), render.terminal(found)
    assert ("against TF-IDF\nbetter" in page) == ("TF-IDF: better" in text) == (ends[0] > 0.0)
    assert ("TF-IDF ranks known keyphrases better" in page) == (ends[1] < 0.0)
    assert not ODD.search(text)
