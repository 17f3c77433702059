"""Answers of features: kept words of each kind, and what no page may say whatever the numbers."""

from dataclasses import replace

import pytest

from flows.evaluate.estimate import Estimate
from flows.features.answer import Answer
from flows.report import render
from tests.answers.snapshots import check_headline, kept, shown, words

KEPT = kept("features")
LONG = "In general, how far do you agree that the service which you got was good?"


def answer_of(name: str) -> Answer:
    return shown("features", name).answer


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("column", ["q", LONG])
@pytest.mark.parametrize("rows", [1, 1_234_567])
@pytest.mark.parametrize("ahead", [None, Estimate(0.2, 0.1, 0.3), Estimate(-0.2, -0.3, -0.1)])
def test_a_headline_has_at_most_90_characters(name, column, rows, ahead):
    one = answer_of(name)
    features = [
        replace(each, name=tuple(replace(p, category=column, columns=(column,) * len(p.columns))
                                 for p in each.name))
        for each in one.features
    ]  # fmt: skip
    models = one.models and replace(one.models, ahead=ahead if one.features else None)
    changed = replace(one, features=tuple(features), rows=rows, models=models)
    check_headline("features", name, changed, rows)


@pytest.mark.parametrize("ends", [(0.0004, 0.0013), (-0.0004, 0.0003), (-0.5, -0.1), (-0.1, 0.5)])
def test_better_and_worse_are_said_of_what_is_printed(ends):
    one = answer_of("several")
    more = Estimate(sum(ends) / 2, *ends)
    rivals = tuple(
        replace(each, rival=replace(each.rival, more=more)) for each in one.cells.rivals[:1]
    )
    changed = replace(one, cells=replace(one.cells, rivals=rivals), models=None)
    whole = shown("features", "several", changed)
    page = words(render.page(whole))
    assert ("this model is better" in page) == (ends[0] > 0.0)
    assert ("this model is worse" in page) == (ends[1] < 0.0)
    warned = render.warnings("features", changed, whole.commands)
    assert any("Hidden cells" in warning for warning in warned) == (ends[1] < 0.0)


def test_a_score_names_features_as_the_fit_does():
    fit, score, seen = (answer_of(name) for name in ("several", "score", "score_seen"))
    assert [one.name for one in score.features] == [one.name for one in fit.features]
    assert [one.at_fit for one in score.features] == [one.share for one in fit.features]
    assert [one.share.value for one in seen.features] == pytest.approx(
        [one.share.value for one in fit.features]
    )
    assert (score.cells, score.scored.seen, seen.scored.seen) == (fit.cells, 0, 1)
