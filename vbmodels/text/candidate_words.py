"""Which words of documents are candidates, and what is between those that may be of one phrase.

A term of the user's vocabulary is a candidate whatever its signs, stop words and length. A known
keyphrase that the rules for candidates do not find is none: it is in the result alone
(`vbmodels.text.result_rows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.text import token_kernels as kernels
from vbmodels.text.candidates import VERB
from vbmodels.text.languages import ENGLISH, plain
from vbmodels.text.tokens import Tokens
from vbmodels.text.words import (
    GENITIVE,
    MOST_KNOWN,
    NUMBERED,
    POS_GROUPS,
    SLASH,
    Normaliser,
    Parts,
    TextOptions,
    is_letter,
)

MOST_BETWEEN = 2
"""Stop words in a row that may be inside a phrase that nobody names."""


Places = tuple[int, ...]
"""Where a named phrase is: its words' places among all tokens."""


@dataclass(frozen=True)
class Pattern:
    """A named phrase as numbers of its tokens' normal forms."""

    tokens: tuple[int, ...]
    is_word: tuple[bool, ...]


def patterns_of(variants: Iterable[Parts], number: dict[str, int]) -> list[Pattern]:
    """Return the patterns of a term's variants of which every token is in the texts.

    ``variants``: as `vbmodels.text.words.Normaliser.variants` gives them. ``number``: numbers of
    normal forms.
    """
    found = []
    for one in variants:
        tokens = [number.get(token, -1) for token in one.tokens]
        if min(tokens) >= 0 and sum(one.is_word) <= MOST_KNOWN:
            found.append(Pattern(tuple(tokens), one.is_word))
    return found


