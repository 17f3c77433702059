"""Selection against a plain loop over documents and thresholds."""

from itertools import pairwise

import numpy as np
import pytest

from reproduce.keyword_documents import select_share
from vbmodels.keywords.selection import select_by_fdr, select_new_by_fdr, word_ranks


def documents(seed, count=40, tied=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    r = rng.beta(0.4, 0.6, offsets[-1])
    if tied:
        r = np.round(r, 1)
    return r, rng.random(len(r)) < 0.1, offsets


def by_thresholds(r, observed, gamma):
    """Try every h: the text's rule with its errata put right."""
    r = np.where(observed, 1.0, r)
    chosen = observed.copy()
    for h in np.sort(np.unique(r))[::-1]:
        over = r >= h
        if (1.0 - r[over]).sum() <= gamma * over.sum():
            chosen = over | observed
    return chosen


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 1.0])
def test_fdr_is_the_smallest_threshold_that_holds_the_level(gamma, tied):
    r, observed, offsets = documents(3, tied=tied)
    found = select_by_fdr(r, observed, offsets, gamma)
    for i, j in pairwise(offsets):
        np.testing.assert_array_equal(found[i:j], by_thresholds(r[i:j], observed[i:j], gamma))


@pytest.mark.parametrize("share", [0.0, 0.28, 1.0])
def test_equal_size_takes_the_observed_then_the_best(share):
    score, observed, offsets = documents(5)
    found = select_share(score, observed, offsets, share)
    for i, j in pairwise(offsets):
        size = max(observed[i:j].sum(), int(np.floor((j - i) * share + 0.5)))
        assert found[i:j].sum() == size
        assert found[i:j][observed[i:j]].all()
        free = ~observed[i:j]
        inside, outside = score[i:j][free & found[i:j]], score[i:j][free & ~found[i:j]]
        assert inside.size == 0 or outside.size == 0 or inside.min() >= outside.max()


def test_ranks_are_those_of_one_stable_sort_of_all_words():
    rng = np.random.default_rng(7)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 40, 200))])
    score = rng.integers(0, 6, offsets[-1]) / 3.0  # many ties
    score[rng.random(len(score)) < 0.1] = np.inf
    document = np.repeat(np.arange(200), np.diff(offsets))
    order = np.lexsort((-score, document))
    expected = np.empty(len(score), int)
    expected[order] = np.arange(len(score)) - offsets[document] + 1
    assert np.array_equal(word_ranks(score, offsets), expected)


@pytest.mark.parametrize("gamma", [0.05, 0.3])
def test_known_words_do_not_pay_for_false_new_ones(gamma):
    rng = np.random.default_rng(3)
    offsets = np.array([0, 12, 12, 40, 41])
    r, known = rng.beta(0.5, 0.5, 41), rng.random(41) < 0.4
    chosen, papers = (
        select(r, known, offsets, gamma) for select in (select_new_by_fdr, select_by_fdr)
    )
    assert chosen[known].all()
    for i, j in pairwise(offsets.tolist()):
        new = ~known[i:j]
        inside = chosen[i:j] & new
        if inside.any():
            assert np.mean(1.0 - r[i:j][inside]) <= gamma
        # The next best one would break the level.
        left = np.flatnonzero(new & ~inside)
        if left.size:
            more = inside.copy()
            more[left[np.argmax(r[i:j][left])]] = True
            assert np.mean(1.0 - r[i:j][more]) > gamma
    assert np.all(papers >= chosen)
    assert np.mean(1.0 - r[papers & ~known]) > gamma
