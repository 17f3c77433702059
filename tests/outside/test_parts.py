"""What the example packages do before and around their models."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import digamma
from vbflows_lda import kernels, vocabulary
from vbflows_lda.settings import TopicSettings

from flows.data import scale
from flows.faults import InputError
from vbmodels.core.moments import Moments


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


def test_a_row_with_other_columns_is_named():
    lists = pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float64()))
    table = pa.table({"id": ["first", "second"], "features": pa.chunked_array([lists])})
    with pytest.raises(InputError, match="expected 2 features in every row, found 1 in row second"):
        scale.features_of(table, "rows.parquet")


def test_scales_of_partitions_are_that_of_all_rows():
    x = np.random.default_rng(0).normal([1e6, 0.0, 3.0], [1.0, 1e-3, 0.0], (50, 3))
    found = scale.merged([Moments.of(p) for p in np.array_split(x, 4)])
    np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.sd[:2], x.std(0)[:2], rtol=1e-8)
    assert found.sd[2] == 1.0
