"""Text is split as textblob splits it, whatever stands in it, and in whatever company."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from flows.keywords import tokens as tokens_of
from flows.keywords.text import TextOptions, splitter
from flows.keywords.token_kernels import UNKNOWN
from flows.keywords.tokens import read_tokens

WORDS = "a b D p 3 8 o x X word and/or abc/def foo é U.S. e.g. etc. Dr. 100% n't don't it's"
SIGNS = "... .. . ! ? ( ) : ; = - * ' \" “ ” ‘ ’ < > ♥ ° _ ^ [ ] { } | / \\ , `"
BLANKS = ("\n\n", "\n\n\n", "\r\n\r\n", "\t", "  ", "\u00a0", "\x1c")
JOINED = ("( ! )", "(!)", " : ) ", " : D ", "END-OF-SENTENCE")
ALPHABET = [*WORDS.split(), *SIGNS.split(), *BLANKS, *JOINED]


def texts(seed, number):
    rng = random.Random(seed)
    return [
        "".join(rng.choice(ALPHABET) + rng.choice(("", " ")) for _ in range(rng.randint(0, 40)))
        for _ in range(number)
    ]


def lines_of(text, english):
    """What textblob makes of it; it knows of no word/word."""
    text = tokens_of._SLASH.sub(" / ", text)
    return [
        line.split(" ")
        for line in splitter().find_tokens(text, **({} if english else {"replace": {}}))
    ]


@pytest.mark.parametrize("language", ["english", "french"])
def test_documents_are_split_as_textblob_splits_each(language):
    options = TextOptions(language=language)
    found = read_tokens(pa.table({"text": texts(1, 1500)}), options)
    joined = 0
    for d, text in enumerate(texts(1, 1500)):
        own = slice(found.offsets[d], found.offsets[d + 1])
        lines = lines_of(text, language == "english")
        assert [found.names[i] for i in found.token[own]] == [t for line in lines for t in line]
        numbers = [number for number, line in enumerate(lines) for _ in line]
        assert_array_equal(found.sentence[own], numbers)
        joined += any(len(t) > 1 and t in ("(!)", ":)", ":D") for line in lines for t in line)
    assert joined > 20


def test_tokens_that_are_given_stay_as_they_are_beside_text():
    rows = [
        {"text": "A text. Of two.", "tokens": None, "pos": None, "sentence": None},
        {"text": "not read", "tokens": ["a b", ".", "it's"], "pos": None, "sentence": None},
        {"text": None, "tokens": ["x", "y"], "pos": ["NN", "DT"], "sentence": [4, 7]},
        {"text": None, "tokens": [], "pos": None, "sentence": None},
    ]
    found = read_tokens(pa.Table.from_pylist(rows), TextOptions())
    assert_array_equal(found.offsets, [0, 6, 9, 11, 11])
    assert [found.names[i] for i in found.token[6:9]] == ["a b", ".", "it's"]
    assert_array_equal(found.sentence, [0, 0, 0, 1, 1, 1, *[UNKNOWN] * 3, 4, 7])
    assert_array_equal(found.pos[6:], [*[UNKNOWN] * 3, 0, -2])
    assert_array_equal(found.told, [True, False, True, False])
