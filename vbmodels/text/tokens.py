"""From rows to the tokens of a partition: numbered, in sentences, with their parts of speech.

Each distinct token is tagged once, as most text is made of words that were there before.

What documents repeat is seen in numbers made from their tokens: sentences that most of them share,
and exact copies of others. Whether a sentence is shared by most is seen in a sample, of the
thousand distinct documents whose numbers are smallest: partitions add to the same one however the
documents are cut.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, count, pairwise
from operator import add
from typing import Any, NamedTuple, Self

import numpy as np

from vbmodels.core.draws import text_key
from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.tables.cells import DASH, MISSING
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidates import KeyArray
from vbmodels.text.cleaning import cleaned
from vbmodels.text.languages import (
    AUTO,
    ENGLISH,
    NOUNS_IN_CAPITALS,
    UNSPACED,
    detected,
    unspaced_language,
)
from vbmodels.text.splitting import split_sentences, split_words, with_line_ends
from vbmodels.text.words import (
    AT_THE_START,
    INSIDE_SENTENCES,
    POS_CODES,
    Normaliser,
    TextOptions,
    pos_code,
)

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


_TITLE = re.compile(r"\A\s*(\S[^\n]*(?:\n[ \t]+\S[^\n]*)*)\n(?=[^\s])")
_TITLE_WORDS = 40
_FIRST = 300
"""Tokens by which a document's language is detected."""
_CAPITALS = 4
"""Words in capitals from which on a sentence, or a part of it, has no acronyms."""
_LONG = 7
"""Letters of a word that is no acronym: such a part has one."""


class Labels(NamedTuple):
    """What a row says of a document, in addition to its words.

    ``mark``: what stands in the place of a list of keywords for none given, as - or N/A.
    """

    doc_id: str
    keywords: Sequence[str] | None = None
    complete: bool | None = None
    gold: Sequence[str] | None = None
    scored: Sequence[str] | None = None
    scores: Sequence[float] | None = None
    mark: str | None = None

    @property
    def scored_terms(self) -> Iterable[tuple[str, float]]:
        """The scored terms with their scores."""
        return zip(self.scored or (), self.scores or (), strict=False)

    @property
    def says_something(self) -> bool:
        """Whether it names a term."""
        return bool(self.keywords or self.scored or self.gold is not None)


SEPARATOR = ";"
"""What is between terms where a text holds several."""


_NO_LIST = frozenset([*(mark.lower() for mark in MISSING), DASH, "–", "—", "none"])


def split_terms(terms: Sequence[str] | None) -> Sequence[str] | None:
    """Split terms at the separator of CSV, which a list of other formats may hold too.

    >>> split_terms(["trees; tree canopy", "heat"])
    ['trees', 'tree canopy', 'heat']
    """
    if terms is None or not any(SEPARATOR in term for term in terms):
        return terms
    return [piece.strip() for term in terms for piece in term.split(SEPARATOR) if piece.strip()]


def without_mark(labels: Labels) -> Labels:
    """Return what a row says; a mark of a missing cell in its list is no list, but is kept."""
    keywords = labels.keywords
    if not keywords or not all(term.strip().lower() in _NO_LIST for term in keywords):
        return labels
    return labels._replace(keywords=None, mark=keywords[0].strip() or None)


class Row(NamedTuple):
    """A document: running text, or tokens (with tags and sentences where known); its labels."""

    labels: Labels
    text: str | None = None
    tokens: Sequence[str] | None = None
    pos: Sequence[str] | None = None
    sentence: Sequence[int] | None = None


def completed(row: Row) -> Row:
    """Return a document whose list of keywords, where it has one, is complete."""
    if row.labels.keywords is None:
        return row
    return row._replace(labels=row.labels._replace(complete=True))


class Reading(NamedTuple):
    """How a document was read: its language (None: not clear), and what was taken out.

    ``shared``: sentences that were left out, as most documents have them. ``key`` and
    ``sentences``: numbers of what is left (`Sample`).
    """

    language: str | None
    removed: tuple[str, ...]
    shared: int
    key: int
    sentences: Sequence[int]


