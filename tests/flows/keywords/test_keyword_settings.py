"""Settings of keywords as people write them."""

import pytest

from flows.keywords.settings import KeywordSettings
from flows.settings.load import load
from flows.settings.tables import FileTableSettings


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("phrase", "best_f", None)),
        ({"unit": "word"}, ("word", "fdr", None)),
        ({"unit": "word", "select": "best_f"}, ("word", "best_f", None)),
        ({"model": "vbss"}, ("word", "fdr", "full")),
        ({"model": "vbss", "inference": "mean_field"}, ("word", "fdr", "mean_field")),
    ],
)
def test_what_depends_on_the_model_is_filled_in_and_shown(given, found):
    settings = KeywordSettings(**given)
    assert (settings.unit, settings.select, settings.inference) == found
    assert KeywordSettings(**settings.model_dump()) == settings


def test_there_are_at_most_twenty_settings_and_five_come_first():
    own = set(KeywordSettings.model_fields) - set(FileTableSettings.model_fields)
    assert len(own) <= 20
    assert len(KeywordSettings.first) <= 5


@pytest.mark.parametrize("text", ["de", "DE", "de_AT", "German", "german"])
def test_a_language_is_read_by_name_or_code(text):
    assert load(KeywordSettings, None, [f"language={text}"]).language == "german"