class Finder:
    """Finds patterns in the tokens of a document."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_first: dict[int, list[Pattern]] = {}
        for pattern in patterns:
            self._by_first.setdefault(pattern.tokens[0], []).append(pattern)
        self._firsts = np.array(sorted(self._by_first), np.int64)

    def __call__(self, normal: IntArray, start: int) -> Iterator[tuple[Pattern, Places]]:
        """Yield what is found in tokens [n] of a document, the first of which is number start."""
        if not len(self._firsts):
            return
        tokens = normal.tolist()
        for i in np.flatnonzero(np.isin(normal, self._firsts)).tolist():
            for pattern in self._by_first[tokens[i]]:
                if tuple(tokens[i : i + len(pattern.tokens)]) == pattern.tokens:
                    words = (start + i + j for j, word in enumerate(pattern.is_word) if word)
                    yield pattern, tuple(words)


def occurrences_of(
    variants: Iterable[Parts], number: dict[str, int], normal: IntArray, start: int
) -> list[Places]:
    """Return where the first of a term's variants is that a document has.

    Parameters
    ----------
    variants, number
        As for `patterns_of`.
    normal, start
        As for `Finder`.
    """
    for pattern in patterns_of(variants, number):
        if found := [one for _, one in Finder([pattern])(normal, start)]:
            return found
    return []


_PROPER = POS_GROUPS.index("proper_noun")
_NOUNS = (kernels.UNKNOWN, *(i for i, name in enumerate(POS_GROUPS) if "noun" in name))


@dataclass(frozen=True)
class Vocabulary:
    """Phrases that are candidates wherever a text has them.

    ``terms``: the phrases. ``only``: whether no others are candidates.
    """

    terms: tuple[str, ...] = ()
    only: bool = False


NO_VOCABULARY = Vocabulary()


@dataclass(frozen=True)
class Kinds:
    """What the distinct tokens of a partition are.

    Parameters
    ----------
    stem, normal
        [V] numbers of the stem, -1 where it has none, and of the normal form.
    link
        [V] whether it is a stop word, which may be inside a phrase.
    named
        [V] whether it is of a vocabulary's terms: candidates however rare.
    letter
        [V] whether it is one capital or digit: a candidate with a noun, and never alone.
    """

    stem: IntArray
    normal: IntArray
    link: BoolArray
    named: BoolArray
    letter: BoolArray


@dataclass
class CandidateWords:
    """The candidate words of a partition's documents, as they are found.

    Parameters
    ----------
    tokens
        Its tokens.
    kinds
        What the distinct tokens are.
    stems
        [S] the distinct normal forms of these.
    least
        [D] fewest occurrences of a candidate.
    term, count, offsets
        [W] stem and occurrences of every candidate, and [D + 1] where each document's begin.
    named
        A vocabulary's terms, in their order.
    found_terms
        The terms of `Report`.
    """

    tokens: Tokens
    kinds: Kinds
    stems: list[str]
    least: IntArray
    term: IntArray
    count: IntArray
    offsets: IntArray
    named: Sequence[Places] = ()
    found_terms: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> BoolArray:
        """[W] whether a candidate is of a vocabulary's term."""
        found = np.zeros(len(self.term), bool)
        for d in np.flatnonzero(np.diff(self.offsets)):
            own = self.tokens.token[self.tokens.offsets[d] : self.tokens.offsets[d + 1]]
            stems = self.kinds.stem[own[self.kinds.named[own]]]
            rows = slice(self.offsets[d], self.offsets[d + 1])
            found[rows] = np.isin(self.term[rows], stems)
        return found

    def of(self, d: int) -> dict[str, int]:
        """Return the candidates of a document with their rows."""
        first, last = int(self.offsets[d]), int(self.offsets[d + 1])
        stems = map(self.stems.__getitem__, self.term[first:last].tolist())
        return dict(zip(stems, range(first, last), strict=True))

    def stand_in(self, d: int) -> set[str]:
        """Return the stems of all words of a document, candidates or not."""
        own = slice(self.tokens.offsets[d], self.tokens.offsets[d + 1])
        stem = self.kinds.stem[self.tokens.token[own]]
        return {self.stems[i] for i in stem[(stem >= 0) & (self.tokens.pos[own] != kernels.OTHER)]}

    def normaliser(self, d: int, options: TextOptions) -> Normaliser:
        """Return the normaliser of a document's language."""
        start, end = self.tokens.offsets[d : d + 2]
        language = self.tokens.languages[self.tokens.token[start]] if start < end else ENGLISH
        return Normaliser.of(options.in_language(language))

    def is_link(self, kinds: Sequence[int], options: TextOptions) -> bool:
        """Return whether a phrase that nobody names may have these tokens inside."""
        if not self.kinds.link[list(kinds)].all():
            return False
        normalise = Normaliser.of(options.in_language(self.tokens.languages[kinds[0]]))
        return normalise.is_link([self.tokens.names[kind] for kind in kinds])

    def keep(self, rows: IntArray) -> None:
        """Keep some of the candidates."""
        document = np.searchsorted(self.offsets, rows, side="right") - 1
        self.term, self.count = self.term[rows], self.count[rows]
        self.offsets = np.searchsorted(document, np.arange(len(self.offsets)))


def candidate_words(tokens: Tokens, options: TextOptions, letters: bool = False) -> CandidateWords:
    """Find every document's words that are frequent enough.

    ``letters``: whether one capital or digit next to a noun is a word.
    """
    numbers: dict[str, int] = {}
    stem, normal, acronym, link, letter = [], [], [], [], []
    by_language = {
        language: Normaliser.of(options.in_language(language)) for language in {*tokens.languages}
    }
    for name, language in zip(tokens.names, tokens.languages, strict=True):
        normalise = by_language[language]
        own = normalise(name)
        normal.append(numbers.setdefault(own or plain(name), len(numbers)))
        letter.append(letters and own is None and is_letter(name))
        stem.append(-1 if own is None and not letter[-1] else normal[-1])
        acronym.append(normalise.is_acronym(name))
        link.append(own is None and (name[:1].isalpha() or plain(name) in (GENITIVE, SLASH)))
    named = np.array(acronym, bool)[tokens.token] & (tokens.pos == kernels.OTHER)
    tokens = replace(tokens, pos=np.where(named, _PROPER, tokens.pos))
    kinds = Kinds(
        np.array(stem, np.int64),
        np.array(normal, np.int64),
        np.array(link, bool),
        np.zeros(len(stem), bool),
        np.array(letter, bool),
    )
    tokens = replace(tokens, pos=_with_letters(tokens, kinds, by_language))
    least = np.array([options.least(n) for n in np.diff(tokens.offsets).tolist()], np.int64)
    return _counted(tokens, kinds, list(numbers), least)


