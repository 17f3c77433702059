"""Where a fit starts: clusters of a sample of the documents that adds up over partitions.

Every document has a key that its own words make. The sample is the documents with the smallest
keys, equal ones once: the same whatever the partitions are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse

from vbflows_lda.documents import Documents
from vbmodels.core.state import FloatArray, IntArray, Stats

DOCUMENTS, WORDS = 4000, 400_000
"""The sample ends with the document that brings it to one of these."""
LEAST = 10
"""Documents of the sample for each cluster; below that clusters say little."""
TRIALS, ROUNDS = 20, 5
"""Documents that are tried as each next centre, and rounds of k-means from there."""


@dataclass(frozen=True)
class Sample(Stats):
    """The documents with the smallest keys, in their order.

    A part's first documents hold those of the whole that are its own, so samples of parts make
    that of the whole.

    Attributes
    ----------
    key
        Of each document, [D], increasing.
    documents
        Their words.
    """

    key: IntArray
    documents: Documents

    @classmethod
    def of(cls, batch: Documents) -> Self:
        """Return a partition's sample."""
        mixed = _mixed(batch.word.astype(np.uint64) ^ batch.count.view(np.uint64) * _ODD)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed)])[batch.offsets]
        return cls._first(_mixed(np.diff(sums)).view(np.int64), batch)

    def __add__(self, other: Self) -> Self:
        a, b = self.documents, other.documents
        both = Documents(
            np.concatenate([a.word, b.word]), np.concatenate([a.count, b.count]),
            np.concatenate([a.offsets, a.offsets[-1] + b.offsets[1:]]), a.vocabulary,
        )  # fmt: skip
        return self._first(np.concatenate([self.key, other.key]), both)

    @classmethod
    def _first(cls, key: IntArray, batch: Documents) -> Self:
        words = np.diff(batch.offsets)
        some = np.flatnonzero(words)
        key, place = np.unique(key[some], return_index=True)
        place = some[place][:DOCUMENTS]
        before = np.cumsum(words[place]) - words[place]
        place = place[before < WORDS]
        counts = table(batch)[place]
        documents = Documents(
            counts.indices.astype(np.int64), counts.data, counts.indptr.astype(np.int64),
            batch.vocabulary,
        )  # fmt: skip
        return cls(key[: len(place)], documents)


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(x: FloatArray) -> FloatArray:
    """Return 64 bits that hang on all bits of x: the end of MurmurHash3 (Appleby 2011)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return x ^ (x >> np.uint64(33))


def table(batch: Documents) -> sparse.csr_matrix:
    """Return counts [D, V]."""
    size = len(batch.offsets) - 1, batch.vocabulary
    return sparse.csr_matrix((batch.count, batch.word, batch.offsets), size)


def clusters(documents: Documents, count: int, rng: np.random.Generator) -> FloatArray:
    """Return how often words stand in clusters of documents, [K, V]: k-means by angles.

    A document is the square roots of its counts, times log(D / documents with the word), at length
    1. Each next centre is the best of some that are drawn as k-means++ does (Arthur and
    Vassilvitskii 2007). With fewer than ten documents a cluster all are empty.
    """
    counts = table(documents)
    size = counts.shape[0]
    if size < LEAST * count:
        return np.zeros((count, documents.vocabulary))
    found = np.bincount(documents.word, minlength=documents.vocabulary)
    at = counts.copy()
    at.data = np.sqrt(at.data) * np.log((1.0 + size) / found[documents.word])
    at = (sparse.diags(1.0 / np.sqrt(at.multiply(at).sum(axis=1).A1)) @ at).tocsr()
    chosen = [int(rng.integers(size))]
    far = _far(at, chosen, np.full(size, np.inf))[:, 0]
    while len(chosen) < count and far.sum() > 0.0:
        tried = rng.choice(size, TRIALS, p=far / far.sum())
        each = _far(at, tried, far)
        best = int(each.sum(axis=0).argmin())
        chosen, far = [*chosen, int(tried[best])], each[:, best]
    centres = at[chosen].toarray()
    for _ in range(ROUNDS):
        sums = (_members(at, centres) @ at).toarray()
        length = np.sqrt((sums**2).sum(axis=1, keepdims=True))
        centres = np.where(length > 0.0, sums / np.maximum(length, 1e-300), centres)
    own: FloatArray = (_members(at, centres) @ counts).toarray()
    return np.pad(own, ((0, count - len(own)), (0, 0)))


def _far(at: sparse.csr_matrix, tried: IntArray, far: FloatArray) -> FloatArray:
    """Return 1 - the cosine with the nearest centre, were each of ``tried`` one; [D, tried]."""
    cosine = (at @ at[tried].T).toarray()
    return np.minimum(far[:, None], np.maximum(1.0 - cosine, 0.0))


def _members(at: sparse.csr_matrix, centres: FloatArray) -> sparse.csr_matrix:
    """Return which documents belong to each centre, [K, D]."""
    nearest = np.asarray(at @ centres.T).argmax(axis=1)
    ones = np.ones(len(nearest))
    return sparse.csr_matrix((ones, (nearest, np.arange(len(nearest)))), (len(centres), len(ones)))
