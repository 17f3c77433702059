"""The word graph and its scores, against definitions that share no code with them."""

import networkx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reproduce.keyword_documents import ss, textrank
from tests.vbmodels.keywords.keyword_documents import adjacency
from vbmodels.keywords.graph import normalised


def counted(words, n, window):
    """A_ij by its definition, position by position."""
    a = np.zeros((n, n))
    for s in range(len(words)):
        for t in range(len(words)):
            if s != t and abs(s - t) <= window:
                a[words[s], words[t]] += 1
    return a


def random_words(seed, size=200, n=30):
    return np.random.default_rng(seed).integers(0, n, size)


@pytest.mark.parametrize("window", [1, 2, 300])
def test_adjacency_counts_both_sides(window):
    words = random_words(1)
    found = adjacency(words, 32, window=window)
    assert_array_equal(found, counted(words, 32, window))


def test_textrank_is_pagerank_up_to_scale():
    a = adjacency(random_words(5), 30)
    ranks = networkx.pagerank(networkx.from_numpy_array(a), alpha=0.85, tol=1e-13, max_iter=1000)
    assert_allclose(textrank(a) / 30, [ranks[i] for i in range(30)], rtol=1e-8)


def test_ss_is_the_fixed_point_of_its_iteration():
    a = adjacency(random_words(6), 31)
    y = np.zeros(31, bool)
    y[[2, 5, 9]] = True
    theta = np.zeros(31)
    for _ in range(600):
        theta = 0.15 * y + 0.85 * normalised(a).T @ theta
    assert_allclose(ss(a, y), theta, atol=1e-12)
    assert ss(a, y)[30] == 0.0
