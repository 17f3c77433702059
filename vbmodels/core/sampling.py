"""Random numbers that belong to a row: hashes of what it holds, however the data are cut."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray

UnsignedArray = NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The step of splitmix64's state: 2^64 divided by the golden ratio, made odd."""
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The factors of splitmix64's finaliser."""


def text_key(text: str) -> int:
    """Return a whole number below 2^64 made from a text.

    >>> text_key("car") == text_key("car"), text_key("car") == text_key("bus")
    (True, False)
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(z: UnsignedArray) -> UnsignedArray:
    """Return the finaliser of splitmix64 (Steele, Lea and Flood 2014) of every number."""
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


def hashed(keys: IntArray, stream: int, count: int) -> FloatArray:
    """Return ``count`` numbers in (0, 1) from each key, [count, N].

    The splitmix64 hash of key, stream and index.
    """
    with np.errstate(over="ignore"):
        key = mix(keys.astype(np.uint64) + np.uint64(stream) * GOLDEN)
        steps = (np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)[:, None]
        bits = mix(key + steps)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
