"""Where a fit starts: the sample of the documents, its clusters, and the kernel's exp(digamma)."""

import itertools

import numpy as np
import pytest
from scipy.special import digamma

from vbflows_lda import kernels, start
from vbflows_lda.simulate import corpus, simulate
from vbmodels.core.state import same_bits, tree_sum


@pytest.mark.parametrize(("documents", "words"), [(7, 10_000), (1000, 60), (1000, 10_000)])
def test_the_sample_of_parts_is_that_of_the_whole(documents, words, monkeypatch):
    monkeypatch.setattr(start, "DOCUMENTS", documents)
    monkeypatch.setattr(start, "WORDS", words)
    counts, _, _ = simulate(np.random.default_rng(0), 40, 30, 3, words=12)
    counts = np.concatenate([counts, counts[:5], np.zeros((2, 30))])
    whole = start.Sample.of(corpus(counts, 30))
    for parts in (2, 7, 50):
        order = np.random.default_rng(parts).permutation(len(counts))
        cuts = np.array_split(order, parts)
        some = tree_sum(start.Sample.of(corpus(counts[cut], 30)) for cut in cuts)
        assert same_bits(some, whole)
    taken = {tuple(row) for row in start.table(whole.documents).toarray()}
    assert taken <= {tuple(row) for row in counts if row.any()}
    assert len(taken) == len(whole.key) == min(documents, 40 if words > 60 else len(whole.key))
    assert len(whole.documents.word) < words + 12


def test_clusters_find_topics_that_documents_do_not_share():
    rng = np.random.default_rng(0)
    rows = np.zeros((90, 30))
    for k, row in itertools.product(range(3), range(30)):
        rows[30 * k + row, 10 * k : 10 * k + 10] = rng.poisson(1.0, 10)
    found = start.clusters(start.Sample.of(corpus(rows, 30)).documents, 3, rng)
    assert ((found > 0).reshape(3, 3, 10).any(axis=2).sum(axis=1) == 1).all()
    assert found.sum() == rows.sum()
    few = start.Sample.of(corpus(rows[:29], 30))
    assert not start.clusters(few.documents, 3, rng).any()


def test_the_kernels_exp_digamma_is_scipys():
    x = np.concatenate([np.geomspace(0.01, 1e9, 500), [7.999999, 8.0, 8.000001]])
    mine = np.array([kernels._exp_digamma(v) for v in x])
    np.testing.assert_allclose(mine, np.exp(digamma(x)), rtol=1e-12)
