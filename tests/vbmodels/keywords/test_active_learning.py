"""Documents worth labelling, against the variance of the number of false selections by draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.keywords.corpus.selection import choose_documents, uncertain_selections
from vbmodels.keywords.prior.counts import SPREAD_OF_NUMBERS

WEIGHTS = np.array([2.0, 0.5, 0.5]) / 3.0


@pytest.fixture
def words():
    """Six documents at three nodes; the last one is complete."""
    rng = np.random.default_rng(0)
    sizes = np.array([3, 8, 5, 12, 4, 6])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    middle = rng.beta(2.0, 1.0, offsets[-1])
    by_node = np.stack([middle, 0.8 * middle, np.minimum(1.2 * middle, 0.99)])
    observed = rng.random(len(middle)) < 0.15
    complete = np.arange(6) == 5
    return by_node, observed, observed | (middle > 0.6), complete, offsets


def test_the_variance_is_that_of_draws(words):
    by_node, observed, selected, complete, offsets = words
    part = uncertain_selections(by_node, WEIGHTS, observed, selected, complete, offsets, 10)
    rng = np.random.default_rng(1)
    node = rng.choice(3, 200_000, p=WEIGHTS)
    new = selected & ~observed
    false = rng.random((200_000, int(new.sum()))) > by_node[node][:, new]
    between = WEIGHTS @ (part.false - WEIGHTS @ part.false) ** 2
    assert_allclose(part.own_total + between, false.sum(1).var(), rtol=0.02)


def test_the_first_document_lowers_the_variance_most(words):
    by_node, observed, selected, complete, offsets = words
    part = uncertain_selections(by_node, WEIGHTS, observed, selected, complete, offsets, 10)
    between = WEIGHTS @ (part.false - WEIGHTS @ part.false) ** 2
    v, f = 0.3, 2.0
    gain = {}
    for d, own, k in zip(part.document, part.own, part.keywords, strict=True):
        after = 1.0 / (1.0 / v**2 + k / f)
        gain[int(d)] = own + between * (1.0 - after / v**2)
    chosen, removed = choose_documents([part], WEIGHTS, v, f, 3)
    best = max(gain, key=gain.get)
    assert chosen[0] == (0, best)
    assert_allclose(removed[0], gain[best] / (part.own_total + between))
    assert len(set(chosen)) == 3
    assert (0, 5) not in chosen


def test_all_that_is_open_is_settled_in_the_end(words):
    """All documents' own variances, and what their keywords say of the rate together."""
    by_node, observed, selected, complete, offsets = words
    complete = np.zeros(6, bool)
    part = uncertain_selections(by_node, WEIGHTS, observed, selected, complete, offsets, 10)
    between = WEIGHTS @ (part.false - WEIGHTS @ part.false) ** 2
    _, removed = choose_documents([part], WEIGHTS, 0.3, 1.0, 10)
    counted = part.keywords / np.maximum(1.0, SPREAD_OF_NUMBERS * part.keywords)
    left = between * 0.3**-2 / (0.3**-2 + counted.sum())
    assert_allclose(sum(removed), 1.0 - left / (part.own_total + between))


def test_partitions_do_not_matter(words):
    by_node, observed, selected, complete, offsets = words
    whole = uncertain_selections(by_node, WEIGHTS, observed, selected, complete, offsets, 10)
    cut = offsets[3]
    first = by_node[:, :cut], WEIGHTS, observed[:cut], selected[:cut], complete[:3], offsets[:4]
    rest = by_node[:, cut:], WEIGHTS, observed[cut:], selected[cut:], complete[3:]
    parts = [uncertain_selections(*first, 10), uncertain_selections(*rest, offsets[3:] - cut, 10)]
    one, removed = choose_documents([whole], WEIGHTS, 0.3, 1.0, 4)
    two, also = choose_documents(parts, WEIGHTS, 0.3, 1.0, 4)
    assert [d for _, d in one] == [3 * p + d for p, d in two]
    assert_allclose(removed, also)
