"""Which phrases of a document may be keyphrases, and where each of them stands.

A candidate is a run of one to four candidate words side by side in a sentence: no stop word or
sign between them and no word twice. Where parts of speech are known, every word is a noun, an
adjective, a gerund or a participle and the last one a noun or a gerund. In documents of more
than 1000 tokens a phrase stands twice, or among the first 400.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.batch import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS
from vbmodels.keywords.phrases.keys import KeyArray, phrase_keys

MOST_WORDS = 4
LONG_DOCUMENT, EARLY = 1000, 400
VERB = POS_GROUPS.index("verb")
LAST = (
    -1,
    *(POS_GROUPS.index(name) for name in ("noun", "plural_noun", "proper_noun", "gerund")),
)
"""Parts of speech of a phrase's last word, unknown ones among them."""


@dataclass(frozen=True)
class Spans:
    """The candidate phrases of a set of documents: M of them, O occurrences.

    Parameters
    ----------
    words
        [M, 4] rows of the words in `DocumentTokens`, -1 beyond the last one.
    size
        [M] number of words.
    key
        [M] see `keys`.
    offsets
        [D + 1] phrases of document d, by first occurrence, then size.
    first
        [M] place in ``tokens.word`` where the phrase begins for the first time.
    phrase, start
        [O] the phrase of every occurrence, and where in ``tokens.word`` it begins.
    maximal
        [O] whether the occurrence is a whole run of words that phrases are made of.
    """

    words: IntArray
    size: IntArray
    key: KeyArray
    offsets: IntArray
    first: IntArray
    phrase: IntArray
    start: IntArray
    maximal: BoolArray

    @property
    def count(self) -> IntArray:
        """[M] occurrences of every phrase."""
        return np.bincount(self.phrase, minlength=len(self.size)).astype(np.int64)

    @property
    def document(self) -> IntArray:
        """[M] number of the document of every phrase."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)).astype(np.int64)


def find_spans(tokens: DocumentTokens, term_keys: KeyArray) -> Spans:
    """Find the candidate phrases.

    Parameters
    ----------
    tokens
        The documents.
    term_keys
        [V] numbers of the terms of their vocabulary; see `keys.stem_keys`.
    """
    document = tokens.document_of_word[tokens.word]
    inside = tokens.pos != VERB
    joined = (
        (np.diff(tokens.position) == 1)
        & (document[1:] == document[:-1])
        & (tokens.sentence[1:] == tokens.sentence[:-1])
        & inside[1:]
        & inside[:-1]
    )
    opens, closes = np.append(True, ~joined), np.append(~joined, True)
    last = np.isin(tokens.pos, LAST)
    keys = term_keys[tokens.term]
    starts, sizes, found = [], [], []
    begins = np.flatnonzero(inside)
    for n in range(1, MOST_WORDS + 1):
        if n > 1:
            begins = begins[begins + n - 1 < len(tokens.word)]
            begins = begins[joined[begins + n - 2]]
        at = begins[last[begins + n - 1]]
        rows = tokens.word[at[:, None] + np.arange(n)]
        different = np.ones(len(at), bool)
        for i, j in combinations(range(n), 2):
            different &= rows[:, i] != rows[:, j]
        at, rows = at[different], rows[different]
        starts.append(at)
        sizes.append(np.full(len(at), n, np.int64))
        found.append(phrase_keys(keys[rows]))
    start, size = np.concatenate(starts), np.concatenate(sizes)
    key: KeyArray = np.concatenate(found)
    maximal = opens[start] & closes[start + size - 1] if len(start) else np.zeros(0, bool)
    return _grouped(tokens, document, start, size, key, maximal)


def _grouped(
    tokens: DocumentTokens,
    document: IntArray,
    start: IntArray,
    size: IntArray,
    key: KeyArray,
    maximal: BoolArray,
) -> Spans:
    """Gather the occurrences of each phrase of a document, and leave out the rare ones."""
    of = document[start]
    order = np.lexsort((start, key, of))
    start, size, of = start[order], size[order], of[order]
    key, maximal = key[order], maximal[order]
    new = np.ones(len(start), bool)
    new[1:] = (of[1:] != of[:-1]) | (key[1:] != key[:-1])
    head = np.flatnonzero(new)
    count = np.diff(np.append(head, len(start)))
    early = tokens.position[start[head]] < EARLY
    kept = (tokens.n_tokens[of[head]] <= LONG_DOCUMENT) | (count > 1) | early
    rank = np.lexsort((size[head], start[head], of[head]))
    rank = rank[kept[rank]]
    number = np.full(len(head), -1, np.int64)
    number[rank] = np.arange(len(rank))
    phrase = number[np.cumsum(new) - 1] if len(start) else np.zeros(0, np.int64)
    head = head[rank]
    place = start[head][:, None] + np.arange(MOST_WORDS)
    within = np.arange(MOST_WORDS) < size[head][:, None]
    words = np.where(within, tokens.word[np.where(within, place, 0)] if len(head) else place, -1)
    offsets = np.searchsorted(of[head], np.arange(tokens.n_documents + 1)).astype(np.int64)
    stays = phrase >= 0
    return Spans(
        words.astype(np.int64),
        size[head].astype(np.int64),
        key[head],
        offsets,
        start[head].astype(np.int64),
        phrase[stays],
        start[stays].astype(np.int64),
        maximal[stays],
    )
