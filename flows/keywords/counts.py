"""Corpus counts: in how many documents a term is a candidate, in how many it is observed.

A table of counts has one row for each term and fold that has it, sorted by term, then
fold; a fold is a fixed tenth of the documents. Counts of partitions are sorted tables that
add: the sum is the same in whatever order they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.keywords.features import N_FOLDS, fold_of, label_rates

__all__ = [
    "COUNTS",
    "MAX_TERMS",
    "CorpusCounts",
    "add_counts",
    "count_terms",
    "fold_of",
    "merge_counts",
    "reduce_counts",
]

MAX_TERMS = 10_000_000

COUNTS = pa.schema(
    [
        pa.field("term", pa.large_string(), nullable=False),
        pa.field("fold", pa.int8(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("labels", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class CorpusCounts:
    """The counts of all partitions.

    Parameters
    ----------
    terms
        Rows of `COUNTS`, sorted by term and fold.
    least_documents
        Terms of fewer documents were left out: 1 when none was.
    n_pruned
        Terms left out.
    totals
        [2, N_FOLDS] sums of ``documents`` and ``labels`` over all terms, those left out
        included.
    in_phrases
        Whether words are known as phrases are, several at once; see
        `vbmodels.keywords.phrase_mates`.
    """

    terms: pa.Table
    least_documents: int
    n_pruned: int
    totals: IntArray
    in_phrases: bool = False

    @property
    def rates(self) -> FloatArray:
        """Label rates [N_FOLDS + 1] as the features take them."""
        return label_rates(self.totals[0], self.totals[1])

    @property
    def warning(self) -> str | None:
        """One sentence on what was left out; None when nothing was."""
        if not self.n_pruned:
            return None
        return (
            f"{self.n_pruned} terms found in fewer than {self.least_documents} documents were "
            f"left out of the corpus counts to keep at most the limit of terms; they count as "
            "terms that no other document has (highest idf, no keyphraseness)"
        )

    def lookup(self, vocabulary: pa.Array) -> tuple[IntArray, IntArray]:
        """Return the counts of a partition's terms: documents and labels, each [V, N_FOLDS].

        A term that the counts do not have gets zeros.
        """
        distinct, starts = self._distinct
        places = pc.index_in(vocabulary.cast(pa.large_string()), value_set=distinct)
        known = np.flatnonzero(pc.is_valid(places).to_numpy(zero_copy_only=False))
        place = pc.drop_null(places).to_numpy()
        first, times = starts[place], starts[place + 1] - starts[place]
        row = np.repeat(known, times)
        rows = np.arange(times.sum()) + np.repeat(first - np.cumsum(times) + times, times)
        fold = self.terms["fold"].to_numpy()[rows]
        documents, labels = (np.zeros((len(vocabulary), N_FOLDS), np.int64) for _ in range(2))
        documents[row, fold] = self.terms["documents"].to_numpy()[rows]
        labels[row, fold] = self.terms["labels"].to_numpy()[rows]
        return documents, labels

    @cached_property
    def _distinct(self) -> tuple[pa.Array, IntArray]:
        """The distinct terms, and the rows where each begins and the last one ends."""
        if not len(self.terms):
            return pa.array([], pa.large_string()), np.zeros(1, np.int64)
        starts = _starts(self.terms)
        distinct = self.terms["term"].combine_chunks().take(pa.array(starts))
        return distinct, np.append(starts, len(self.terms))


def count_terms(
    vocabulary: pa.Array, term: IntArray, folds: IntArray, observed: BoolArray
) -> pa.Table:
    """Count one partition.

    Parameters
    ----------
    vocabulary
        Its distinct terms, sorted.
    term, folds, observed
        [W] number of the term, fold of the document, and label of every candidate word, each
        word once a document.
    """
    size = len(vocabulary) * N_FOLDS
    place = term * N_FOLDS + folds
    documents = np.bincount(place, minlength=size)
    labels = np.bincount(place[observed], minlength=size)
    there = np.flatnonzero(documents)
    return _rows(vocabulary, there, documents[there], labels[there])


def merge_counts(left: pa.Table, right: pa.Table) -> pa.Table:
    """Add two tables of counts; associative and commutative, exact."""
    return _sum(pa.concat_tables([left, right]))


def add_counts(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Add tables of counts as they come; a few sums are left.

    A table is added to one of as many parts before it, so of n tables log2(n) + 1 sums are held,
    together no larger than all terms are in every fold, twice.
    """
    held: list[tuple[int, pa.Table]] = []
    for table in tables:
        parts = 1
        while held and held[-1][0] == parts:
            before = held.pop()
            parts, table = 2 * parts, merge_counts(before[1], table)
        held.append((parts, table))
    return [table for _, table in held]


