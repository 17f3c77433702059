"""What documents repeat: sentences that most of them share, and exact copies of others.

Documents and sentences are numbers, made from their tokens. Whether a sentence is shared by most
is seen in a sample, of the thousand distinct documents whose numbers are smallest: partitions add
to the same one however the documents are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from operator import add
from typing import Self

import numpy as np

from vbmodels.core.draws import text_key
from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.text.candidates import KeyArray

MOST_SAMPLED = 1000
FEWEST = 5  # documents of which most can share a sentence
_DIGITS = re.compile(r"\d+")


def sentence_key(tokens: Iterable[str]) -> int:
    """Return the number of a sentence; those that differ in digits and capitals are one."""
    return text_key(_DIGITS.sub("0", "\0".join(tokens)).lower())


def document_key(sentences: Iterable[Iterable[str]]) -> int:
    """Return the number of a document."""
    return text_key("\0".join(chain.from_iterable(sentences)))


@dataclass(frozen=True)
class Sample(State, kind="keywords.Sample"):
    """Documents [S] by their numbers, sorted, and the sentences of each: [N], with offsets."""

    document: KeyArray
    sentence: KeyArray
    offsets: IntArray

    @classmethod
    def of(cls, documents: Sequence[int], sentences: Sequence[Sequence[int]]) -> Self:
        """Sample a partition's documents, of which each has sentences."""
        chosen = dict(zip(documents, map(set, sentences), strict=True))
        kept = [(key, sorted(chosen[key])) for key in sorted(chosen)[:MOST_SAMPLED] if chosen[key]]
        return cls(
            np.array([key for key, _ in kept], np.uint64),
            np.array([one for _, own in kept for one in own], np.uint64),
            np.cumsum([0, *(len(own) for _, own in kept)]),
        )

    def __add__(self, other: Self) -> Self:
        sentences = [
            one.sentence[start:stop].tolist()
            for one in (self, other)
            for start, stop in pairwise(one.offsets.tolist())
        ]
        return self.of([*self.document.tolist(), *other.document.tolist()], sentences)

    def may_have(self, sentences: frozenset[int]) -> bool:
        """Return whether one of the documents, or of those that it leaves out, has a sentence."""
        full = len(self.document) == MOST_SAMPLED
        return full or not sentences.isdisjoint(self.sentence.tolist())

    @property
    def shared(self) -> frozenset[int]:
        """The sentences that most of the documents have."""
        if len(self.document) < FEWEST:
            return frozenset()
        found, count = np.unique(self.sentence, return_counts=True)
        return frozenset(found[2 * count > len(self.document)].tolist())


def shared_sentences(samples: Iterable[Sample]) -> frozenset[int]:
    """Return the sentences that most documents of a corpus share, from samples of its parts."""
    return reduce(add, samples, Sample.of([], [])).shared


@dataclass(frozen=True)
class Originals(State, kind="keywords.Originals"):
    """Documents [D]: the number of each, its fold, and whether somebody has looked for keywords."""

    key: KeyArray
    fold: IntArray
    looked_at: BoolArray


@dataclass(frozen=True)
class Copies(State, kind="keywords.Copies"):
    """Documents of a partition [D]: which count in a fit, and the folds that they have in it.

    Of documents that are equal one counts, the first for whose keywords somebody has looked, or the
    first; the others have its fold.
    """

    counted: BoolArray
    fold: IntArray


def find_copies(parts: Sequence[Originals]) -> list[Copies]:
    """Find the documents of a corpus that are exact copies, by its partitions in order."""
    key, fold, looked_at = (
        np.concatenate([np.zeros(0, kind), *(getattr(part, name) for part in parts)])
        for name, kind in (("key", np.uint64), ("fold", np.int64), ("looked_at", bool))
    )
    order = np.lexsort((~looked_at, key))
    new = np.ones(len(key), bool)
    new[1:] = key[order][1:] != key[order][:-1]
    original = np.empty(len(key), np.int64)
    original[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    counted, fold = original == np.arange(len(key)), fold[original]
    ends = np.cumsum([len(part.key) for part in parts])[:-1]
    pairs = zip(np.split(counted, ends), np.split(fold, ends), strict=True)
    return [Copies(*pair) for pair in pairs]
