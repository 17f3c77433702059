"""Which phrases of a document may be keyphrases, and where each of them stands.

A candidate is a run of one to four candidate words side by side in a sentence: no sign between
them and no word twice. Where parts of speech are known, every word is a noun, an
adjective, a gerund or a participle and the last one a noun or a gerund. In documents of more
than 1000 tokens a phrase is found twice, or among the first 400. Stop words (`DocumentTokens.link`)
may be between two of its words where the phrase is found twice in the document. One capital or
digit is no phrase, and begins or ends one only where that is found without another word before, or
behind. Phrases that the user names (`DocumentTokens.given`) are candidates whatever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS
from vbmodels.keywords.phrases import span_kernels as kernels
from vbmodels.keywords.phrases.phrase_ids import KeyArray
from vbmodels.keywords.token_kernels import UNKNOWN

MOST_WORDS = kernels.MOST_WORDS
LONG_DOCUMENT, EARLY = 1000, 400
VERB = POS_GROUPS.index("verb")
LAST = (
    UNKNOWN,
    *(POS_GROUPS.index(name) for name in ("noun", "plural_noun", "proper_noun", "gerund")),
)
"""Parts of speech of a phrase's last word, unknown ones among them."""


@dataclass(frozen=True)
class Spans:
    """The candidate phrases of a set of documents: M of them, O occurrences.

    Parameters
    ----------
    words
        [M, K] rows of the words in `DocumentTokens`, -1 beyond the last one; K is 4 or more.
    size
        [M] number of words.
    key
        [M] see `phrase_ids`.
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
        [V] numbers of the terms of their vocabulary; see `phrase_ids.stem_keys`.
    """
    document = tokens.document_of_word[tokens.word]
    inside = tokens.pos != VERB
    link = np.full(len(tokens.word), -1) if tokens.link is None else tokens.link
    side_by_side = (
        (document[1:] == document[:-1])
        & (tokens.sentence[1:] == tokens.sentence[:-1])
        & inside[1:]
        & inside[:-1]
    )
    adjacent = side_by_side & (np.diff(tokens.position) == 1)
    adjacent &= ~((tokens.pos[:-1] == UNKNOWN) & (tokens.pos[1:] != UNKNOWN))  # noun, then verb
    opens, closes = np.append(True, ~adjacent), np.append(~adjacent, True)
    keys = term_keys[tokens.term]
    joined = adjacent | (side_by_side & (link[:-1] >= 0))
    start, size, key = kernels.occurrences(
        tokens.word, inside, joined, np.isin(tokens.pos, LAST), keys, link, term_keys
    )
    if tokens.letter is not None:
        stays = _not_cut(tokens.letter[tokens.word], opens, closes, document, start, size, key)
        start, size, key = start[stays], size[stays], key[stays]
    of, position = document[start], tokens.position[start]
    linked = np.append(0, np.cumsum(link >= 0))
    alone = (tokens.n_tokens <= LONG_DOCUMENT)[of] | (position < EARLY)
    alone &= linked[start + size - 1] == linked[start]
    if tokens.given is not None:
        start, size, key, alone = _with_given(tokens, keys, term_keys, (start, size, key, alone))
        of = document[start]
    phrase, first, offsets = kernels.grouped(of, key, alone, tokens.n_documents)
    maximal = opens[start] & closes[start + size - 1]
    first_start, size = start[first], size[first]
    width = max(MOST_WORDS, int(size.max(initial=0)))
    place = first_start[:, None] + np.arange(width)
    within = np.arange(width) < size[:, None]
    words = np.where(within, tokens.word[np.where(within, place, 0)] if len(first) else place, -1)
    stays = phrase >= 0
    return Spans(
        words.astype(np.int64),
        size,
        key[first],
        offsets,
        first_start,
        phrase[stays],
        start[stays],
        maximal[stays],
    )


def _not_cut(
    letter: BoolArray,
    opens: BoolArray,
    closes: BoolArray,
    document: IntArray,
    start: IntArray,
    size: IntArray,
    key: KeyArray,
) -> BoolArray:
    """Return which occurrences [O] are of phrases that no lone letter [T] cuts off."""
    end = start + size - 1
    stays = ~(letter[start] & (size == 1))
    rows = np.flatnonzero(stays & (letter[start] | letter[end]))
    cut = (letter[start] & ~opens[start]) | (letter[end] & ~closes[end])
    _, phrase = np.unique(
        np.array([document[start[rows]].astype(np.uint64), key[rows]]), axis=1, return_inverse=True
    )
    stays[rows] = np.bincount(phrase, ~cut[rows], len(rows))[phrase] > 0
    return np.asarray(stays, bool)


def _with_given(
    tokens: DocumentTokens,
    keys: KeyArray,
    term_keys: KeyArray,
    found: tuple[IntArray, IntArray, KeyArray, BoolArray],
) -> tuple[IntArray, IntArray, KeyArray, BoolArray]:
    """Return occurrences (start, size, key, alone) with those that the user names."""
    assert tokens.given is not None
    start, size = tokens.given.reshape(-1, 2).T
    link = np.full(len(tokens.word), -1) if tokens.link is None else tokens.link
    every = np.where(link < -1, -2 - link, link)
    key = kernels.keys_of(keys, tokens.word, every, term_keys, start, size)
    own = (start, size, key, np.ones(len(start), bool))
    if tokens.given_only:
        return own
    columns = [np.concatenate(pair) for pair in zip(own, found, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    columns = [column[order] for column in columns]
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(columns[0]) != 0) | (np.diff(columns[1]) != 0)
    start, size, key, alone = (column[new] for column in columns)
    return start, size, key, alone