def _sum(table: pa.Table) -> pa.Table:
    """Add rows of equal term and fold; sorted. Only distinct terms are compared as text."""
    coded = table["term"].combine_chunks().dictionary_encode()
    order = pc.array_sort_indices(coded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    place = rank[coded.indices.to_numpy()] * N_FOLDS + table["fold"].to_numpy()
    there, row = np.unique(place, return_inverse=True)
    sums = [np.zeros(len(there), np.int64) for _ in range(2)]
    for total, name in zip(sums, ("documents", "labels"), strict=True):
        np.add.at(total, row, table[name].to_numpy())
    return _rows(coded.dictionary.take(pa.array(order)), there, *sums)


def _rows(vocabulary: pa.Array, place: IntArray, documents: IntArray, labels: IntArray) -> pa.Table:
    """Return `COUNTS` of the terms and folds at ``place`` (term * N_FOLDS + fold, sorted)."""
    return pa.table(
        [
            vocabulary.take(pa.array(place // N_FOLDS)).cast(pa.large_string()),
            pa.array(place % N_FOLDS, pa.int8()),
            pa.array(documents, pa.int64()),
            pa.array(labels, pa.int64()),
        ],
        schema=COUNTS,
    )


def reduce_counts(tables: Sequence[pa.Table], *, max_terms: int = MAX_TERMS) -> CorpusCounts:
    """Add the counts of all partitions, range of terms by range of terms.

    Each range is merged pairwise over a fixed tree, so memory is bounded by ``max_terms``
    terms and one range, beside the given tables (which may be memory-mapped files). With
    more than ``max_terms`` distinct terms, those of the fewest documents are left out: all
    of one document, then all of two, until the limit holds. Sums are complete before
    anything is left out, so neither the order nor the number of partitions matters.

    Parameters
    ----------
    tables
        Counts of the partitions.
    max_terms
        Most distinct terms in the result.
    """
    rows = sum(len(table) for table in tables)
    totals = np.zeros((2, N_FOLDS), np.int64)
    kept, n_terms, least, sizes = [], 0, 1, np.zeros(0, np.int64)
    for low, high in _ranges(tables, math.ceil(rows / max_terms) if rows else 1):
        part = _merge_tree([_between(table, low, high) for table in tables])
        for row, name in enumerate(("documents", "labels")):
            totals[row] += np.bincount(
                part["fold"].to_numpy(), weights=part[name].to_numpy(), minlength=N_FOLDS
            ).astype(np.int64)
        frequency = _frequencies(part)
        n_terms += len(frequency)
        kept.append(_at_least(part, frequency, least))
        sizes = _add_sizes(sizes, frequency)
        fits = _least_documents(sizes, max_terms)
        if fits > least:
            least = fits
            kept = [_at_least(table, _frequencies(table), least) for table in kept]
    terms = pa.concat_tables(kept).combine_chunks() if kept else COUNTS.empty_table()
    n_kept = int(sizes[least:].sum())
    return CorpusCounts(terms, least, n_terms - n_kept, totals)


def _ranges(tables: Sequence[pa.Table], n: int) -> list[tuple[str | None, str | None]]:
    """Split the terms at n - 1 quantiles of the longest table into ranges [low, high)."""
    longest = max(tables, key=len, default=None)
    if longest is None or n == 1:
        return [(None, None)]
    places = np.unique(np.arange(1, n) * len(longest) // n)
    cuts = pc.unique(longest["term"].take(pa.array(places))).to_pylist()
    return list(zip([None, *cuts], [*cuts, None], strict=True))


def _between(table: pa.Table, low: str | None, high: str | None) -> pa.Table:
    """Slice the rows of a sorted table with low <= term < high, without copying them."""
    first = 0 if low is None else pc.sum(pc.less(table["term"], low)).as_py() or 0
    last = len(table) if high is None else pc.sum(pc.less(table["term"], high)).as_py() or 0
    return table.slice(first, last - first)


def _merge_tree(tables: Sequence[pa.Table]) -> pa.Table:
    if not tables:
        return COUNTS.empty_table()
    while len(tables) > 1:
        pairs = [merge_counts(*tables[i : i + 2]) for i in range(0, len(tables) - 1, 2)]
        tables = [*pairs, *tables[2 * len(pairs) :]]
    return tables[0]


def _frequencies(table: pa.Table) -> IntArray:
    """Document frequency of each distinct term of a sorted table, in its order."""
    if not len(table):
        return np.zeros(0, np.int64)
    total: IntArray = np.add.reduceat(table["documents"].to_numpy(), _starts(table))
    return total


def _starts(table: pa.Table) -> IntArray:
    """Rows where a new term begins."""
    term = table["term"].combine_chunks()
    new = pc.not_equal(term.slice(1), term.slice(0, len(term) - 1)).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(new) + 1])


def _at_least(table: pa.Table, frequency: IntArray, least: int) -> pa.Table:
    if least <= 1 or not len(table):
        return table
    rows = np.diff(np.append(_starts(table), len(table)))
    return table.filter(pa.array(np.repeat(frequency >= least, rows)))


def _add_sizes(sizes: IntArray, frequency: IntArray) -> IntArray:
    """Add to the number of terms of each document frequency."""
    found = np.bincount(frequency)
    total = np.zeros(max(len(sizes), len(found)), np.int64)
    total[: len(sizes)] += sizes
    total[: len(found)] += found
    return total


def _least_documents(sizes: IntArray, max_terms: int) -> int:
    """Return the smallest document frequency from which on at most ``max_terms`` terms are."""
    from_here = np.append(np.cumsum(sizes[::-1])[::-1], 0)
    return max(1, int(np.argmax(from_here <= max_terms)))
