"""What is shown of kept answers of variants, and what holds of whatever else they could be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.report import render
from flows.variants.settings import VariantSettings
from tests.answers import snapshots

KEPT = snapshots.kept("variants")
BY_NAME = pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)


@BY_NAME
def test_the_words_are_those_that_are_kept(path):
    shown = snapshots.shown(path, VariantSettings)
    snapshots.compare(path, "html", snapshots.words(render.page(shown)))
    snapshots.compare(path, "txt", f"{render.terminal(shown)}\n")
    said = render.warnings("variants", shown.answer, shown.commands)
    kept, made = ({one.split("vbflows ")[0] for one in some} for some in
                  (shown.record.warnings, said))  # fmt: skip
    assert made <= kept


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


@BY_NAME
@pytest.mark.parametrize("count", [1, 1_234_567])
def test_a_headline_has_at_most_90_characters(path, count):
    shown = snapshots.shown(path, VariantSettings)
    answer = changed(shown.answer, count, "GL000220.1 of the long name " * 3)
    again = snapshots.shown(path, VariantSettings, answer)
    for one in (shown, again):
        assert 0 < len(one.record.headline) <= 90
        said = f"{one.record.headline}\n{render.terminal(one)}\n{snapshots.words(render.page(one))}"
        assert snapshots.ODD.search(said) is None
    assert f"{count:,}" in again.record.headline


@pytest.mark.parametrize(
    ("files", "seen", "said"), [(1, 1, "nothing here is new"), (3, 2, "2 of 3")]
)
def test_input_that_the_fit_has_read_is_said(files, seen, said):
    shown = snapshots.shown(KEPT[0], VariantSettings)
    answer = replace(shown.answer, files=files, seen=seen)
    assert said in render.caveat("variants", answer, shown.commands)
