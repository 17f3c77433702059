"""The candidates of documents, words or phrases: where they stand, which are known, their numbers.

A candidate is a run of one to four candidate words side by side in a sentence: no sign between
them and no word twice. Where parts of speech are known, every word is a noun, an
adjective, a gerund or a participle and the last one a noun or a gerund. In documents of more
than 1000 tokens a phrase is found twice, or among the first 400. Stop words (`DocumentTokens.link`)
may be between two of its words where the phrase is found twice in the document. One capital or
digit is no phrase, and begins or ends one only where that is found without another word before, or
behind. Phrases that the user names (`DocumentTokens.given`) are candidates whatever they are.
Where words are the candidates they are phrases of one word each (`words_as_spans`).

Names of phrases are 64-bit numbers, equal for equal stems, whatever the partition. A stem's number
is a hash of its letters, a phrase's a mix of those of its stems in order (the finaliser of
SplitMix64, Steele, Lea and Flood 2014). Among 10^7 phrases two share a number with probability
3e-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.draws import FIRST, GOLDEN, SECOND, text_key
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.text import span_kernels as kernels
from vbmodels.text.token_kernels import UNKNOWN
from vbmodels.text.words import POS_GROUPS

N_FOLDS = 10
"""Document folds of keyphraseness."""

MOST_WORDS = kernels.MOST_WORDS
LONG_DOCUMENT, EARLY = 1000, 400
VERB = POS_GROUPS.index("verb")
LAST = (
    UNKNOWN,
    *(POS_GROUPS.index(name) for name in ("noun", "plural_noun", "proper_noun", "gerund")),
)
"""Parts of speech of a phrase's last word, unknown ones among them."""


def fold_of(doc_id: str) -> int:
    """Return a document's fold, 0 to 9, from a hash of its name alone.

    >>> fold_of("a document")
    5
    """
    return text_key(doc_id) % N_FOLDS


@dataclass(frozen=True)
class DocumentTokens(State, kind="keywords.DocumentTokens"):
    """The candidate words of a set of documents before the corpus is known.

    All that the graph and the features need of the text, together with the corpus counts.
    T is the number of occurrences (tokens) of candidate words, V the terms of the
    partition's vocabulary. Words of a document stand in the order of their first occurrence.

    Parameters
    ----------
    term
        [W] the word's number in the vocabulary.
    y, offsets, fold, complete
        As in `KeywordBatch`; a fold of -1 marks a document that is not part of the counts.
    n_tokens
        [D] length of the whole document in tokens, those that are no candidates included.
    length
        [W] characters of the word's surface form.
    hyphen
        [W] whether the surface form has a hyphen.
    word
        [T] the row of the word that stands here, in reading order.
    position
        [T] place in the whole document, from 0.
    sentence
        [T] number of the sentence, -1 when unknown.
    title
        [T] whether the occurrence stands in the title (the first sentence).
    pos
        [T] part of speech, a number of ``words.POS_GROUPS``, -1 when unknown.
    phrase
        [T] words of the noun phrase that it stands in, 0 outside or when unknown.
    capital
        [T] whether it is capitalised away from the start of a sentence.
    upper
        [T] whether it is in capitals (two letters or more).
    unlabelled
        As in `KeywordBatch`.
    score
        [W] the user's own score of the word, on any scale; NaN where it has none. None where no
        word has one.
    link
        [T] number in the vocabulary of what is between this word and the next one where that may
        be inside a phrase ("of"); -1 where nothing is or may be, -2 - number where it may be
        inside of the phrases in ``given`` alone. None: nothing may.
    given
        [G, 2] places in ``word`` and sizes of phrases that are candidates whatever they are:
        known keywords, terms of a vocabulary.
    given_only
        Whether no others are.
    letter
        [W] whether the word is one capital or digit, and so no phrase alone; None: none is.
    """

    term: IntArray
    y: BoolArray
    offsets: IntArray
    fold: IntArray
    complete: BoolArray
    n_tokens: IntArray
    length: IntArray
    hyphen: BoolArray
    word: IntArray
    position: IntArray
    sentence: IntArray
    title: BoolArray
    pos: IntArray
    phrase: IntArray
    capital: BoolArray
    upper: BoolArray
    unlabelled: BoolArray | None = None
    score: FloatArray | None = None
    link: IntArray | None = None
    given: IntArray | None = None
    given_only: bool = False
    letter: BoolArray | None = None

    @property
    def between(self) -> IntArray:
        """[T] number in the vocabulary of what is between this word and the next one; or -1."""
        link = np.full(len(self.word), -1) if self.link is None else self.link
        return np.where(link < -1, -2 - link, link)

    @property
    def looked_at(self) -> BoolArray:
        """[D] whether somebody has looked for the document's keywords."""
        return np.ones(self.n_documents, bool) if self.unlabelled is None else ~self.unlabelled

    @property
    def n_documents(self) -> int:
        """D."""
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        """W, summed over the documents."""
        return len(self.y)

    @property
    def document_of_word(self) -> IntArray:
        """[W] the number of the document that each word stands in."""
        return np.repeat(np.arange(self.n_documents, dtype=np.int64), np.diff(self.offsets))


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
        [M] see `key_of`.
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
        [V] numbers of the terms of their vocabulary; see `stem_keys`.
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
    key = kernels.keys_of(keys, tokens.word, tokens.between, term_keys, start, size)
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


