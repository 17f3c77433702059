"""Settings of keywords as people write them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flows.keywords.settings import KeywordSettings
from flows.settings import RunSettings
from flows.settings.load import load


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("phrase", "best_f", None)),
        ({"unit": "word"}, ("word", "fdr", None)),
        ({"unit": "word", "select": "best_f"}, ("word", "best_f", None)),
        ({"model": "vbss"}, ("word", "fdr", "full")),
        ({"model": "vbss", "inference": "gibbs"}, ("word", "fdr", "gibbs")),
        ({"model": "bss"}, ("word", "fdr", "gibbs")),
        ({"model": "textrank"}, ("word", "fdr", None)),
    ],
)
def test_what_depends_on_the_model_is_filled_in_and_shown(given, found):
    settings = KeywordSettings(**given)
    assert (settings.unit, settings.select, settings.inference) == found
    assert KeywordSettings(**settings.model_dump()) == settings


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"model": "vbss", "unit": "phrase"},
            "unit phrase goes with model corpus",
        ),
        ({"unit": "word", "keyphrases": 5}, "it goes with unit phrase; give keyword_rate"),
        ({"keyword_rate": 0.3}, "it goes with unit word; give keyphrases"),
        ({"rate_sd": 0.3}, "rate_sd is the uncertainty of a given rate: give the rate too"),
        ({"inference": "gibbs"}, "model corpus has no inference of its own, found inference gibbs"),
        ({"model": "bss", "inference": "full"}, "model bss has gibbs, found inference full"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given, sentence):
    with pytest.raises(ValidationError, match=sentence):
        KeywordSettings(**given)


def test_there_are_at_most_twenty_settings_and_five_come_first():
    own = set(KeywordSettings.model_fields) - set(RunSettings.model_fields)
    assert len(own) <= 18
    assert len(KeywordSettings.first) <= 5


@pytest.mark.parametrize("text", ["de", "DE", "de_AT", "German", "german"])
def test_a_language_is_read_by_name_or_code(text):
    assert load(KeywordSettings, None, [f"language={text}"]).language == "german"
