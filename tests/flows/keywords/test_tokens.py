"""Tokens that are given stay as they are, whatever text is with them."""

from numpy.testing import assert_array_equal

from vbmodels.text.token_kernels import UNKNOWN
from vbmodels.text.tokens import Labels, Row, read_tokens
from vbmodels.text.words import TextOptions


def test_tokens_that_are_given_stay_as_they_are_with_text():
    rows = [
        {"text": "A text. Of two.", "tokens": None, "pos": None, "sentence": None},
        {"text": "not read", "tokens": ["a b", ".", "it's"], "pos": None, "sentence": None},
        {"text": None, "tokens": ["x", "y"], "pos": ["NN", "DT"], "sentence": [4, 7]},
        {"text": None, "tokens": [], "pos": None, "sentence": None},
    ]
    found = read_tokens([Row(Labels("d"), **row) for row in rows], TextOptions())[0]
    assert_array_equal(found.offsets, [0, 6, 9, 11, 11])
    assert [found.names[i] for i in found.token[6:9]] == ["a b", ".", "it's"]
    assert_array_equal(found.sentence, [0, 0, 0, 1, 1, 1, *[UNKNOWN] * 3, 4, 7])
    assert_array_equal(found.pos[6:], [*[UNKNOWN] * 3, 0, -2])
    assert_array_equal(found.in_sentences, [True, False, True, False])