@dataclass(frozen=True)
class Tokens:
    """The tokens of D documents in reading order.

    Parameters
    ----------
    names, languages
        [V] the distinct tokens as they are written, and the language of their documents.
    token
        [T] number of each.
    pos
        [T] a code of ``POS_GROUPS``, `OTHER` or `UNKNOWN`.
    sentence
        [T] its number, `UNKNOWN` where the document's sentences are not known.
    offsets
        [D + 1] where each document begins.
    in_sentences
        [D] whether the document's sentences are known.
    """

    names: list[str]
    languages: list[str]
    token: IntArray
    pos: IntArray
    sentence: IntArray
    offsets: IntArray
    in_sentences: BoolArray


def _with_title(text: str) -> str:
    """Set the first line apart, a sentence of its own, where it is a title.

    It is when it has at most 40 words and the next line begins with a capital, a digit or a
    quotation mark; indented lines continue it.
    """
    found = _TITLE.match(text)
    if found and len(found[1].split()) <= _TITLE_WORDS and not text[found.end()].islower():
        return f"{found[1]}\n\n{text[found.end() :]}"
    return text


def read_tokens(
    rows: Iterable[Row], options: TextOptions, shared: Container[int] = ()
) -> tuple[Tokens, list[Labels], list[Reading]]:
    """Split text into tokens where a row has none.

    ``shared``: numbers of sentences that are left out of documents that have others.

    Returns
    -------
    tokens, labels
        Of all rows.
    readings
        [D] how each was read.
    """
    counter = count()
    # Of each language its own, numbered as they come.
    kinds: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(counter.__next__))
    token, sentence, given, in_sentences, labels = [], [], [], [], []
    readings: list[Reading] = []
    where: Any
    for label, text, tokens, tag, where in rows:
        labels.append(label)
        codes = None
        out: tuple[str, ...] = ()
        if tokens is None:
            text, out = cleaned(text or "")
            language = _language(text, None, options.language)
            normalise = Normaliser.of(options.in_language(language or ENGLISH))
            whole = [
                _without_capitals(line, normalise)
                for line in _split(text, language, label.keywords)
            ]
            keys = list(map(sentence_key, whole))
            own = [i for i, key in enumerate(keys) if key not in shared] or range(len(whole))
            split = [whole[i] for i in own]
            tokens = list(chain.from_iterable(split))
            where = np.repeat(np.arange(len(split)), [len(line) for line in split])
            about = len(whole) - len(split), document_key(split), [keys[i] for i in own]
        else:
            language = _language(None, tokens, options.language)
            codes = [kernels.UNKNOWN] * len(tokens) if tag is None else [pos_code(t) for t in tag]
            about = 0, document_key([tokens]), []
        in_sentences.append(where is not None)
        where = np.full(len(tokens), kernels.UNKNOWN) if where is None else where
        readings.append(Reading(language, out, *about))
        number_of = kinds[language or ENGLISH].__getitem__
        token.append(np.fromiter(map(number_of, tokens), np.int64, len(tokens)))
        sentence.append(np.array(where, np.int64))
        given.append(codes)
    none = np.zeros(0, np.int64)
    every = np.concatenate([none, *token])
    offsets = np.cumsum([0, *map(len, token)])
    by_number = sorted((n, t, language) for language, own in kinds.items() for t, n in own.items())
    found = Tokens(
        [name for _, name, _ in by_number],
        [language for _, _, language in by_number],
        every,
        every,
        np.concatenate([none, *sentence]),
        offsets,
        np.array(in_sentences, bool),
    )
    found = replace(found, pos=_tagged(found, options))
    for d, codes in enumerate(given):
        if codes is not None:
            found.pos[offsets[d] : offsets[d + 1]] = codes
    return found, labels, readings


def _language(text: str | None, tokens: Sequence[str] | None, given: str) -> str | None:
    """Return a document's language: the one that is given, unless it is to be detected."""
    if given != AUTO and given not in UNSPACED:
        return given
    text = " ".join(tokens[:_FIRST] if tokens is not None else [text or ""])
    return unspaced_language(text) or (detected(text) if given == AUTO else given)


