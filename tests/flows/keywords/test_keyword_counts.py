"""Counts of candidates: exact, the same in any order and in any ranges."""

from collections import Counter

import numpy as np
import pytest

from flows.keywords.input.shards import COUNTS, rows_of, table_of
from vbmodels.keywords.candidate_counts import Whole, added, count_candidates
from vbmodels.text.candidates import N_FOLDS, fold_of

HALVES = ((0, 1 << 63), (1 << 63, 1 << 64))


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    made = []
    for _ in range(4):
        keys = np.unique(rng.integers(0, 1 << 63, 40).astype(np.uint64) << np.uint64(1))
        keys = np.unique(np.concatenate([keys, np.arange(20, dtype=np.uint64)]))
        folds = rng.integers(0, N_FOLDS, len(keys))
        known = (keys < 3) | (rng.random(len(keys)) < 0.1)
        made.append(table_of(count_candidates(keys, folds, np.ones(len(keys), bool), known)))
    return made


def test_counts_by_hand():
    keys = np.array([7, 3, 7, 7], np.uint64)
    looked_at, known = np.array([True, True, False, True]), np.array([True, False, False, True])
    found = table_of(count_candidates(keys, np.array([1, 0, 1, 2]), looked_at, known))
    assert found.schema == COUNTS
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (3, 0, 1, 1, 0), (7, 1, 2, 1, 1), (7, 2, 1, 1, 1),
    ]  # fmt: skip


def test_documents_that_nobody_looked_at_tell_frequencies_alone():
    keys, folds = np.full(5, 7, np.uint64), np.arange(5)
    looked_at, known = folds < 3, folds < 2
    rows = count_candidates(keys, folds, looked_at, known)
    found = Whole.of(rows, False).elsewhere(keys, folds)
    assert found.frequency.tolist() == [5] * 5
    assert found.documents.tolist() == [2, 2, 2, 3, 3]
    assert found.labels.tolist() == [1, 1, 2, 2, 2]
    assert rows.totals.sum(axis=1).tolist() == [3, 2]


@pytest.mark.parametrize("lone", [False, True])
def test_counts_add_in_any_order_and_in_any_ranges(tables, lone):
    sums = added([rows_of(t) for t in tables])
    assert table_of(sums).equals(table_of(added([rows_of(t) for t in tables[::-1]])))
    whole = Whole.of(sums, lone)
    halves = [Whole.of(added([rows_of(t).between(*ends) for t in tables]), lone) for ends in HALVES]
    assert table_of(added([half.rows for half in halves])).equals(table_of(whole.rows))
    assert sums.totals[0].sum() == sum(t["documents"].to_numpy().sum() for t in tables)


def test_what_the_corpus_says_of_a_candidate_leaves_its_own_fold_out(tables):
    whole = Whole.of(added([rows_of(t) for t in tables]), False)
    found = whole.elsewhere(np.array([0, 19, 5], np.uint64), np.array([0, 1, -1]))
    assert found.frequency.tolist() == [4, 4, 4]
    pairs = [
        row for t in tables for row in zip(*t.select([0, 1]).to_pydict().values(), strict=True)
    ]
    own = [sum(row == one for row in pairs) for one in ((0, 0), (19, 1))]
    assert found.documents.tolist() == [4 - own[0], 4 - own[1], 4]
    assert found.labels[0] == 4 - own[0]


def test_folds_depend_on_the_name_alone_and_are_of_equal_size():
    folds = [fold_of(f"document {i}") for i in range(20_000)]
    assert folds[:6] == [fold_of(f"document {i}") for i in range(6)]
    expected = 2000
    chi2 = sum((n - expected) ** 2 / expected for n in Counter(folds).values())
    assert len(set(folds)) == N_FOLDS
    assert chi2 < 33  # 99.99 % point with 9 degrees of freedom
