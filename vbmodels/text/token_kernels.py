# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Numbered tokens to candidate words and their occurrences, document by document.

Letters: D documents, T tokens, V distinct tokens, S distinct stems, W candidate words of all
documents.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from vbmodels.core.state import BoolArray, IntArray

OTHER, UNKNOWN = -2, -1
NOUN, ADJECTIVE = 1, 2
"""What a part of speech is in a noun phrase."""


@njit(cache=True, nogil=True)
def candidates(token, pos, offsets, stem, stems, least, always):
    """Return stem, occurrences [W] and offsets [D + 1] of each document's frequent words.

    Parameters
    ----------
    token, pos, offsets
        [T], [T], [D + 1] the documents.
    stem
        [V] number of the stem of each token, -1 where it has none.
    stems
        S.
    least
        [D] fewest occurrences of a candidate.
    always
        [V] whether one occurrence of the token is enough.
    """
    times, kept = np.zeros(stems, np.int64), np.zeros(stems, np.bool_)
    found, count = np.empty(len(token), np.int64), np.empty(len(token), np.int64)
    ends = np.zeros(len(offsets), np.int64)
    filled = 0
    for d in range(len(least)):
        seen = filled
        for i in range(offsets[d], offsets[d + 1]):
            s = stem[token[i]]
            if s >= 0 and pos[i] != OTHER:
                if times[s] == 0:
                    found[seen] = s
                    seen += 1
                times[s] += 1
                kept[s] |= always[token[i]]
        for k in range(filled, seen):
            s = found[k]
            if times[s] >= least[d] or kept[s]:
                found[filled], count[filled] = s, times[s]
                filled += 1
            times[s], kept[s] = 0, False
        ends[d + 1] = filled
    return found[:filled], count[:filled], ends


@njit(cache=True, nogil=True)
def _noun_phrases(pos, group, breaks, first, last, length):
    """Fill the length of the noun phrase (adjectives, then nouns) at each token of a document."""
    known = True
    for i in range(first, last):
        length[i] = 0
        known &= pos[i] != UNKNOWN
    if not known:
        return
    i = first
    while i < last:
        j = i
        while j < last and (j == i or not breaks[j]) and group[pos[j]] == ADJECTIVE:
            j += 1
        k = j
        while k < last and (k == i or not breaks[k]) and group[pos[k]] == NOUN:
            k += 1
        if k > j:
            for inside in range(i, k):
                length[inside] = k - i
        i = max(k, i + 1)


class Texts(NamedTuple):
    """Documents as numbered tokens.

    Attributes
    ----------
    token, pos, sentence, offsets
        [T], [T], [T], [D + 1] the tokens, their parts of speech and sentences.
    in_sentences
        [D] whether sentences are known.
    """

    token: IntArray
    pos: IntArray
    sentence: IntArray
    offsets: IntArray
    in_sentences: BoolArray


class Kinds(NamedTuple):
    """What is known of distinct tokens, each [V].

    Attributes
    ----------
    stem
        Number of its stem, -1 where it has none.
    capital, upper
        Whether it begins with a capital, and is written in capitals.
    form, lower
        Numbers of its form and of that in lower case.
    noun_capitals
        Whether it keeps its capital at a sentence's beginning where nothing speaks against it.
    """

    stem: IntArray
    capital: BoolArray
    upper: BoolArray
    form: IntArray
    lower: IntArray
    noun_capitals: BoolArray


