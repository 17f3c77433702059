"""Phrases that the user names, where a document has them: known keyphrases, terms of a vocabulary.

What is named is a candidate whatever its signs, stop words and length. A known keyphrase that the
rules for candidates find by themselves is left to them, so that known phrases and others are
counted alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.phrases.spans import EARLY, LAST, LONG_DOCUMENT, MOST_WORDS, VERB
from vbmodels.keywords.text import MOST_KNOWN, Parts
from vbmodels.keywords.token_kernels import OTHER

MOST_BETWEEN = 2
"""Stop words in a row that may be inside a phrase that nobody names."""


@dataclass(frozen=True)
class Occurrence:
    """Where a named phrase is: places of its words among all tokens."""

    words: tuple[int, ...]


@dataclass(frozen=True)
class Pattern:
    """A named phrase as numbers of its tokens' normal forms."""

    tokens: tuple[int, ...]
    is_word: tuple[bool, ...]


def patterns_of(variants: Iterable[Parts], number: dict[str, int]) -> list[Pattern]:
    """Return the patterns of a term's variants of which every token is in the texts.

    ``variants``: as `vbmodels.keywords.text.Normaliser.variants` gives them. ``number``: numbers of
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

    def __call__(self, normal: IntArray, start: int) -> Iterator[tuple[Pattern, Occurrence]]:
        """Yield what is found in tokens [n] of a document, the first of which is number start."""
        if not len(self._firsts):
            return
        tokens = normal.tolist()
        for i in np.flatnonzero(np.isin(normal, self._firsts)).tolist():
            for pattern in self._by_first[tokens[i]]:
                if tuple(tokens[i : i + len(pattern.tokens)]) == pattern.tokens:
                    words = (start + i + j for j, word in enumerate(pattern.is_word) if word)
                    yield pattern, Occurrence(tuple(words))


def occurrences_of(
    variants: Iterable[Parts], number: dict[str, int], normal: IntArray, start: int
) -> list[Occurrence]:
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


@dataclass(frozen=True)
class Rules:
    """What decides whether an occurrence is a candidate that nobody needs to name.

    Parameters
    ----------
    normal, stem
        [T] numbers of the tokens' normal forms, and of their stems (-1: no word).
    pos
        [T] parts of speech.
    is_link
        Whether the tokens of these places may be inside of a phrase that nobody names.
    bound
        [2, T] whether a phrase that begins here, or ends here, is a part of every longer one.
    """

    normal: IntArray
    stem: IntArray
    pos: IntArray
    is_link: Callable[[IntArray], bool]
    bound: BoolArray

    def ordinary(self, occurrence: Occurrence) -> tuple[bool, bool]:
        """Return whether it is of an ordinary form, and whether it must be found twice."""
        words = np.array(occurrence.words)
        if len(words) > MOST_WORDS or (self.stem[words] < 0).any():
            return False, False
        pos = self.pos[words]
        if ((pos == OTHER) | (pos == VERB)).any() or pos[-1] not in LAST:
            return False, False
        if self.bound[0, words[0]] or self.bound[1, words[-1]]:
            return False, False
        if len(set(self.normal[words].tolist())) < len(words):
            return False, False
        between = np.diff(words) - 1
        if not between.any():
            return True, False
        inside = np.setdiff1d(np.arange(words[0], words[-1]), words)
        short = between.max() <= MOST_BETWEEN and np.count_nonzero(between) == 1
        return bool(short and self.is_link(inside)), True

    def to_name(
        self, found: Sequence[Occurrence], start: int, size: int, least: int
    ) -> list[Occurrence]:
        """Return the occurrences of a known keyphrase that must be named to be a candidate.

        Parameters
        ----------
        found
            All of a document.
        start, size
            The document's first token, and how many it has.
        least
            Fewest occurrences of a candidate word.
        """
        if not found:
            return []
        ordinary = [one for one in found if self.ordinary(one)[0]]
        if not ordinary:
            return list(found)
        twice = self.ordinary(ordinary[0])[1]
        early = size <= LONG_DOCUMENT or ordinary[0].words[0] - start < EARLY
        if least == 1 and (len(ordinary) > 1 or (early and not twice)):
            return []
        return ordinary