def _with_letters(tokens: Tokens, kinds: Kinds, by_language: Mapping[str, Normaliser]) -> IntArray:
    """Return the parts of speech [T]: a letter or digit is a name with a noun, else nothing.

    With a noun before it; or, a letter that is no word of its own, with one behind it. What has a
    digit before it names a part of the text, or is a sign of few letters.
    """
    letter = kinds.letter[tokens.token]
    places = np.flatnonzero(letter)
    if not len(places):
        return tokens.pos
    numbered, behind = np.zeros((2, len(tokens.names)), bool)
    for kind in np.flatnonzero(kinds.letter):
        name, language = tokens.names[kind], tokens.languages[kind]
        behind[kind] = name.isalpha() and not by_language[language].is_article(name)
    numbered[:] = [len(name) < 4 or name.lower() in NUMBERED for name in tokens.names]
    noun = (kinds.stem[tokens.token] >= 0) & ~letter & np.isin(tokens.pos, _NOUNS)
    joined = np.append(same_sentence(tokens), False)
    digit = ~behind[tokens.token]
    before = np.append(False, (noun & joined)[:-1])
    before &= ~(digit & np.append(False, numbered[tokens.token[:-1]]))
    after = np.append((noun[1:] & joined[:-1]), False) & ~digit
    pos = tokens.pos.copy()
    kept = np.where(pos[places] == kernels.UNKNOWN, kernels.UNKNOWN, _PROPER)
    pos[places] = np.where((before | after)[places], kept, kernels.OTHER)
    return pos


def same_sentence(tokens: Tokens) -> BoolArray:
    """Return whether a token and the next one [T - 1] are of one sentence."""
    document = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    same = (document[1:] == document[:-1]) & (tokens.sentence[1:] == tokens.sentence[:-1])
    return np.asarray(same, bool)


def _counted(tokens: Tokens, kinds: Kinds, stems: list[str], least: IntArray) -> CandidateWords:
    """Count the candidate words of every document."""
    found = kernels.candidates(
        tokens.token, tokens.pos, tokens.offsets, kinds.stem, len(stems), least, kinds.named
    )
    return CandidateWords(tokens, kinds, stems, least, *found)


def name_terms(
    words: CandidateWords, options: TextOptions, vocabulary: Vocabulary
) -> CandidateWords:
    """Make candidates of the terms of a vocabulary that a text has."""
    tokens, kinds = words.tokens, words.kinds
    number = {text: i for i, text in enumerate(words.stems)}
    normal = kinds.normal[tokens.token]
    found: set[Places] = set()
    finders: dict[str, tuple[Finder, dict[Pattern, set[str]]]] = {}
    for d, (start, end) in enumerate(pairwise(tokens.offsets.tolist())):
        if start == end:
            continue
        language = tokens.languages[tokens.token[start]]
        if language not in finders:
            normalise = words.normaliser(d, options)
            terms_of: dict[Pattern, set[str]] = {}
            for term in vocabulary.terms:
                for pattern in patterns_of(normalise.variants(term), number):
                    terms_of.setdefault(pattern, set()).add(term)
            finders[language] = Finder(terms_of), terms_of
        finder, terms_of = finders[language]
        own: set[str] = set()
        for pattern, one in finder(normal[start:end], start):
            found.add(one)
            own.update(terms_of[pattern])
        words.found_terms.update(own)
    if not found:
        return words
    places = np.unique(np.array([place for one in found for place in one], np.int64))
    first = len(tokens.names)
    old, kind = np.unique(tokens.token[places], return_inverse=True)
    token, pos = tokens.token.copy(), tokens.pos.copy()
    token[places] = first + kind
    # What is no ordinary candidate is in no other phrase, as verbs are not.
    plain_word = (kinds.stem[old] >= 0)[kind] & (pos[places] != kernels.OTHER)
    pos[places] = np.where(plain_word, pos[places], VERB)
    tokens = replace(
        tokens,
        names=[*tokens.names, *(tokens.names[i] for i in old)],
        languages=[*tokens.languages, *(tokens.languages[i] for i in old)],
        token=token,
        pos=pos,
    )
    kinds = Kinds(
        np.append(kinds.stem, kinds.normal[old]),
        np.append(kinds.normal, kinds.normal[old]),
        np.append(kinds.link, kinds.link[old]),
        np.append(kinds.named, np.ones(len(old), bool)),
        np.append(kinds.letter, kinds.letter[old]),
    )
    in_order = sorted(found, key=lambda one: (one[0], len(one)))
    return replace(
        _counted(tokens, kinds, words.stems, words.least),
        named=in_order,
        found_terms=words.found_terms,
    )


