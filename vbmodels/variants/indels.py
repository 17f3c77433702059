"""Units of insertions and deletions, for the same two-groups test that substitutions take.

A unit is an anchor (the base before, where VCF puts the allele) and a left-normalised allele;
r its reads, n the depth at the anchor. Polymerases slip in runs of one base, the more so the
longer the run, so the twelve types of the error rates are

    {deletion, insertion} x length of the run that the allele lengthens or shortens: 1 to 5, 6 up

An allele that is not made of the run's base alone, or of more than two of it, is no slip, and
counts as in a run of 1.

Every anchor outside of a run gives two units whether or not a read shows them: one base of the
run behind it less, and one more. Without them the error rates would be those of the alleles
that were seen, which are the larger the fewer there are. Of a run of one base, any other
insertion too is an error of its kind, but only the one is a unit where none was seen: rates of
class 1 are by so much too large, and its calls too few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.variants.counts import Units

LONGEST_RUN = 6
UNSEEN = -1  # the allele of a unit that no read shows


def names_of_kinds() -> list[str]:
    """Return the twelve kinds in their order.

    >>> names_of_kinds()[0], names_of_kinds()[5], names_of_kinds()[6]
    ('deletion, run of 1', 'deletion, run of 6 and more', 'insertion, run of 1')
    """
    return [
        f"{what}, run of {run}{' and more' if run == LONGEST_RUN else ''}"
        for what in ("deletion", "insertion")
        for run in range(1, LONGEST_RUN + 1)
    ]


def runs_behind(codes: IntArray, size: int) -> IntArray:
    """Return the length of the run behind each of the first positions, [size], at most 6.

    0 where none begins there: the base behind is not known, or the same as the position's own.

    Parameters
    ----------
    codes
        Reference bases as indices in ACGT, -1 for what is none; seven beyond ``size``, as far as
        the contig goes.
    size
        Number of positions.

    >>> runs_behind(np.array([0, 1, 1, 1, 2, 3]), 5).tolist()
    [3, 0, 0, 1, 1]
    """
    padded = np.concatenate([codes, np.full(LONGEST_RUN + 1, -1)]).astype(np.int64)
    base = padded[1 : size + 1]
    begins = (base >= 0) & (base != padded[:size])
    length = np.zeros(size, np.int64)
    same = begins.copy()
    for step in range(1, LONGEST_RUN + 1):
        same &= padded[step : size + step] == base
        length += same
    return length


@dataclass(frozen=True)
class Indels(State, kind="variants.Indels"):
    """Alleles at the anchors of J locations, in R replicates.

    Attributes
    ----------
    location
        [E] index of the anchor's location, rising.
    length
        [E] bases of the allele, below 0 of a deletion.
    bases
        [E] which they are, fixed-width text.
    reads, forward
        [E, R] reads that show the allele, and those of them on the forward strand.
    run
        [J] length of the run that begins behind each location, at most 6; 0 where none does.
    run_base
        [J] the base of that run, as an index in ACGT; -1 for none.
    sums
        [E, R, 4] over the reads of the allele: distance of the anchor's base to the nearest
        unclipped end of the read, its square, mapping quality, its square.
    """

    location: IntArray
    length: IntArray
    bases: np.ndarray
    reads: IntArray
    forward: IntArray
    run: IntArray
    run_base: IntArray
    sums: IntArray | None = None

    def __len__(self) -> int:
        return len(self.location)

    @property
    def slips(self) -> BoolArray:
        """Whether an allele lengthens or shortens the run behind its anchor a little, [E]."""
        letters = np.array(["", *"ACGT"])[self.run_base[self.location] + 1]
        return np.array(
            [
                run > "" and bases in (run, 2 * run)
                for bases, run in zip(self.bases, letters, strict=True)
            ],
            bool,
        )

    @property
    def kind(self) -> IntArray:
        """The type of each allele, [E], as `names_of_kinds` has them."""
        run = np.where(self.slips, np.maximum(self.run[self.location], 1), 1)
        return np.asarray(LONGEST_RUN * (self.length > 0) + run - 1)


def indel_units(
    indels: Indels, depth: IntArray, case: BoolArray, member: IntArray | None = None
) -> Units:
    """Return the units of anchors, sorted by location; ``alt`` is the allele, -1 where unseen.

    Parameters
    ----------
    indels
        The alleles.
    depth
        [J, R] reads at every location.
    case, member
        [R] as `Counts` has them.
    """
    kind, slips = indels.kind, indels.slips
    single = slips & (np.abs(indels.length) == 1)
    begins = np.flatnonzero(indels.run > 0)
    unseen = np.ones((2, len(indels.run)), bool)
    unseen[(indels.length[single] > 0).astype(int), indels.location[single]] = False
    places = [begins[unseen[gained, begins]] for gained in (0, 1)]
    location = np.concatenate([indels.location, *places])
    kinds = [LONGEST_RUN * gained + indels.run[starts] - 1 for gained, starts in enumerate(places)]
    none = np.zeros((len(location) - len(indels), len(case)), np.int64)
    reads = np.concatenate([indels.reads, none])
    units = Units(
        alt_reads=reads,
        depth=np.maximum(depth[location], reads),
        kind=np.concatenate([kind, *kinds]),
        location=location,
        alt=np.concatenate([np.arange(len(indels)), np.full(len(none), UNSEEN)]),
        case=case,
        member=member,
    )
    return units.take(np.argsort(location, kind="stable"))
