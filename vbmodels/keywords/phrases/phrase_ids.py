"""Names of phrases as 64-bit numbers: equal for equal stems, whatever the partition.

A stem's number is a hash of its letters, a phrase's a mix of those of its stems in order (the
finaliser of SplitMix64, Steele, Lea and Flood 2014). Among 10^7 phrases two share a number with
probability 3e-6.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.sampling import FIRST, GOLDEN, SECOND, text_key

KeyArray = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN, _FIRST, _SECOND = int(GOLDEN), int(FIRST), int(SECOND)


def stem_keys(stems: Iterable[str]) -> KeyArray:
    """Return the number of every stem."""
    return np.fromiter(map(stem_key, stems), np.uint64)


@lru_cache(maxsize=1 << 16)
def stem_key(stem: str) -> int:
    """Return the number of a stem."""
    return text_key(stem)


def key_of(stems: Iterable[str]) -> int:
    """Return the number of one phrase; `span_kernels.mixed` makes the same of numbers.

    >>> key_of(["neural", "network"]) == key_of(["network", "neural"])
    False
    """
    words = list(stems)
    key = len(words)
    for word in words:
        key = (key * _GOLDEN & _MASK) ^ stem_key(word)
        key = ((key ^ (key >> 30)) * _FIRST) & _MASK
        key = ((key ^ (key >> 27)) * _SECOND) & _MASK
        key ^= key >> 31
    return key
