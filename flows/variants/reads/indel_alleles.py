"""Insertions and deletions that reads show, each allele once, and over a partition's replicates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flows.variants.reads import indel_kernels as kernels
from flows.variants.reads.indel_kernels import ANCHOR, LENGTH, MOST_LENGTH
from vbmodels.core.state import IntArray
from vbmodels.variants.counts import BASES
from vbmodels.variants.indels import LONGEST_RUN, Indels, runs_behind
from vbmodels.variants.read_filters import LEAST_READS

ALLELE = 4  # columns that name an allele: anchor, length, two words of inserted bases
FORWARD, REVERSE, TO_END, TO_END2, MAP_Q, MAP_Q2 = range(4, 10)  # sums over its reads
FIELDS = 10
AHEAD = MOST_LENGTH + LONGEST_RUN + 1  # bases behind the last position that are looked at
_ROOM = 256  # events for which there is room at once


def of_reads(
    data: NDArray[np.uint8],
    reads: NDArray[np.int64],
    low: int,
    high: int,
    least: int,
    code: NDArray[np.int8],
    reference: NDArray[np.uint8],
    origin: int,
) -> NDArray[np.int64]:
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
    alleles = np.zeros((n, FIELDS), np.int64)
    alleles[:, :ALLELE] = rows[:n, :ALLELE]
    alleles[np.arange(n), FORWARD + rows[:n, kernels.STRAND]] = 1
    for name, column in ((kernels.TO_END, TO_END), (kernels.MAP_Q, MAP_Q)):
        alleles[:, column], alleles[:, column + 1] = rows[:n, name], rows[:n, name] ** 2
    return merged([alleles])


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


def of_positions(
    start: int, tallies: Sequence[NDArray[np.int64]], reference: NDArray[np.int8], size: int
) -> Indels:
    """Put the alleles of several replicates at consecutive positions together.

    Parameters
    ----------
    start
        The first position, from 0.
    tallies
        Each replicate's alleles, [E, 10]; see `of_reads`.
    reference
        Bases from ``start`` on as indices in ACGT or -1: of the positions and `AHEAD` more, as
        far as the contig goes.
    size
        Number of positions.
    """
    alleles = merged(tallies)[:, :ALLELE]
    numbers = np.zeros((FIELDS - ALLELE, len(alleles), len(tallies)), np.int64)
    row_of = {tuple(row): i for i, row in enumerate(alleles.tolist())}
    for r, rows in enumerate(tallies):
        indices = [row_of[tuple(row)] for row in rows[:, :ALLELE].tolist()]
        numbers[:, indices, r] = rows[:, ALLELE:].T
    anchor = alleles[:, 0] - start
    run = runs_behind(reference.astype(np.int64), size)
    behind = np.append(reference[1 : size + 1], np.full(size, -1))[:size]
    letters = "".join((*BASES, "N")[b] for b in reference)
    texts = [
        inserted(n, first, second) if n > 0 else letters[a + 1 : a + 1 - n]
        for a, (_, n, first, second) in zip(anchor.tolist(), alleles.tolist(), strict=True)
    ]
    return Indels(
        anchor,
        alleles[:, LENGTH],
        np.array(texts, np.str_),
        numbers[0] + numbers[1],
        numbers[0],
        run,
        np.where(run > 0, behind, -1).astype(np.int64),
        np.moveaxis(numbers[2:], 0, 2),
    )


def anchors_with_enough_reads(tallies: Sequence[NDArray[np.int64]], start: int) -> IntArray:
    """Return the positions, from ``start``, before an allele with enough reads."""
    every = merged(tallies)
    reads = every[:, [FORWARD, REVERSE]].sum(axis=1)
    return np.unique(every[reads >= LEAST_READS, ANCHOR]) - start


def at_locations(indels: Indels, offset: IntArray) -> Indels:
    """Keep what stands at some of consecutive positions, given by their places among these."""
    new_location = np.full(len(indels.run), -1)
    new_location[offset] = np.arange(len(offset))
    known = new_location[indels.location] >= 0
    return Indels(
        new_location[indels.location][known],
        indels.length[known],
        indels.bases[known],
        indels.reads[known],
        indels.forward[known],
        indels.run[offset],
        indels.run_base[offset],
        None if indels.sums is None else indels.sums[known],
    )


def merge(parts: Sequence[Indels]) -> Indels:
    """Put the locations of several pieces into one."""
    before = np.cumsum([0, *(len(part.run) for part in parts)])
    together = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("length", "bases", "reads", "forward", "run", "run_base", "sums")
    }
    location = [part.location + start for part, start in zip(parts, before, strict=False)]
    return Indels(np.concatenate(location).astype(np.int64), **together)
