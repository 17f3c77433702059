"""Corpus counts: exact, the same in any order, bounded."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from flows.keywords.counts import (
    COUNTS,
    N_FOLDS,
    add_counts,
    count_terms,
    fold_of,
    merge_counts,
    reduce_counts,
)


def partition(seed, size=400, terms=150):
    """Counts of one partition and the draws that they count."""
    rng = np.random.default_rng(seed)
    term = [f"t{v:04d}" for v in np.minimum(rng.zipf(1.3, size), terms)]
    fold = rng.integers(0, N_FOLDS, size)
    observed = rng.random(size) < 0.2
    rows = list(zip(term, fold.tolist(), observed.tolist(), strict=True))
    vocabulary, number = np.unique(term, return_inverse=True)
    return count_terms(pa.array(vocabulary), number, fold, observed), rows


@pytest.fixture(scope="module")
def corpus():
    parts = [partition(seed) for seed in range(5)]
    return [table for table, _ in parts], [row for _, rows in parts for row in rows]


def counted(rows):
    documents, labels = Counter(), Counter()
    for term, fold, observed in rows:
        documents[term, fold] += 1
        labels[term, fold] += observed
    return documents, labels


def as_dict(table, name):
    return {(r["term"], r["fold"]): r[name] for r in table.to_pylist()}


def test_counts_by_hand(corpus):
    tables, rows = corpus
    found = reduce_counts(tables).terms
    documents, labels = counted(rows)
    assert found.schema == COUNTS
    assert as_dict(found, "documents") == documents
    assert as_dict(found, "labels") == {key: labels[key] for key in documents}
    keys = [(r["term"], r["fold"]) for r in found.to_pylist()]
    assert keys == sorted(keys)


def test_order_and_number_of_partitions_do_not_matter(corpus):
    tables, _ = corpus
    found = reduce_counts(tables)
    merged = merge_counts(merge_counts(tables[3], tables[0]), tables[1])
    other = reduce_counts([tables[4], merged, tables[2]])
    assert other.terms == found.terms
    assert_array_equal(other.totals, found.totals)


def test_tables_that_come_one_by_one_are_a_few_sums(corpus):
    tables, _ = corpus
    sums = add_counts(iter(tables * 3))
    assert len(tables) == 5
    assert len(sums) == 4  # 8 + 4 + 2 + 1
    assert reduce_counts(sums).terms == reduce_counts(tables * 3).terms


@pytest.mark.parametrize("max_terms", [1, 7, 40, 90, 10_000])
def test_the_limit_leaves_the_rarest_out_in_any_order(corpus, max_terms):
    tables, rows = corpus
    frequency = Counter(term for term, _, _ in rows)
    found = reduce_counts(tables, max_terms=max_terms)
    kept = set(found.terms["term"].to_pylist())
    assert len(kept) <= max_terms
    assert kept == {t for t, f in frequency.items() if f >= found.least_documents}
    one_more = sum(f >= found.least_documents - 1 for f in frequency.values())
    assert found.least_documents == 1 or one_more > max_terms
    assert found.n_pruned == len(frequency) - len(kept)
    assert (found.warning is None) == (found.n_pruned == 0)
    again = reduce_counts(tables[::-1], max_terms=max_terms)
    assert again.terms == found.terms
    assert again.n_pruned == found.n_pruned
    whole = reduce_counts(tables).terms
    assert [r for r in whole.to_pylist() if r["term"] in kept] == found.terms.to_pylist()


def test_what_is_left_out_still_counts_in_the_rates(corpus):
    tables, _ = corpus
    assert_array_equal(reduce_counts(tables, max_terms=7).rates, reduce_counts(tables).rates)
    assert "fewer than" in reduce_counts(tables, max_terms=7).warning


def test_lookup_gives_a_partitions_terms(corpus):
    tables, rows = corpus
    documents, labels = reduce_counts(tables).lookup(pa.array(["t0001", "none", "t0150"]))
    by_hand = counted(rows)
    for i, term in ((0, "t0001"), (2, "t0150")):
        assert_array_equal(documents[i], [by_hand[0][term, f] for f in range(N_FOLDS)])
        assert_array_equal(labels[i], [by_hand[1][term, f] for f in range(N_FOLDS)])
    assert not documents[1].any()


def test_nothing_to_count():
    none = np.zeros(0, np.int64)
    nothing = count_terms(pa.array([], pa.string()), none, none, np.zeros(0, bool))
    for tables in ([], [nothing], [nothing, nothing]):
        found = reduce_counts(tables)
        assert found.terms == COUNTS.empty_table()
        assert found.lookup(pa.array(["x"]))[0].shape == (1, N_FOLDS)


def test_folds_depend_on_the_name_alone_and_are_of_equal_size():
    folds = [fold_of(f"document {i}") for i in range(20_000)]
    assert folds[:6] == [fold_of(f"document {i}") for i in range(6)]
    expected = 2000
    chi2 = sum((n - expected) ** 2 / expected for n in Counter(folds).values())
    assert len(set(folds)) == N_FOLDS
    assert chi2 < 33  # 99.99 % point with 9 degrees of freedom
