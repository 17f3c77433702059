"""Insertions and deletions of a partition's locations, over its replicates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flows import storage
from flows.records.states import read_state
from flows.variants.input.counts import Loci
from flows.variants.reads import indel_events
from flows.variants.reads.indel_kernels import ANCHOR, LENGTH, MOST_LENGTH
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.variants.counts import BASES
from vbmodels.variants.indels import LONGEST_RUN, Indels, runs_behind
from vbmodels.variants.read_filters import LEAST_READS

AHEAD = MOST_LENGTH + LONGEST_RUN + 1  # bases behind the last position that are looked at


def of_positions(
    start: int, tallies: Sequence[NDArray[np.int64]], reference: NDArray[np.int8], size: int
) -> Indels:
    """Put the alleles of several replicates at consecutive positions together.

    Parameters
    ----------
    start
        The first position, from 0.
    tallies
        Each replicate's alleles, [E, 10]; see `indel_events`.
    reference
        Bases from ``start`` on as indices in ACGT or -1: of the positions and `AHEAD` more, as
        far as the contig goes.
    size
        Number of positions.
    """
    named = indel_events.ALLELE
    alleles = indel_events.merged(tallies)[:, :named]
    numbers = np.zeros((indel_events.FIELDS - named, len(alleles), len(tallies)), np.int64)
    place = {tuple(row): i for i, row in enumerate(alleles.tolist())}
    for r, rows in enumerate(tallies):
        at = [place[tuple(row)] for row in rows[:, :named].tolist()]
        numbers[:, at, r] = rows[:, named:].T
    anchor = alleles[:, 0] - start
    run = runs_behind(reference.astype(np.int64), size)
    behind = np.append(reference[1 : size + 1], np.full(size, -1))[:size]
    letters = "".join((*BASES, "N")[b] for b in reference)
    texts = [
        indel_events.inserted(n, first, second) if n > 0 else letters[a + 1 : a + 1 - n]
        for a, (_, n, first, second) in zip(anchor.tolist(), alleles.tolist(), strict=True)
    ]
    return Indels(
        anchor, alleles[:, LENGTH], np.array(texts, np.str_), numbers[0] + numbers[1], numbers[0],
        run, np.where(run > 0, behind, -1).astype(np.int64), np.moveaxis(numbers[2:], 0, 2),
    )  # fmt: skip


def anchors_with_enough_reads(tallies: Sequence[NDArray[np.int64]], start: int) -> IntArray:
    """Return the positions, from ``start``, before an allele with enough reads."""
    every = indel_events.merged(tallies)
    reads = every[:, [indel_events.FORWARD, indel_events.REVERSE]].sum(axis=1)
    return np.unique(every[reads >= LEAST_READS, ANCHOR]) - start


def at_locations(found: Indels, start: int, loci: Loci) -> Indels:
    """Keep what stands at the locations of one stretch of positions, from ``start`` on."""
    return _kept(found, loci.pos - 1 - start)


def of_case(found: Indels, case: BoolArray) -> IntArray:
    """Return the locations of alleles of which the case has enough reads for the filters."""
    return np.unique(found.location[found.reads[:, case].sum(axis=1) >= LEAST_READS])


def _kept(found: Indels, offset: IntArray) -> Indels:
    place = np.full(len(found.run), -1)
    place[offset] = np.arange(len(offset))
    known = place[found.location] >= 0
    return Indels(
        place[found.location][known], found.length[known], found.bases[known], found.reads[known],
        found.forward[known], found.run[offset], found.run_base[offset],
        None if found.sums is None else found.sums[known],
    )  # fmt: skip


def merge(parts: Sequence[Indels]) -> Indels:
    """Put the locations of several pieces into one."""
    before = np.cumsum([0, *(len(part.run) for part in parts)])
    together = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("length", "bases", "reads", "forward", "run", "run_base", "sums")
    }
    location = [part.location + start for part, start in zip(parts, before, strict=False)]
    return Indels(np.concatenate(location).astype(np.int64), **together)


def read_indels(url: str) -> Indels | None:
    """Read a partition's alleles; None where they were not looked for."""
    return read_state(url, Indels) if storage.exists(url) else None
