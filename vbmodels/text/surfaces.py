"""How a partition's candidates are written: the forms of their words, joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, IntArray
from vbmodels.text.candidates import DocumentTokens, Marks, Spans
from vbmodels.text.languages import SIGN, plain
from vbmodels.text.words import GENITIVE

_UNSPACED = re.compile(rf"(?<={SIGN}) (?={SIGN})")
"""A blank between letters of a script that has none between words."""
_ELISION = re.compile(r"(?<=\w['’]) ", re.ASCII)  # l'eau
_GENITIVE = re.compile(r"(?<=\w) (?=['’]s\b)", re.ASCII)  # Jerry's
Numbers = NDArray[np.signedinteger]


@dataclass(frozen=True)
class Written:
    """How a partition's candidates are written.

    Attributes
    ----------
    term
        [M] in the most frequent form, without the capital of a sentence's beginning.
    surface
        [M] as it is written at its first occurrence.
    stem
        [M] its stems.
    position, occurrences
        [M] tokens before its first occurrence, and how many there are.
    """

    term: list[str]
    surface: list[str]
    stem: list[str]
    position: IntArray
    occurrences: IntArray


def written(
    tokens: DocumentTokens,
    spans: Spans,
    vocabulary: Sequence[str],
    marks: Marks,
    forms: Sequence[str],
) -> Written:
    """Return how every candidate is written.

    ``vocabulary`` and ``forms``: the partition's distinct stems, and the distinct written forms of
    its words.
    """
    width = spans.words.shape[1]
    each = _between(spans.start, spans.size[spans.phrase], width, marks.shown, marks.link)
    # "Support Vector" at a sentence's beginning is a name as much as it is elsewhere.
    kept = tokens.capital | tokens.upper
    uncapitalised = np.zeros(tokens.n_words, bool)
    uncapitalised[tokens.word[(marks.form == marks.shown) & ~kept]] = True
    named = np.flatnonzero(spans.size[spans.phrase] > 1)
    first = spans.start[named]
    genitive = np.array([*(plain(form) == GENITIVE for form in forms), False])[marks.link[first]]
    if tokens.letter is not None:
        kept = kept & ~tokens.letter[tokens.word]
    named = named[(kept[first + 1] | genitive) & ~uncapitalised[tokens.word[first]]]
    each[named, 0] = marks.form[spans.start[named]]
    links = np.full(len(tokens.word), -1) if tokens.link is None else tokens.link
    links = np.where(links < -1, -2 - links, links)
    terms = tokens.term[tokens.word]
    return Written(
        _joined(forms, _most_frequent(spans, each)),
        _joined(forms, _between(spans.first, spans.size, width, marks.form, marks.link)),
        _joined(vocabulary, _between(spans.first, spans.size, width, terms, links)),
        tokens.position[spans.first].astype(np.int64),
        spans.count,
    )


def occurring_forms(
    spans: Spans, marks: Marks, forms: Sequence[str], phrases: IntArray
) -> dict[int, list[str]]:
    """Return the distinct forms in which each of some candidates occurs, in their order.

    Parameters
    ----------
    phrases
        Numbers of candidates.
    marks, forms
        As `written` takes them.
    """
    rows = np.flatnonzero(np.isin(spans.phrase, phrases))
    of, width = spans.phrase[rows], spans.words.shape[1]
    numbers = _between(spans.start[rows], spans.size[of], width, marks.form, marks.link)
    found: dict[int, dict[str, None]] = {phrase: {} for phrase in phrases.tolist()}
    for phrase, form in zip(of.tolist(), _joined(forms, numbers), strict=True):
        found[phrase].setdefault(form)
    return {phrase: list(own) for phrase, own in found.items()}


def _between(
    start: IntArray, size: IntArray, width: int, words: Numbers, links: Numbers
) -> IntArray:
    """Return the numbers [n, 2 width - 1] of words in a row and of what is between them.

    -1 where nothing is.

    Parameters
    ----------
    start, size
        [n] the first word of each row, and how many it has.
    words, links
        [T] numbers of every word, and of what is between it and the next one.
    """
    found = np.full((len(start), 2 * width - 1), -1)
    if not len(words):
        return found
    for i in range(width):
        rows = np.flatnonzero(size > i)
        found[rows, 2 * i] = words[start[rows] + i]
        if i + 1 < width:
            rows = np.flatnonzero(size > i + 1)
            found[rows, 2 * i + 1] = links[start[rows] + i]
    return found


def _most_frequent(spans: Spans, each: IntArray) -> IntArray:
    """Return the most frequent row of ``each`` [O, K] of a phrase; the earlier of equals."""
    chosen = np.empty((len(spans.size), each.shape[1]), np.int64)
    chosen[spans.phrase] = each
    again = np.flatnonzero(spans.count[spans.phrase] > 1)
    if not len(again):
        return chosen
    order = again[np.lexsort((spans.start[again], *each[again].T[::-1], spans.phrase[again]))]
    phrase, rows, start = spans.phrase[order], each[order], spans.start[order]
    new = np.ones(len(phrase), bool)
    new[1:] = (phrase[1:] != phrase[:-1]) | (rows[1:] != rows[:-1]).any(axis=1)
    at = np.flatnonzero(new)
    times = np.diff(np.append(at, len(phrase)))
    best = np.lexsort((start[at], -times, phrase[at]))
    first = np.ones(len(best), bool)
    first[1:] = phrase[at][best][1:] != phrase[at][best][:-1]
    one = at[best[first]]
    chosen[phrase[one]] = rows[one]
    return chosen


def _joined(texts: Sequence[str], numbers: IntArray) -> list[str]:
    """Join texts by blanks, row by row of their numbers [M, K]; -1 is none."""
    rows = zip(*numbers.T.tolist(), strict=True)  # no list of each row is kept
    return [close_up(" ".join([texts[i] for i in row if i >= 0])) for row in rows]


def close_up(text: str) -> str:
    """Leave out the blanks that no writer puts between two words."""
    text = text.replace(" / ", "/")
    if "'" in text or "’" in text:
        text = _GENITIVE.sub("", _ELISION.sub("", text))
    return text if text.isascii() else _UNSPACED.sub("", text)


def longer_phrases(
    document: IntArray,
    stem: Sequence[str],
    term: Sequence[str],
    selected: BoolArray,
    observed: BoolArray,
) -> list[str | None]:
    """Return the term of the longer phrase, selected or known, of which each candidate is a part.

    Only of selected ones that are not known; None elsewhere. A part is a phrase's words in a row.

    >>> yes, no = np.array([True, True, False]), np.zeros(3, bool)
    >>> stem = ["street lamp", "lamp", "street"]
    >>> longer_phrases(np.zeros(3, int), stem, ["street lamps", "lamps", "street"], yes, no)
    [None, 'street lamps', None]
    """
    longer: dict[int, list[int]] = {}
    for i in np.flatnonzero(selected | observed).tolist():
        if " " in stem[i]:
            longer.setdefault(int(document[i]), []).append(i)
    found: list[str | None] = [None] * len(stem)
    for i in np.flatnonzero(selected & ~observed).tolist():
        inside = f" {stem[i]} "
        for j in longer.get(int(document[i]), ()):
            if stem[i] != stem[j] and inside in f" {stem[j]} ":
                found[i] = term[j]
                break
    return found
