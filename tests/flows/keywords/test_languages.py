"""Languages: a list of stop words for each stemmer, and languages without one."""

import pyarrow as pa
import pytest
import Stemmer

from flows.keywords.input.documents import prepare
from vbmodels.text.languages import stop_words
from vbmodels.text.words import Normaliser, TextOptions

FREE = {"armenian": "եւ", "irish": "agus", "lithuanian": "ir", "yiddish": "און", "tamil": "ஒரு"}


def test_every_language_with_a_stemmer_has_stop_words():
    for language in Stemmer.algorithms():
        found = stop_words(language)
        assert len(found) > 30, language
        normalise = Normaliser(TextOptions(language=language))
        assert [word for word in found if " " not in word and normalise(word)] == [], language


def test_our_own_lists_hold_the_commonest_words_in_every_alphabet():
    assert all(word in stop_words(language) for language, word in FREE.items())
    assert {"između", "између", "njega", "њега"} <= stop_words("serbian")


def documents(text):
    return pa.table({"doc_id": ["d"], "text": [text], "keywords": [["sztucznej inteligencji"]]})


@pytest.mark.parametrize("language", ["ukrainian", "other"])
def test_a_language_without_a_stemmer_works(language):
    assert TextOptions(language=language).algorithm is None
    text = "Zastosowanie sztucznej inteligencji. Modele sztucznej inteligencji w medycynie."
    prepared = prepare(documents(text), TextOptions(language=language), True)
    assert "sztucznej" in prepared.vocabulary.to_pylist()
    assert prepared.marks.y.sum() == 1
