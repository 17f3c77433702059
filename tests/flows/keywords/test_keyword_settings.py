"""Settings of keywords as people write them."""

from __future__ import annotations

import pytest

from flows.faults import InputError
from flows.keywords.codes import CODES
from flows.keywords.languages import languages
from flows.keywords.settings import KeywordSettings
from flows.settings.load import load


@pytest.mark.parametrize(
    "text", ["0.1-0.3", ".1-.3", "10%-30%", "10 % to 30 %", "0.1,0.3", "[0.1, 0.3]", "[10%, 30%]"]
)
def test_a_range_is_read_as_people_write_it(text):
    given = load(KeywordSettings, None, [f"keyword_rate_range={text}"])
    assert given.keyword_rate_range == pytest.approx((0.1, 0.3))


@pytest.mark.parametrize(
    "text", ["few", "0.2", "[0.1]", "[a, b]", "{a: 1}", "0.1-0.2-0.3", "[0.1, 0.2, 0.3]", "1-3"]
)
def test_what_is_no_range_is_refused_in_a_sentence(text):
    with pytest.raises(InputError) as refused:
        load(KeywordSettings, None, [f"keyword_rate_range={text}"])
    said = (
        "settings, column keyword_rate_range: expected two shares, the lower one first, "
        "as 0.1-0.3 or [0.1, 0.3], found "
    )
    assert str(refused.value).startswith(said)


def test_a_range_from_high_to_low_is_refused():
    with pytest.raises(InputError, match=r"the lower one first, found 0\.3 and 0\.1"):
        load(KeywordSettings, None, ["keyword_rate_range=0.3-0.1"])


def test_a_range_in_the_rate_s_place_is_sent_to_its_own():
    said = "keyword_rate: expected one share; what it lies between goes into keyword_rate_range"
    with pytest.raises(InputError, match=said):
        load(KeywordSettings, None, ["keyword_rate=0.2-0.4"])


@pytest.mark.parametrize("text", ["de", "DE", "de_AT", "German", "german"])
def test_a_language_is_read_by_name_or_code(text):
    assert load(KeywordSettings, None, [f"language={text}"]).language == "german"


def test_every_code_is_of_a_language_that_there_is():
    assert set(CODES.values()) <= set(languages())
    assert load(KeywordSettings, None, ["language=klingon"]).language == "klingon"
