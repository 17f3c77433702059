# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Candidate phrases, document by document: where they stand, and how they stand to known ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from vbmodels.core.sampling import FIRST, GOLDEN, SECOND

MOST_WORDS = 4


@njit(cache=True, nogil=True)
def occurrences(word, inside, joined, last, keys):
    """Return start, size and key [O] of every run of words that may be a phrase.

    By place, then number of words.

    Parameters
    ----------
    word
        [T] the word that stands here.
    inside, last
        [T] whether it may be in a phrase, and at its end.
    joined
        [T - 1] whether it and the next one may stand in one.
    keys
        [W] number of each word's stem.
    """
    most = MOST_WORDS * len(word)
    start, size = np.empty(most, np.int64), np.empty(most, np.int64)
    key = np.empty(most, np.uint64)
    found = 0
    for i in range(len(word)):
        if not inside[i]:
            continue
        for n in range(1, MOST_WORDS + 1):
            end = i + n - 1
            if n > 1 and (end >= len(word) or not joined[end - 1]):
                break
            twice = False
            for j in range(i, end):
                twice |= word[j] == word[end]
            if twice:
                break
            if last[end]:
                start[found], size[found] = i, n
                key[found] = mixed(keys, word[i : end + 1])
                found += 1
    return start[:found].copy(), size[:found].copy(), key[:found].copy()


@njit(cache=True, nogil=True)
def mixed(keys, words):
    """Return the number of the phrase of these words; `phrase_ids.key_of`."""
    key = np.uint64(len(words))
    for word in words:
        key = (key * GOLDEN) ^ keys[word]
        key = (key ^ (key >> np.uint64(30))) * FIRST
        key = (key ^ (key >> np.uint64(27))) * SECOND
        key = key ^ (key >> np.uint64(31))
    return key


@njit(cache=True, nogil=True)
def grouped(document, start, size, key, long, early, documents):
    """Gather the occurrences of each phrase of a document, in the order of the first ones.

    Parameters
    ----------
    document, start, size, key
        [O] of every occurrence, by document, then place, then number of words.
    long
        [D] whether a phrase of the document must stand twice or early.
    early
        [O] whether the occurrence does stand early.
    documents
        D.

    Returns
    -------
    phrase
        [O] number of its phrase, -1 where that is left out.
    first
        [M] the first occurrence of every phrase.
    offsets
        [D + 1] phrases of each document.
    """
    phrase, first = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    times = np.zeros(len(start), np.int64)
    offsets = np.zeros(documents + 1, np.int64)
    room = 64
    held, stamp = np.empty(room, np.int64), np.full(room, -1)
    low = found = 0
    for d in range(documents):
        high = low
        while high < len(start) and document[high] == d:
            high += 1
        while room < 2 * (high - low):
            room *= 2
            held, stamp = np.empty(room, np.int64), np.full(room, -1)
        mask = np.uint64(room - 1)
        begin = found
        for o in range(low, high):
            at = ((key[o] * GOLDEN) >> np.uint64(32)) & mask
            while stamp[at] == d and key[first[held[at]]] != key[o]:
                at = (at + np.uint64(1)) & mask
            if stamp[at] != d:
                stamp[at], held[at], first[found] = d, found, o
                found += 1
            phrase[o] = held[at]
            times[held[at]] += 1
        if long[d]:
            found = _keep(begin, found, early, phrase[low:high], first, times)
        offsets[d + 1] = found
        low = high
    return phrase, first[:found], offsets


@njit(cache=True, nogil=True)
def _keep(begin, found, early, phrase, first, times):
    """Leave out a long document's phrases begin..found that are neither repeated nor early.

    ``phrase`` is of the document's occurrences. Returns where its phrases end.
    """
    kept = begin
    for m in range(begin, found):
        stays = times[m] > 1 or early[first[m]]
        times[m] = kept if stays else -1
        first[kept] = first[m]
        kept += stays
    for o in range(len(phrase)):
        phrase[o] = times[phrase[o]]
    times[begin:found] = 0
    return kept


@njit(cache=True, nogil=True)
def relations(words, size, key, offsets, known, inside, holds, shares):
    """Fill how phrases [M] stand to the known ones of their document; `features._relations`."""
    for d in range(len(offsets) - 1):
        seen = np.flatnonzero(known[offsets[d] : offsets[d + 1]]) + offsets[d]
        k = len(seen)
        if k < 2:
            continue
        for m in range(offsets[d], offsets[d + 1]):
            without = np.int64(key[m] % np.uint64(k))
            if known[m]:
                without = np.searchsorted(seen, m)
            a = b = total = 0.0
            for place in range(k):
                if place == without:
                    continue
                other = seen[place]
                both = 0
                for i in range(size[m]):
                    for j in range(size[other]):
                        both += words[m, i] == words[other, j]
                a += both == size[m] and size[m] < size[other]
                b += both == size[other] and size[other] < size[m]
                total += both / (size[m] + size[other] - both)
            inside[m], holds[m] = a / (k - 1), b / (k - 1)
            shares[m] = np.log(0.05 + total / (k - 1))


@njit(cache=True, nogil=True)
def ends(words, values, least, most, total):
    """Fill least, most and sum [M] of the values [W] of each phrase's words [M, 4]."""
    for m in range(len(words)):
        low, high, found = np.inf, -np.inf, 0.0
        for word in words[m]:
            if word >= 0:
                value = values[word]
                low, high, found = min(low, value), max(high, value), found + value
        least[m], most[m], total[m] = low, high, found