@njit(cache=True, nogil=True)
def occurrences(texts, kinds, stems, term, words, group):
    """Return where and how every candidate word occurs, and its most frequent form [W].

    Parameters
    ----------
    texts, kinds
        `Texts` and `Kinds`.
    stems
        As in `candidates`.
    term, words
        [W] stem of each candidate, and [D + 1] where each document's begin.
    group
        What each part of speech is in a noun phrase; the last two are those of -2 and -1.

    Returns
    -------
    table
        [O, 8] word, place in the document, sentence, whether in its title, part of speech, words
        of the noun phrase, whether capitalised inside a sentence, whether in capitals.
    token, shown
        [O] the form as it is written, and without a capital that only the sentence's beginning
        gives it: where the word is written in lower case inside of sentences more often than not.
    best
        [W] the most frequent of the latter; of equals the earlier.
    """
    size = len(texts.token)
    row, cased = np.full(stems, -1), np.zeros(stems, np.int64)
    table, which = np.empty((size, 8), np.int64), np.empty(size, np.int64)
    shown = np.empty(size, np.int64)
    length, breaks = np.empty(size, np.int64), np.zeros(size, np.bool_)
    for i in range(1, size):
        breaks[i] = texts.sentence[i] != texts.sentence[i - 1]
    best, filled = np.full(len(term), -1), np.int64(0)
    for d in range(len(texts.offsets) - 1):
        own = term[words[d] : words[d + 1]]
        if len(own) == 0:
            continue
        for k in range(len(own)):
            row[own[k]], cased[own[k]] = words[d] + k, 0
        _noun_phrases(texts.pos, group, breaks, texts.offsets[d], texts.offsets[d + 1], length)
        begin = filled
        filled = _find(texts, kinds, d, row, breaks, length, table, filled)
        _count_capitals(texts, kinds, d, table[begin:filled], breaks, cased)
        for o in range(begin, filled):
            i = texts.offsets[d] + table[o, 1]
            inside = i > texts.offsets[d] and not breaks[i]
            t = texts.token[i]
            which[o] = kinds.form[t]
            shown[o] = _form_shown(kinds, t, inside, cased[kinds.stem[t]])
        _most_frequent(table[begin:filled, 0], shown[begin:filled], best)
        for k in range(len(own)):
            row[own[k]] = -1
    return table[:filled], which[:filled], shown[:filled], best


@njit(cache=True, nogil=True)
def _find(texts, kinds, d, row, breaks, length, table, filled):
    """Add the occurrences of a document's candidates to the table; return how many it has."""
    first, last = texts.offsets[d], texts.offsets[d + 1]
    for i in range(first, last):
        t = texts.token[i]
        if kinds.stem[t] < 0 or texts.pos[i] == OTHER or row[kinds.stem[t]] < 0:
            continue
        one = table[filled]
        one[0], one[1], one[2] = row[kinds.stem[t]], i - first, texts.sentence[i]
        one[3] = texts.in_sentences[d] and texts.sentence[i] == texts.sentence[first]
        one[4], one[5] = texts.pos[i], length[i]
        one[6] = i > first and not breaks[i] and kinds.capital[t]
        one[7] = kinds.upper[t]
        filled += 1
    return filled


@njit(cache=True, nogil=True)
def _count_capitals(texts, kinds, d, table, breaks, cased):
    """Count, inside of sentences, how much more often a stem has a capital than none."""
    for o in range(len(table)):
        i = texts.offsets[d] + table[o, 1]
        t = texts.token[i]
        if table[o, 1] > 0 and not breaks[i] and not kinds.upper[t]:
            cased[kinds.stem[t]] += 1 if kinds.capital[t] else -1


@njit(cache=True, nogil=True)
def _form_shown(kinds, t, inside, cased):
    """Return a token's form, in lower case where only the sentence's beginning gives a capital."""
    if inside or kinds.upper[t] or not kinds.capital[t]:
        return kinds.form[t]
    if cased != 0:
        return kinds.form[t] if cased > 0 else kinds.lower[t]
    return kinds.form[t] if kinds.noun_capitals[t] else kinds.lower[t]


@njit(cache=True, nogil=True)
def _most_frequent(word, shown, best):
    """Fill the most frequent form of each word of a document; of equals the earlier."""
    low, high = len(best), -1
    for row in word:
        low, high = min(low, row), max(high, row)
    head = np.full(max(high - low + 1, 0), -1)
    forms, times, after = np.empty_like(word), np.empty_like(word), np.empty_like(word)
    known = 0
    for o in range(len(word)):
        k = head[word[o] - low]
        while k >= 0 and forms[k] != shown[o]:
            k = after[k]
        if k < 0:
            k, known = known, known + 1
            forms[k], times[k], after[k], head[word[o] - low] = shown[o], 0, head[word[o] - low], k
        times[k] += 1
    for r in range(len(head)):
        k, most = head[r], -1
        while k >= 0:  # the latest comes first
            if most < 0 or times[k] >= times[most]:
                most = k
            k = after[k]
        if most >= 0:
            best[low + r] = forms[most]
