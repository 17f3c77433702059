"""What the example packages do before and around their models."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import digamma
from vbflows_lda import kernels, vocabulary
from vbflows_lda.settings import TopicSettings

from flows.faults import InputError


def test_words_are_counted_and_chosen_by_documents():
    table = vocabulary.counted(
        pa.chunked_array([["a", "b"]]), pa.chunked_array([["A cat, the cat; x 12", "The dog"]])
    )
    assert table["words"].to_pylist() == [["cat", "the"], ["dog", "the"]]
    assert table["counts"].to_pylist() == [[2, 1], [1, 1]]
    parts = [Counter(cat=3, the=5), Counter(cat=1, dog=1)]
    assert vocabulary.chosen(parts, 10, TopicSettings(largest_share=0.4)) == ["cat"]


def test_a_vocabulary_without_words_is_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"expected words that stand in 2 documents or more.*none"):
        vocabulary.chosen([Counter(dog=1)], 1, TopicSettings())


def test_the_digamma_of_the_kernel_is_scipys():
    x = np.concatenate([np.geomspace(1e-6, 1e6, 300), [1.4616321449683622]])
    found = np.array([kernels._digamma(one) for one in x])
    np.testing.assert_allclose(found, digamma(x), rtol=1e-13, atol=1e-14)
