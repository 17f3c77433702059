"""Known keyphrases ranked as if their documents' lists were hidden."""

from dataclasses import replace

import numpy as np
import pytest

from tests.contract.words_drawn import simulate_words
from tests.vbmodels.keywords.keyword_documents import typical_coefficients
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.phrases.jackknife import BEST, LabelledDocuments, known_among_best

NAMES = ("intercept", "log_tf_idf", "first_position", "spread", "inside_known")
MODEL = CorpusProbit()


@pytest.fixture(scope="module")
def batch():
    """Documents of which each lists some; the last feature is the label itself, and some noise."""
    rng = np.random.default_rng(0)
    w = typical_coefficients(3, 0.2)
    batch, _ = simulate_words(rng, 200, coefficients=w, mean_words=40.0)
    leak = batch.y + 0.1 * rng.standard_normal(batch.n_words)
    return replace(batch, x=np.column_stack([batch.x, leak]))


def by_hand(batch, score):
    """How many known ones are among the best of each labelled document."""
    found = []
    for d in range(batch.n_documents):
        own = batch.words(d)
        if batch.y[own].any():
            first = batch.x[own, 2]
            best = np.lexsort((first, -score[own]))[:BEST]
            found.append(int(batch.y[own][best].sum()))
    return np.array(found)


def test_ranks_are_those_of_a_fit_without_the_documents(batch):
    q = fit(MODEL, [batch]).q
    documents = LabelledDocuments.of(batch, 500, 10**9)
    found = known_among_best(MODEL, q, documents, NAMES)
    assert found.known.sum() == batch.y.sum()
    np.testing.assert_array_equal(found.by_tf_idf, by_hand(batch, batch.x[:, 1]))
    eta = np.empty(batch.n_words)
    for fold in range(10):
        away = batch.fold == fold
        without = replace(q, expected=False)
        seen = LabelledDocuments.of(replace(batch, y=np.ones_like(batch.y)), 500, 10**9)
        kept = np.repeat(~away, batch.sizes)
        rest = replace(
            batch, x=batch.x[kept], y=batch.y[kept], fold=batch.fold[~away],
            offsets=np.concatenate([[0], np.cumsum(batch.sizes[~away])]),
            complete=batch.complete[~away], edge_offsets=np.zeros(int(np.sum(~away)) + 1, int),
        )  # fmt: skip
        for _ in range(20):
            without = MODEL.global_step(without, MODEL.suff_stats(without, rest, None))
        x = (seen.units.x - q.location) / q.scale
        x[:, 4] = 0.0  # the leak
        eta[~kept] = (x @ without.theta[0, :-2])[~kept]
    expected = by_hand(batch, eta)
    assert abs(found.by_model.sum() - expected.sum()) <= 0.02 * batch.y.sum()
    assert found.by_model.sum() < 0.95 * np.minimum(found.known, BEST).sum()  # no leak


def test_some_documents_are_taken_and_put_together(batch):
    some = LabelledDocuments.of(batch, 20, 10**9)
    assert len(some.units.fold) == 20
    assert some.units.y.sum() > 0
    assert len(LabelledDocuments.of(batch, 500, 100).units.y) <= 100
    nothing = LabelledDocuments.of(replace(batch, y=np.zeros_like(batch.y)), 20, 10**9)
    assert (len(nothing.units.fold), len(nothing.units.y), len(nothing.units.offsets)) == (0, 0, 1)
    both = LabelledDocuments.joined([some, some])
    assert both.units.offsets[-1] == len(both.units.y) == 2 * len(some.units.y)
    np.testing.assert_array_equal(both.units.n_observed[:20], both.units.n_observed[20:])
