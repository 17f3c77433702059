"""Selected candidates of one document that say the same: near duplicates, parts of others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.text.candidates import Spans

ALIKE = 0.9
"""Share of letters in the same order from which on two candidates are one."""
_SHORTEST = 5
VERY_SHORT = 30  # tokens of a document in which whole phrases are selected
_BETWEEN = re.compile(r"[\s\-\u2010-\u2015'\u2019./_&,]+")
"""Signs between the parts of a term, with which it is the same as without."""


def without_near_duplicates(
    chosen: BoolArray,
    observed: BoolArray,
    probability: FloatArray,
    stems: Sequence[str],
    offsets: IntArray,
) -> BoolArray:
    """Return a selection [M] with the most probable one of every group of near duplicates.

    Known candidates stay, and what is nearly the same as one of them goes.

    Examples
    --------
    >>> stems = ["e-mail", "email", "mail", "data base", "databas", "graph"]
    >>> every, none = np.ones(6, bool), np.zeros(6, bool)
    >>> probability = np.array([0.5, 0.6, 0.4, 0.9, 0.3, 0.2])
    >>> without_near_duplicates(every, none, probability, stems, np.array([0, 6]))
    array([False,  True,  True,  True, False,  True])
    """
    kept = chosen.copy()
    for start, end in pairwise(offsets.tolist()):
        rows = np.flatnonzero(chosen[start:end]) + start
        order = rows[np.lexsort((rows, -probability[rows], ~observed[rows]))]
        taken: list[tuple[str, int]] = []
        for row in order.tolist():
            letters = _BETWEEN.sub("", stems[row])
            found = _set_of(letters)
            if not observed[row] and any(
                (found ^ has).bit_count() <= (1 - ALIKE) * (len(letters) + len(other)) + 1e-9
                and _alike(letters, other)
                for other, has in taken
            ):
                kept[row] = False
            else:
                taken.append((letters, found))
    return kept


def _set_of(text: str) -> int:
    """Return the letters of a text as bits.

    Each bit that only one of two texts has is a letter without its like in the other, so most
    pairs that are not alike are found without comparing them.
    """
    bits = 0
    for letter in set(text):
        bits |= 1 << (ord(letter) & 63)
    return bits


def without_parts(
    chosen: BoolArray, observed: BoolArray, probability: FloatArray, spans: Spans
) -> BoolArray:
    """Return a selection [M] without parts and slices of others of it.

    A part is a candidate that its document has only inside longer ones which are known or at
    least as probable: "life" where it is only in "quality of life". A slice shares more than half
    of its words wherever it is with one that is more probable: "or conditions of" in "conditions
    of any kind". Known candidates stay.
    """
    r = np.where(observed, np.inf, probability)
    rows = np.flatnonzero((chosen | observed)[spans.phrase])
    rows = rows[np.argsort(spans.start[rows], kind="stable")]
    phrase, start = spans.phrase[rows], spans.start[rows]
    end, kept = start + spans.size[phrase], observed.copy()
    first = np.searchsorted(start, start - (end - start).max(initial=0), side="right")
    after = np.searchsorted(start, end)
    by_phrase = np.argsort(phrase, kind="stable")
    ends = np.searchsorted(phrase[by_phrase], [np.arange(len(r)), np.arange(1, len(r) + 1)])
    candidates = np.flatnonzero(chosen & ~observed)
    for row in candidates[np.lexsort((-spans.size[candidates], -r[candidates]))].tolist():
        for i in by_phrase[ends[0, row] : ends[1, row]].tolist():
            others = np.arange(first[i], after[i])
            others = others[kept[phrase[others]]]
            shared = np.minimum(end[others], end[i]) - np.maximum(start[others], start[i])
            sticks_out = shared < end[others] - start[others]
            if not (sticks_out & (2 * shared > spans.size[row])).any():
                kept[row] = True
                break
    return chosen & kept


def with_whole_phrases(
    chosen: BoolArray, observed: BoolArray, spans: Spans, n_tokens: IntArray
) -> BoolArray:
    """Return a selection [M] with whole phrases in place of their parts, in very short documents.

    A phrase that is found once, inside of a longer run of words, is a part of it: the text does not
    show that it is a phrase of its own. Known candidates stay.

    ``n_tokens`` [D]: tokens of each document.
    """
    start, end = spans.start, spans.start + spans.size[spans.phrase]
    whole = np.flatnonzero(spans.maximal)
    whole = whole[np.argsort(start[whole])]
    around = np.searchsorted(start[whole], start, side="right") - 1
    around = np.append(whole, 0)[around]
    inside = ~spans.maximal & (start[around] <= start) & (end <= end[around])
    inside &= (n_tokens <= VERY_SHORT)[spans.document][spans.phrase]
    found = chosen & ~observed
    parts = found & (spans.count == 1) & (np.bincount(spans.phrase, inside, len(chosen)) > 0)
    kept: BoolArray = chosen & ~parts
    kept[spans.phrase[around[parts[spans.phrase]]]] = True
    return kept


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    size = len(one) + len(other)
    if min(len(one), len(other)) < _SHORTEST or 2 * min(len(one), len(other)) < ALIKE * size:
        return False
    if [*filter(str.isdigit, one)] != [*filter(str.isdigit, other)]:
        return False  # interleukin 12 and 21
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() >= ALIKE and matcher.ratio() >= ALIKE
