# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Candidate phrases, document by document: where they stand."""

from __future__ import annotations

import numpy as np
from numba import njit

from vbmodels.core.draws import FIRST, GOLDEN, SECOND

MOST_WORDS = 4
MOST_LINKS = 1
"""Places of a phrase where stop words may be inside, where nobody names it."""


@njit(cache=True, nogil=True)
def occurrences(word, inside, joined, last, keys, link, link_keys):
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
    link, link_keys
        [T] number of what is between the word and the next one, -1 where nothing is; [V] its
        number in a phrase's.
    """
    most = MOST_WORDS * len(word)
    start, size = np.empty(most, np.int64), np.empty(most, np.int64)
    key = np.empty(most, np.uint64)
    found = 0
    for i in range(len(word)):
        if not inside[i]:
            continue
        between = 0
        for n in range(1, MOST_WORDS + 1):
            end = i + n - 1
            if n > 1:
                if end >= len(word) or not joined[end - 1]:
                    break
                between += link[end - 1] >= 0
                if between > MOST_LINKS:
                    break
            twice = False
            for j in range(i, end):
                twice |= word[j] == word[end]
            if twice:
                break
            if last[end]:
                start[found], size[found] = i, n
                key[found] = mixed(keys, word, link, link_keys, i, n)
                found += 1
    return start[:found].copy(), size[:found].copy(), key[:found].copy()


@njit(cache=True, nogil=True)
def mixed(keys, word, link, link_keys, start, size):
    """Return the number of the phrase of these words; `candidates.key_of`."""
    parts = size
    for i in range(start, start + size - 1):
        parts += link[i] >= 0
    key = np.uint64(parts)
    for i in range(start, start + size):
        key = _mix(key, keys[word[i]])
        if i < start + size - 1 and link[i] >= 0:
            key = _mix(key, link_keys[link[i]])
    return key


@njit(cache=True, nogil=True)
def _mix(key, part):
    key = (key * GOLDEN) ^ part
    key = (key ^ (key >> np.uint64(30))) * FIRST
    key = (key ^ (key >> np.uint64(27))) * SECOND
    return key ^ (key >> np.uint64(31))


@njit(cache=True, nogil=True)
def keys_of(keys, word, link, link_keys, start, size):
    """Return the numbers [G] of phrases that begin at ``start`` and have ``size`` words."""
    found = np.empty(len(start), np.uint64)
    for g in range(len(start)):
        found[g] = mixed(keys, word, link, link_keys, start[g], size[g])
    return found


@njit(cache=True, nogil=True)
def grouped(document, key, alone, documents):
    """Gather the occurrences of each phrase of a document, in the order of the first ones.

    Parameters
    ----------
    document, key
        [O] of every occurrence, by document, then place, then number of words.
    alone
        [O] whether the occurrence makes a phrase of it that is found nowhere else.
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
    phrase, first = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
    times, enough = np.zeros(len(key), np.int64), np.zeros(len(key), np.bool_)
    offsets = np.zeros(documents + 1, np.int64)
    room = 64
    held, stamp = np.empty(room, np.int64), np.full(room, -1)
    low = found = 0
    for d in range(documents):
        high = low
        while high < len(key) and document[high] == d:
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
                times[found], enough[found] = 0, False
                found += 1
            m = held[at]
            phrase[o] = m
            times[m] += 1
            enough[m] |= alone[o]
        kept = begin
        for m in range(begin, found):
            stays = times[m] > 1 or enough[m]
            times[m] = kept if stays else -1
            first[kept] = first[m]
            kept += stays
        for o in range(low, high):
            phrase[o] = times[phrase[o]]
        found = kept
        offsets[d + 1] = found
        low = high
    return phrase, first[:found].copy(), offsets
