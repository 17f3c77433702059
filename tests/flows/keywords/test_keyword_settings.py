"""Settings of keywords as people write them."""

from __future__ import annotations

import pytest

from flows.faults import InputError
from flows.keywords.settings import KeywordSettings
from flows.settings.load import load


@pytest.mark.parametrize("text", ["0.1-0.3", "10%-30%", "10 % to 30 %", "[0.1, 0.3]", "[10%, 30%]"])
def test_a_range_is_read_as_people_write_it(text):
    given = load(KeywordSettings, None, [f"keyword_rate_range={text}"])
    assert given.keyword_rate_range == pytest.approx((0.1, 0.3))


@pytest.mark.parametrize("text", ["few", "0.2", "[0.1]", "[a, b]", "{a: 1}", "0.1-0.2-0.3"])
def test_what_is_no_range_is_refused_in_a_sentence(text):
    with pytest.raises(InputError) as refused:
        load(KeywordSettings, None, [f"keyword_rate_range={text}"])
    [fault] = refused.value.faults
    said = "setting keyword_rate_range: expected two shares, the lower one first, as 0.1-0.3"
    assert str(fault).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fdr=best_f", "setting fdr: expected a number, found 'best_f'"),
        ("per_document=2.5", "setting per_document: expected a whole number, found 2.5"),
        ("stop_words=maybe", "setting stop_words: expected true or false, found 'maybe'"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_plain_words(text, said):
    with pytest.raises(InputError) as refused:
        load(KeywordSettings, None, [text])
    assert str(refused.value) == said
