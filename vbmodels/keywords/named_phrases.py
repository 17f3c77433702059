"""Phrases that the user names, where a document has them: terms of a vocabulary, known keyphrases.

A term is a candidate whatever its signs, stop words and length. A known keyphrase that the rules
for candidates do not find is none: it is in the result alone (`vbmodels.keywords.listed_only`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import IntArray
from vbmodels.keywords.text import MOST_KNOWN, Parts

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
