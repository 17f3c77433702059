"""Which phrases of a document may be keyphrases, and where each of them stands.

A candidate is a run of one to four candidate words side by side in a sentence: no stop word or
sign between them and no word twice. Where parts of speech are known, every word is a noun, an
adjective, a gerund or a participle and the last one a noun or a gerund. In documents of more
than 1000 tokens a phrase stands twice, or among the first 400.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.documents import DocumentTokens
from vbmodels.keywords.features import POS_GROUPS
from vbmodels.keywords.phrases import span_kernels as kernels
from vbmodels.keywords.phrases.phrase_ids import KeyArray

MOST_WORDS = kernels.MOST_WORDS
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
    joined = (
        (np.diff(tokens.position) == 1)
        & (document[1:] == document[:-1])
        & (tokens.sentence[1:] == tokens.sentence[:-1])
        & inside[1:]
        & inside[:-1]
    )
    opens, closes = np.append(True, ~joined), np.append(~joined, True)
    start, size, key = kernels.occurrences(
        tokens.word, inside, joined, np.isin(tokens.pos, LAST), term_keys[tokens.term]
    )
    of, position = document[start], tokens.position[start]
    phrase, first, offsets = kernels.grouped(
        of, start, size, key, tokens.n_tokens > LONG_DOCUMENT, position < EARLY,
        tokens.n_documents,
    )  # fmt: skip
    maximal = opens[start] & closes[start + size - 1]
    first_start, size = start[first], size[first]
    place = first_start[:, None] + np.arange(MOST_WORDS)
    within = np.arange(MOST_WORDS) < size[:, None]
    words = np.where(within, tokens.word[np.where(within, place, 0)] if len(first) else place, -1)
    stays = phrase >= 0
    return Spans(
        words.astype(np.int64), size, key[first], offsets, first_start, phrase[stays],
        start[stays], maximal[stays],
    )  # fmt: skip
