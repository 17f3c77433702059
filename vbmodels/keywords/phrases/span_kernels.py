# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Candidate phrases, document by document: where they stand, and how they stand to known ones."""

from __future__ import annotations

import numpy as np
from numba import njit

from vbmodels.core.sampling import FIRST, GOLDEN, SECOND

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
    """Return the number of the phrase of these words; `phrase_ids.key_of`."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def scores(member, beyond, offsets, first, values, out):
    """Fill `batch.scored`, but for ranks: of each document's phrases, by the values [W] of words.

    ``first`` [D'] is to be added to the numbers in ``member``, which ends at ``beyond``. No branch
    depends on the number of words: a processor could not foresee it.
    """
    for d in range(len(first)):
        for m in range(offsets[d], offsets[d + 1]):
            last = values[first[d] + member[m, 0]]
            low, high, total, size = last, last, last, 1
            for n in range(1, MOST_WORDS):
                there = member[m, n] != beyond
                value = values[first[d] + (member[m, n] if there else 0)]
                last = value if there else last
                low, high = min(low, last), max(high, last)
                total += value if there else 0.0
                size += there
            out[m, 0], out[m, 1], out[m, 2], out[m, 3] = total / size, low, high, last
            out[m, 5] = last if size == 1 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def pmi(member, beyond, offsets, first, alone, level, log_documents, out):
    """Fill the columns `batch.PMI` [2, M]; ``member`` to ``first`` as in `scores`.

    ``alone`` [W] and ``level`` [M] are logarithms of the documents that have a word, and a phrase.
    """
    for d in range(len(first)):
        for m in range(offsets[d], offsets[d + 1]):
            total, more = alone[first[d] + member[m, 0]], 0
            for n in range(1, MOST_WORDS):
                there = member[m, n] != beyond
                total += alone[first[d] + (member[m, n] if there else 0)] if there else 0.0
                more += there
            value = level[m] + more * log_documents - total if more else 0.0
            out[0, m], out[1, m] = value, value * level[m]