KeyArray = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN, _FIRST, _SECOND = int(GOLDEN), int(FIRST), int(SECOND)


def stem_keys(stems: Iterable[str]) -> KeyArray:
    """Return the number of every stem."""
    return np.fromiter(map(stem_key, stems), np.uint64)


@lru_cache(maxsize=1 << 16)
def stem_key(stem: str) -> int:
    """Return the number of a stem."""
    return text_key(stem)


def key_of(stems: Iterable[str]) -> int:
    """Return the number of one phrase; `span_kernels.mixed` makes the same of numbers.

    >>> key_of(["neural", "network"]) == key_of(["network", "neural"])
    False
    """
    words = list(stems)
    key = len(words)
    for word in words:
        key = (key * _GOLDEN & _MASK) ^ stem_key(word)
        key = ((key ^ (key >> 30)) * _FIRST) & _MASK
        key = ((key ^ (key >> 27)) * _SECOND) & _MASK
        key ^= key >> 31
    return key


UNKNOWN_TRUTH = -1


@dataclass(frozen=True)
class Marks(State, kind="keywords.Marks"):
    """What the user says of a partition's candidates, in their order.

    Parameters
    ----------
    y
        [M] whether the candidate is known.
    gold
        [M] 1 where it is a true keyword, 0 where it is none, -1 where the truth is not known.
    listed
        [D] known keywords, those that are no candidate too.
    form, shown, link
        [T] numbers of the written form of every occurrence of a word, of that without a capital
        that only a sentence's beginning gives it, and of what is written between it and the next
        word (-1: nothing).
    score
        [M] the user's own score, NaN where there is none; None where no candidate has any.
    """

    y: BoolArray
    gold: NDArray[np.int8]
    listed: IntArray
    form: NDArray[np.int32]
    shown: NDArray[np.int32]
    link: NDArray[np.int32]
    score: FloatArray | None = None


def spans_of(tokens: DocumentTokens, vocabulary: Sequence[str], phrases: bool) -> Spans:
    """Return the candidates of a partition: phrases, or words."""
    keys = stem_keys(vocabulary)
    return find_spans(tokens, keys) if phrases else words_as_spans(tokens, keys)


def words_as_spans(tokens: DocumentTokens, term_keys: KeyArray) -> Spans:
    """Return words as phrases of one word each, in their own order."""
    size, occurrences = tokens.n_words, len(tokens.word)
    words = np.full((size, MOST_WORDS), -1)
    words[:, 0] = np.arange(size)
    first = np.zeros(size, np.int64)
    first[tokens.word[::-1]] = np.arange(occurrences)[::-1]
    return Spans(
        words=words,
        size=np.ones(size, np.int64),
        key=term_keys[tokens.term],
        offsets=tokens.offsets,
        first=first,
        phrase=tokens.word,
        start=np.arange(occurrences),
        maximal=np.zeros(occurrences, bool),
    )
