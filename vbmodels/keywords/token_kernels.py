# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Numbered tokens to candidate words and their occurrences, document by document.

Letters: D documents, T tokens, V distinct tokens, S distinct stems, W candidate words of all
documents.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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
    length[first:last] = 0
    for i in range(first, last):
        if pos[i] == UNKNOWN:
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
            length[i:k] = k - i
        i = max(k, i + 1)


@njit(cache=True, nogil=True)
def occurrences(token, pos, sentence, offsets, in_sentences, stem, stems, term, words, group,
                capital, upper, form, lower, noun_capitals):  # fmt: skip
    """Return where and how every candidate word occurs.

    Parameters
    ----------
    token, pos, sentence, offsets
        [T], [T], [T], [D + 1] the documents.
    in_sentences
        [D] whether sentences are known.
    stem, stems
        As in `candidates`.
    term, words
        [W] stem of each candidate, and [D + 1] where each document's begin.
    group
        What each part of speech is in a noun phrase; the last two are those of -2 and -1.
    capital, upper, form, lower
        [V] whether a token begins with a capital, is written in capitals, and the numbers of its
        form and of that in lower case.
    noun_capitals
        [V] whether a token of a sentence's beginning keeps its capital where nothing speaks
        against it.

    Returns
    -------
    table
        [O, 8] word, place in the document, sentence, whether in its title, part of speech, words
        of the noun phrase, whether capitalised inside a sentence, whether in capitals.
    token, shown
        [O] the form as it is written, and without a capital that only the sentence's beginning
        gives it: where the word is written in lower case inside of sentences more often than not.
    """
    row = np.full(stems, -1)
    table, which = np.empty((len(token), 8), np.int64), np.empty(len(token), np.int64)
    length, breaks = np.empty(len(token), np.int64), np.zeros(len(token), np.bool_)
    breaks[1:] = sentence[1:] != sentence[:-1]
    shown, open_ = np.empty(len(token), np.int64), np.zeros(len(token), np.bool_)
    cased = np.zeros(stems, np.int64)  # more often with a capital inside of sentences
    filled = 0
    for d in range(len(offsets) - 1):
        first, last = offsets[d], offsets[d + 1]
        if words[d] == words[d + 1]:
            continue
        for r in range(words[d], words[d + 1]):
            row[term[r]] = r
            cased[term[r]] = 0
        begin = filled
        _noun_phrases(pos, group, breaks, first, last, length)
        for i in range(first, last):
            t = token[i]
            if stem[t] < 0 or pos[i] == OTHER or row[stem[t]] < 0:
                continue
            r = row[stem[t]]
            inside = i > first and not breaks[i]
            high = inside and capital[t]
            one = table[filled]
            one[0], one[1], one[2], one[4] = r, i - first, sentence[i], pos[i]
            one[3] = in_sentences[d] and sentence[i] == sentence[first]
            one[5], one[6], one[7] = length[i], high, upper[t]
            as_it_is = inside or upper[t] or not capital[t]
            which[filled], shown[filled] = form[t], form[t] if as_it_is else lower[t]
            open_[filled] = capital[t] and not inside and not upper[t]
            if inside and not upper[t]:
                cased[stem[t]] += 1 if capital[t] else -1
            elif open_[filled] and noun_capitals[t]:
                shown[filled] = form[t]
            filled += 1
        for o in range(begin, filled):
            t = token[first + table[o, 1]]
            if open_[o] and cased[stem[t]] != 0:
                shown[o] = form[t] if cased[stem[t]] > 0 else lower[t]
        row[term[words[d] : words[d + 1]]] = -1
    return table[:filled], which[:filled], shown[:filled]


@njit(cache=True, nogil=True)
def most_frequent(word, shown, size):
    """Return the most frequent form of every word [W]; of equals the earlier.

    Parameters
    ----------
    word, shown
        [O] the word of every occurrence, and its form.
    size
        W.
    """
    head, best = np.full(size, -1), np.full(size, -1)
    forms, times = np.empty(len(word), np.int64), np.empty(len(word), np.int64)
    after = np.empty(len(word), np.int64)
    known = 0
    for o in range(len(word)):
        k = head[word[o]]
        while k >= 0 and forms[k] != shown[o]:
            k = after[k]
        if k < 0:
            k, known = known, known + 1
            forms[k], times[k], after[k], head[word[o]] = shown[o], 0, head[word[o]], k
        times[k] += 1
    for r in range(size):
        k = head[r]
        most = k
        while k >= 0:  # the latest comes first
            if times[k] >= times[most]:
                most = k
            k = after[k]
        best[r] = forms[most]
    return best
