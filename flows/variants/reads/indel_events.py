"""Insertions and deletions of one file's reads, each allele once with its reads by strand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flows.variants.reads import indel_kernels as kernels
from vbmodels.variants.counts import BASES

ALLELE = 4  # columns that name an allele: anchor, length, two words of inserted bases
FORWARD, REVERSE, TO_END, TO_END2, MAP_Q, MAP_Q2 = range(4, 10)  # sums over its reads
FIELDS = 10
_ROOM = 256  # events for which there is room at once


def of_reads(
    data: NDArray[np.uint8], reads: NDArray[np.int64], low: int, high: int, least: int,
    code: NDArray[np.int8], reference: NDArray[np.uint8], origin: int,
) -> NDArray[np.int64]:  # fmt: skip
    """Return the alleles of reads, [E, 10]: anchor, length, two words, and sums over their reads.

    Parameters
    ----------
    data, reads, low, high, least, code, reference, origin
        See `indel_kernels.find_events`.
    """
    rows = np.empty((_ROOM, kernels.FIELDS), np.int64)
    while True:
        n = kernels.find_events(data, reads, low, high, least, code, reference, origin, rows)
        if n <= len(rows):
            break
        rows = np.empty((n, kernels.FIELDS), np.int64)
    found = np.zeros((n, FIELDS), np.int64)
    found[:, :ALLELE] = rows[:n, :ALLELE]
    found[np.arange(n), FORWARD + rows[:n, kernels.STRAND]] = 1
    for name, place in ((kernels.TO_END, TO_END), (kernels.MAP_Q, MAP_Q)):
        found[:, place], found[:, place + 1] = rows[:n, name], rows[:n, name] ** 2
    return merged([found])


def merged(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add the sums of equal alleles; alleles are sorted by anchor and length.

    >>> one = np.array([[7, -1, 0, 0, 1, 0, 9, 81, 60, 3600]])
    >>> merged([one, one]).tolist()
    [[7, -1, 0, 0, 2, 0, 18, 162, 120, 7200]]
    """
    rows = np.concatenate([np.zeros((0, FIELDS), np.int64), *parts])
    if not len(rows):
        return rows
    rows = rows[np.lexsort(rows[:, ALLELE - 1 :: -1].T)]
    first = np.append(True, (np.diff(rows[:, :ALLELE], axis=0) != 0).any(axis=1))
    alleles = rows[first]
    alleles[:, ALLELE:] = np.add.reduceat(rows[:, ALLELE:], np.flatnonzero(first), axis=0)
    return np.asarray(alleles)


def inserted(length: int, first: int, second: int) -> str:
    """Return the bases of an insertion from its words.

    >>> inserted(3, 0b11_01_00, 0)
    'ACT'
    """
    words = (first, second)
    return "".join(
        BASES[words[i // kernels.PER_WORD] >> 2 * (i % kernels.PER_WORD) & 3] for i in range(length)
    )