def _split(text: str, language: str | None, keywords: Sequence[str] | None) -> list[list[str]]:
    """Return a text's sentences; known keywords are words of their own where it has no spaces."""
    text = with_line_ends(_with_title(text))
    sentences = split_sentences(text, language)
    if not keywords or language not in UNSPACED:
        return sentences
    joined = "\0".join("\0".join(["", *line, ""]) for line in sentences)
    crossed = [
        term
        for term in keywords
        if term in text and "\0".join(["", *split_words(term, language), ""]) not in joined
    ]
    return split_sentences(text, language, crossed) if crossed else sentences


def _without_capitals(tokens: list[str], normalise: Normaliser) -> list[str]:
    """Return a sentence with its stop words in lower case where it, or a part, is in capitals."""
    if sum(map(str.isupper, tokens)) < _CAPITALS and "".join(tokens).isascii():
        return tokens
    found, run = list(tokens), 0
    for i, token in enumerate([*tokens, "end"]):
        if len(token) < 2 or token.upper() == token:
            continue
        part = tokens[run:i]
        letters = [len(one) for one in part if len(one) > 1 and one.lower() != one]
        if len(letters) >= _CAPITALS and (part == tokens or max(letters) >= _LONG):
            found[run:i] = [one.lower() if normalise.is_acronym(one) else one for one in part]
        run = i + 1
    return found


def _tagged(tokens: Tokens, options: TextOptions) -> IntArray:
    """Return parts of speech [T] by the tagger; unknown where there is none."""
    english = np.array([language == ENGLISH for language in tokens.languages], bool)
    tagged = english[tokens.token] & options.tag
    found = np.full(len(tokens.token), kernels.UNKNOWN)
    begins = np.ones(len(tokens.token), bool)
    begins[1:] = tokens.sentence[1:] != tokens.sentence[:-1]
    begins[tokens.offsets[:-1][tokens.offsets[:-1] < len(begins)]] = True
    for rows, code_of in (
        (tagged & begins, AT_THE_START),
        (tagged & ~begins, INSIDE_SENTENCES),
    ):
        own, place = distinct(tokens.token[rows], len(tokens.names))
        names = map(tokens.names.__getitem__, own.tolist())
        found[rows] = np.fromiter(map(code_of.__getitem__, names), np.int64, len(own))[place]
    for language in NOUNS_IN_CAPITALS.intersection(tokens.languages):
        _mark_small_words(tokens, Normaliser.of(options.in_language(language)), begins, found)
    return found


def _mark_small_words(
    tokens: Tokens, normalise: Normaliser, begins: BoolArray, pos: IntArray
) -> None:
    """Take words without a capital for adjectives where a language writes nouns with one.

    So is the first word [T] of a sentence where a noun follows; one right behind a noun is a verb,
    unless it ends as adjectives there do (neuronaler Netze). Documents without capitals inside of
    sentences stay as they are.
    """
    own = np.array([one == normalise.language for one in tokens.languages], bool)

    def are(test: Callable[[str], bool]) -> BoolArray:
        return np.asarray((own & np.array(list(map(test, tokens.names)), bool))[tokens.token], bool)

    small, genitive = are(lambda name: name[:1].islower()), are(lambda name: name.endswith("er"))
    large = are(lambda name: name[:1].isupper() and normalise(name) is not None)
    small |= begins & large & np.append((large & ~begins)[1:], False)
    inside = np.append(0, np.cumsum(large & ~begins))[tokens.offsets]
    written = np.repeat(np.diff(inside) > 0, np.diff(tokens.offsets))
    small &= written
    pos[small] = POS_CODES["JJ"]
    behind = np.append(False, large[:-1]) & ~begins
    pos[small & behind & ~genitive] = POS_CODES["VB"]


def distinct(numbers: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return ``unique(numbers, return_inverse=True)`` of numbers below ``size``, unsorted."""
    there = np.zeros(size, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]
