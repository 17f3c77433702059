# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""How phrases stand to known ones and to their words, phrase by phrase."""

from __future__ import annotations

import numpy as np
from numba import njit

from vbmodels.text.candidates import MOST_WORDS


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
def following(member, beyond, offsets, first, alone, common, level, log_documents, out):
    """Fill the columns `batch.FOLLOWING` [4, M]; ``member`` to ``first`` as in `scores`.

    ``alone`` [W] and ``level`` [M] are logarithms of the documents that have a word, and a phrase;
    ``common`` [W] is the words' keyphraseness.
    """
    for d in range(len(first)):
        for m in range(offsets[d], offsets[d + 1]):
            word = first[d] + member[m, 0]
            total, more, low, high = alone[word], 0, common[word], common[word]
            for n in range(1, MOST_WORDS):
                there = member[m, n] != beyond
                word = first[d] + (member[m, n] if there else member[m, 0])
                total += alone[word] if there else 0.0
                low, high = min(low, common[word]), max(high, common[word])
                more += there
            value = level[m] + more * log_documents - total if more else 0.0
            out[0, m], out[1, m], out[2, m], out[3, m] = value, value * level[m], low, high
