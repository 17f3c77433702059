"""Features in codes: the same bits in an eighth of the bytes, and the same fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.contract.phrases_drawn import drawn
from vbmodels.core.fit import fit
from vbmodels.core.state import from_bytes, same_bits, to_bytes
from vbmodels.keywords.coded_features import LONGEST, SHORTEST, CodedFeatures
from vbmodels.keywords.phrases.batch import PhraseBatch
from vbmodels.keywords.phrases.jackknife import word_scores
from vbmodels.keywords.phrases.model import Keyphrases
from vbmodels.text.candidates import N_FOLDS


def columns(rows, distinct):
    rng = np.random.default_rng(distinct)
    return rng.permutation(rng.standard_normal(distinct)[np.arange(rows) % distinct])


@pytest.mark.parametrize("distinct", [1, SHORTEST, SHORTEST + 1, LONGEST, LONGEST + 1])
def test_every_number_comes_back_to_the_bit(distinct):
    rows = LONGEST + 7
    ends = np.resize([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308], rows)
    x = np.column_stack([columns(rows, distinct), ends, columns(rows, 3)])
    coded = CodedFeatures.of(x)
    assert coded.dense().tobytes() == x.tobytes()


def test_columns_that_go_together_share_a_code():
    count = columns(20_000, 300)
    x = np.column_stack([count, np.exp(count), count > 0.0, columns(20_000, 299)])
    coded = CodedFeatures.of(x)
    assert (len(coded.short), len(coded.long), len(coded.plain)) == (0, 2, 0)
    assert coded.dense().tobytes() == np.asfortranarray(x).tobytes()
    assert coded.changed(1, np.log).tobytes() == np.log(np.exp(count)).tobytes()


def test_a_fit_in_codes_is_the_fit():
    batch, _ = drawn(np.random.default_rng(2), 120)
    compact = from_bytes(to_bytes(batch.compact()), PhraseBatch)
    assert compact.x.shape == (batch.n_phrases, 0)
    assert compact.features.tobytes() == batch.x.tobytes()
    as_it_is, coded = (fit(Keyphrases(), [one]) for one in (batch, compact))
    assert same_bits(as_it_is.q, coded.q)
    assert compact.compact().features.tobytes() == batch.x.tobytes()


def test_a_word_s_own_score_is_the_one_of_its_fold_among_all():
    batch, _ = drawn(np.random.default_rng(3), 40)
    words = batch.words
    q = Keyphrases().words.init(Keyphrases().words.observe(words), np.random.default_rng(0))
    coefficients = np.random.default_rng(4).standard_normal((N_FOLDS + 1, len(q.location)))
    every = (words.features - q.location) / q.scale @ coefficients.T
    own = words.fold[words.document_of_word]
    for one in (words, words.compact()):
        found = word_scores(q, coefficients, one)
        assert_allclose(found, every[np.arange(len(own)), own], rtol=1e-10, atol=1e-12)
