"""Reads with insertions and deletions: true ones, and those of a polymerase that slips.

A polymerase loses or adds a base in a run of one base, the more often the longer the run. Of
a run of L bases the share of molecules that lost one is

    2e-5 exp(.75 (L - 1)) x site x replicate,   log site ~ N(0, .5^2), log replicate ~ N(0, .3^2)

(1.7 % at L = 10), a third of it gained one; a site's factor is that of both samples, a
replicate's is its own at every site. An aligner puts a lost base anywhere in its run, and sees
nothing of an indel within five bases of a read's end: such bases are aligned as they come.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import BASES

READ = 120
TO_END = 5  # bases of a read behind an indel without which no aligner shows it
_BASE_RATE, _BY_LENGTH, _GAINED = 2e-5, 0.75, 1.0 / 3.0
_SITE_SD, _REPLICATE_SD = 0.5, 0.3
_LONGEST = 12
_MATCH, _INSERTION, _DELETION = 0, 1, 2


class Run(NamedTuple):
    """A run of one base: its first position, and its length."""

    start: int
    length: int


@dataclass(frozen=True)
class Indel:
    """An allele that molecules of the case carry.

    Attributes
    ----------
    anchor
        The base before it, from 0.
    lost
        Number of bases that it lacks.
    gained
        Bases that it has more, as indices in ACGT.
    share
        Of the molecules.
    """

    anchor: int
    lost: int
    gained: tuple[int, ...]
    share: float

    def alleles(self, reference: IntArray) -> tuple[str, str]:
        """Return REF and ALT with the base before."""
        kept = BASES[reference[self.anchor]]
        lost = "".join(BASES[b] for b in reference[self.anchor + 1 : self.anchor + 1 + self.lost])
        return kept + lost, kept + "".join(BASES[b] for b in self.gained)


class Read(NamedTuple):
    """An aligned read: where it starts, its operations (kind, length), bases, strand."""

    start: int
    cigar: list[tuple[int, int]]
    bases: IntArray
    reverse: bool


def draw_reference(rng: np.random.Generator, length: int) -> IntArray:
    """Return bases whose runs are geometric in length, with more long ones than by chance."""
    found: list[int] = []
    while len(found) < length:
        base = int(rng.choice([b for b in range(4) if not found or b != found[-1]]))
        long = rng.random() < 0.06
        run = int(rng.integers(4, _LONGEST)) if long else int(rng.geometric(0.72))
        found += [base] * min(run, _LONGEST)
    return np.array(found[:length])


def runs_of(reference: IntArray) -> list[Run]:
    """Return the runs of a reference, those of one base among them.

    >>> runs_of(np.array([0, 0, 2]))
    [Run(start=0, length=2), Run(start=2, length=1)]
    """
    edges = [0, *(np.flatnonzero(np.diff(reference)) + 1).tolist(), len(reference)]
    return [Run(a, b - a) for a, b in itertools.pairwise(edges)]


def slip_rates(rng: np.random.Generator, runs: Sequence[Run]) -> FloatArray:
    """Return the share of molecules that lost a base of each run, [runs]."""
    length = np.array([run.length for run in runs])
    site = np.exp(_SITE_SD * rng.standard_normal(len(runs)))
    return np.asarray(np.minimum(_BASE_RATE * np.exp(_BY_LENGTH * (length - 1)) * site, 0.2))


def draw_indels(
    rng: np.random.Generator, reference: IntArray, n: int, share: float, gap: int = 30
) -> list[Indel]:
    """Return alleles apart from each other: in runs, next to runs and elsewhere, in turn.

    Parameters
    ----------
    rng
        Source of randomness.
    reference
        Bases.
    n
        How many at most; fewer where there is no place.
    share
        Of the case's molecules.
    gap
        Least distance between two of them, and to the ends.
    """
    runs = [r for r in runs_of(reference) if gap < r.start < len(reference) - gap - r.length]
    kinds: list[list[Run]] = [
        [r for r in runs if r.length >= 4],
        [r for r in runs if r.length >= 4],
        [r for r in runs if r.length == 1],
    ]
    taken: list[int] = []
    found: list[Indel] = []
    for i in range(n):
        of = [r for r in kinds[i % 3] if all(abs(r.start - t) >= gap for t in taken)]
        if not of:
            continue
        run = of[int(rng.integers(len(of)))]
        taken.append(run.start)
        base = int(reference[run.start])
        if i % 3 == 0:  # of the run itself
            lost, gained = (1, ()) if rng.random() < 0.5 else (0, (base,))
        elif rng.random() < 0.5:
            lost, gained = int(rng.integers(2, 8)), ()
        else:
            before = int(reference[run.start - 1])
            others = [b for b in range(4) if b != before]
            lost, gained = 0, tuple(rng.choice(others, int(rng.integers(2, 6))).tolist())
        found.append(_to_the_left(Indel(run.start - 1, lost, gained, share), reference))
    return found


def _to_the_left(indel: Indel, reference: IntArray) -> Indel:
    anchor, gained = indel.anchor, list(indel.gained)
    if gained:
        while anchor > 0 and reference[anchor] == gained[-1]:
            gained = [gained[-1], *gained[:-1]]
            anchor -= 1
    else:
        while anchor > 0 and reference[anchor] == reference[anchor + indel.lost]:
            anchor -= 1
    return Indel(anchor, indel.lost, tuple(gained), indel.share)


def draw_reads(
    rng: np.random.Generator, reference: IntArray, slips: FloatArray, indels: Sequence[Indel],
    depth: int, *, factor: float = 1.0, error_rate: float = 1e-3,
) -> Iterator[Read]:  # fmt: skip
    """Draw one replicate's reads, by their starts.

    Parameters
    ----------
    rng
        Source of randomness.
    reference
        Bases.
    slips
        Of `slip_rates`.
    indels
        Alleles that molecules carry; none in a control.
    depth
        Mean reads at a position far from the ends.
    factor
        By how much the sample's polymerase slips more than another's.
    error_rate
        Of substitutions, a base.
    """
    runs = runs_of(reference)
    n = max(1, round(depth * (len(reference) - READ) / READ))
    starts = np.sort(rng.integers(0, len(reference) - READ + 1, n))
    lost = slips * factor * np.exp(_REPLICATE_SD * rng.standard_normal(len(slips)))
    for start in starts.tolist():
        events = [
            (i.anchor, i.lost, i.gained) for i in indels
            if start <= i.anchor < start + READ and rng.random() < i.share
        ]  # fmt: skip
        draw = rng.random(len(runs))
        for k in np.flatnonzero(draw < lost * (1.0 + _GAINED)):
            run = runs[k]
            inside = start < run.start and run.start + run.length < start + READ
            near = any(abs(a - run.start) <= 12 + d for a, d, _ in events)
            if inside and not near:
                one = (1, ()) if draw[k] < lost[k] else (0, (int(reference[run.start]),))
                put = int(rng.integers(run.length))
                events.append((run.start - 1 + put, *one))
        read = _with_events(reference, start, sorted(events))
        wrong = rng.random(len(read.bases)) < error_rate
        bases = np.where(wrong, (read.bases + rng.integers(1, 4, len(wrong))) % 4, read.bases)
        yield Read(read.start, read.cigar, bases, bool(rng.random() < 0.5))


def _with_events(
    reference: IntArray, start: int, events: Sequence[tuple[int, int, tuple[int, ...]]]
) -> Read:
    """Return the read of a molecule with these events, aligned as an aligner would.

    An event near the read's start is not one of its molecule.
    """
    cigar: list[tuple[int, int]] = []
    bases: list[int] = []
    at = start
    for anchor, lost, gained in events:
        matched = anchor + 1 - at
        left = READ - len(bases) - matched - len(gained)
        if matched < TO_END or anchor + 1 + lost + TO_END > len(reference):
            continue
        behind = reference[anchor + 1 + lost :].tolist()
        whole = [*reference[at : anchor + 1].tolist(), *gained, *behind]
        if left < TO_END:  # no gap is worth it: aligned as they come
            tail = whole[: min(READ - len(bases), len(reference) - at)]
            return Read(start, [*cigar, (_MATCH, len(tail))], np.array(bases + tail), False)
        bases += whole[: matched + len(gained)]
        cigar += [(_MATCH, matched), (_INSERTION if gained else _DELETION, len(gained) or lost)]
        at = anchor + 1 + lost
    rest = min(READ - len(bases), len(reference) - at)
    bases += reference[at : at + rest].tolist()
    return Read(start, [*cigar, (_MATCH, rest)], np.array(bases), False)
