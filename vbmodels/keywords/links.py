"""What is between words that may be of one phrase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.keywords.candidate_words import CandidateWords
from vbmodels.keywords.named_phrases import MOST_BETWEEN
from vbmodels.keywords.text import TextOptions


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

    def link(self, place: dict[str, int]) -> IntArray:
        """Return the links [T] as `DocumentTokens` has them."""
        places = np.array([*(place[text] for text in self.texts), -1], np.int64)[self.number]
        return np.where(self.free | (self.number < 0), places, -2 - places)


def links_of(
    words: CandidateWords,
    occurrences: IntArray,
    word: IntArray,
    sentence: IntArray,
    sizes: IntArray,
    forms: dict[str, int],
    options: TextOptions,
) -> Links:
    """Find what is between words that may be of one phrase, and the named phrases' places.

    Parameters
    ----------
    occurrences
        [T] places of the candidate words among all tokens.
    word, sentence
        [T] as `DocumentTokens` has them.
    sizes
        [D] words of every document.
    forms
        Numbers of written forms; new ones are added.
    """
    tokens, kinds = words.tokens, words.kinds
    size = len(occurrences)
    gap = np.append(np.diff(occurrences) - 1, 0)
    document = document_of(sizes)[word]
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
        places = [row_of.get(place, -1) for place in one.words]
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


def document_of(sizes: IntArray) -> IntArray:
    """Return the number of the document of every word."""
    return np.repeat(np.arange(len(sizes)), sizes)