@dataclass(frozen=True)
class Links:
    """What is between words that may be of one phrase.

    Parameters
    ----------
    texts
        The distinct normal forms.
    number
        [T] which of these is between a word and the next one, -1 where nothing is.
    free
        [T] whether it may be inside of phrases that nobody names.
    form
        [T] number of its written form, -1 where nothing is.
    given
        [G, 2] as `DocumentTokens` has it.
    """

    texts: list[str]
    number: IntArray
    free: BoolArray
    form: IntArray
    given: IntArray

    @classmethod
    def none(cls, size: int) -> Self:
        """Return nothing between words [T] that are no phrases."""
        none = np.full(size, -1)
        return cls([], none, none >= 0, none, np.zeros((0, 2), np.int64))

    def link(self, place: dict[str, int]) -> IntArray:
        """Return the links [T] as `DocumentTokens` has them."""
        places = np.array([*(place[text] for text in self.texts), -1], np.int64)[self.number]
        return np.where(self.free | (self.number < 0), places, -2 - places)


def links_of(
    words: CandidateWords,
    occurrences: IntArray,
    document: IntArray,
    sentence: IntArray,
    forms: dict[str, int],
    options: TextOptions,
) -> Links:
    """Find what is between words that may be of one phrase, and the named phrases' places.

    Parameters
    ----------
    occurrences
        [T] places of the candidate words among all tokens.
    document, sentence
        [T] numbers of the document and the sentence of each.
    forms
        Numbers of written forms; new ones are added.
    """
    tokens, kinds = words.tokens, words.kinds
    size = len(occurrences)
    gap = np.append(np.diff(occurrences) - 1, 0)
    same = np.append((document[1:] == document[:-1]) & (sentence[1:] == sentence[:-1]), False)[
        :size
    ]
    others = np.concatenate([[0], np.cumsum(~kinds.link[tokens.token])])
    free = same & (gap > 0) & (gap <= MOST_BETWEEN)
    rows = np.flatnonzero(free)
    free[rows] = others[occurrences[rows] + gap[rows] + 1] == others[occurrences[rows] + 1]
    row_of = {place: i for i, place in enumerate(occurrences.tolist())} if words.named else {}
    given: list[tuple[int, int]] = []
    named: set[int] = set()
    for one in words.named:
        places = [row_of.get(place, -1) for place in one]
        if min(places) < 0 or places[-1] - places[0] != len(places) - 1:
            continue  # its document was shortened
        given.append((places[0], len(places)))
        named.update(i for i in places[:-1] if gap[i])
    texts: dict[str, int] = {}
    number, form = np.full(size, -1), np.full(size, -1)
    seen: dict[tuple[int, ...], tuple[int, int, bool]] = {}
    for i in sorted({*np.flatnonzero(free).tolist(), *named}):
        first = int(occurrences[i]) + 1
        between = tuple(tokens.token[first : first + int(gap[i])].tolist())
        if between not in seen:
            normal = " ".join(words.stems[kinds.normal[kind]] for kind in between)
            written = " ".join(tokens.names[kind] for kind in between)
            seen[between] = (
                texts.setdefault(normal, len(texts)),
                forms.setdefault(written, len(forms)),
                words.is_link(between, options),
            )
        number[i], form[i], inside = seen[between]
        free[i] &= inside
    unused = ~free
    unused[list(named)] = False
    number[unused], form[unused] = -1, -1
    return Links(list(texts), number, free, form, np.array(given, np.int64).reshape(-1, 2))
