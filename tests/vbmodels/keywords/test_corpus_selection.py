"""One threshold over the corpus: against the exact selection, over any partitions."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vbmodels.core.state import leaves
from vbmodels.keywords.corpus.selection import (
    BINS,
    Histogram,
    select_above,
    select_in_documents,
)
from vbmodels.keywords.selection import select_new_by_fdr


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 60, 900)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    r = rng.beta(0.4, 1.2, offsets[-1])
    return r, rng.random(len(r)) < 0.08, offsets


def parts_of(words, n):
    r, known, offsets = words
    cuts = np.linspace(0, len(offsets) - 1, n + 1).astype(int)
    for a, b in pairwise(cuts):
        rows = slice(offsets[a], offsets[b])
        yield r[rows], known[rows], offsets[a : b + 1] - offsets[a]


@pytest.mark.parametrize("level", [0.05, 0.3])
def test_almost_as_many_as_the_exact_threshold_and_never_beyond_the_level(words, level):
    r, known, offsets = words
    chosen = select_above(r, known, offsets, Histogram.of(*words).least_by_fdr(level)) & ~known
    ordered = np.sort(r[~known])[::-1]
    exact = int(np.sum(np.cumsum(1.0 - ordered) <= level * np.arange(1, len(ordered) + 1)))
    assert 0.99 * exact <= chosen.sum() <= exact
    assert np.mean(1.0 - r[chosen]) <= level
    assert r[chosen].min() > r[~known & ~chosen].max()


def test_best_f_is_the_largest_expected_f(words):
    r, known, offsets = words
    chosen = select_above(r, known, offsets, Histogram.of(*words).least_by_f()) & ~known
    ordered = np.sort(r[~known])[::-1]
    f = 2.0 * np.cumsum(ordered) / (np.arange(1, len(ordered) + 1) + ordered.sum())
    found = 2.0 * r[chosen].sum() / (chosen.sum() + ordered.sum())
    assert found >= f.max() - 1e-4
    assert abs(chosen.sum() - f.argmax()) < 0.01 * len(ordered)


@pytest.mark.parametrize("most", [None, 3])
def test_partitions_add_to_the_whole(words, most):
    whole = Histogram.of(*words, most)
    parts = reduce(add, (Histogram.of(*part, most) for part in parts_of(words, 7)))
    for (name, a), (_, b) in zip(leaves(whole), leaves(parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=name)
    none = Histogram.of(np.zeros(0), np.zeros(0, bool), np.zeros(1, np.int64))
    assert (none.least_by_fdr(0.5), none.least_by_f()) == (BINS, BINS)


def test_a_limit_takes_the_best_of_each_document(words):
    r, known, offsets = words
    histogram = Histogram.of(*words, 2)
    chosen = select_above(r, known, offsets, histogram.least_by_fdr(0.3), 2) & ~known
    for a, b in pairwise(offsets):
        rows = np.flatnonzero(chosen[a:b])
        assert len(rows) <= 2
        if len(rows):
            best = np.sort(np.where(known[a:b], -1.0, r[a:b]))[::-1]
            assert r[a:b][rows].min() >= best[:2].min()
    assert np.mean(1.0 - r[chosen]) <= 0.3


@pytest.mark.parametrize(
    ("r", "chosen"), [([0.0, 0.0], 0), ([1e-4, 1e-5], 0), ([0.3, 0.01], 0), ([0.8, 0.01], 1)]
)
def test_best_f_takes_nothing_where_there_is_likely_nothing_to_find(r, chosen):
    """By all sets and all truths of two words, with F = 1 where nothing is there and taken."""
    r, known, offsets = np.array(r), np.zeros(2, bool), np.array([0, 2])
    found = select_above(r, known, offsets, Histogram.of(r, known, offsets).least_by_f())
    assert found.sum() == chosen

    def expected(taken):
        total = 0.0
        for truth in ((a, b) for a in (0, 1) for b in (0, 1)):
            chance = np.prod(np.where(truth, r, 1.0 - r))
            size = sum(truth) + taken
            total += chance * (2.0 * sum(truth[:taken]) / size if size else 1.0)
        return total

    assert np.argmax([expected(taken) for taken in range(3)]) == chosen


@pytest.mark.parametrize("most", [None, 2])
def test_a_document_may_have_its_own_threshold(words, most):
    r, known, offsets = words
    found = select_in_documents(r, known, offsets, 0.2, most)
    whole = select_new_by_fdr(r, known, offsets, 0.2)
    assert not (found & ~whole).any()
    new = np.add.reduceat((found & ~known).astype(int), offsets[:-1])
    assert new.max() <= (most or len(r))
    if most is None:
        assert_array_equal(found, whole)
