"""Whose replicates are whose, their reads, and samples whose replicates differ like people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.variants.counts import Counts


@dataclass(frozen=True)
class Reads:
    """Reads with an allele, and all reads."""

    allele: int
    every: int

    @property
    def share(self) -> float:
        """The share of the reads that show the allele."""
        return self.allele / max(self.every, 1)

    @classmethod
    def sum(cls, reads: Iterable[Reads]) -> Reads:
        """Return the reads of several samples or replicates."""
        pairs = [(r.allele, r.every) for r in reads]
        return cls(sum(allele for allele, _ in pairs), sum(every for _, every in pairs))


@dataclass(frozen=True)
class Range:
    """The smallest and the largest of something; None where there is none."""

    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Return the ends of some values; none of no value.

        >>> Range.of([2, 1, 5])
        Range(low=1, high=5)
        """
        known = list(values)
        return cls(min(known, default=None), max(known, default=None))

    def joined(self, other: Range) -> Range:
        """Return the range of both; without a largest one where one has none.

        >>> Range(0.2, 0.3).joined(Range(0.1, None))
        Range(low=0.1, high=None)
        """
        low = [r.low for r in (self, other) if r.low is not None]
        high = [r.high for r in (self, other) if r.high is not None]
        return Range(min(low, default=None), max(high) if len(high) == 2 else None)


LEAST_DEPTH = 20  # of a replicate that says what its sample carries
CARRIED, ABSENT = 0.3, 0.02  # shares of an allele that one person's replicates do not both have
LEAST_MIXED = 3  # locations from which on replicates are of different people


class Role(NamedTuple):
    """The replicates of one sample of a comparison.

    Attributes
    ----------
    name
        ``case``, ``control``, or ``panel`` with a number from 1.
    sample
        The sample's name.
    own
        [R] its replicates.
    """

    name: str
    sample: str
    own: BoolArray

    @property
    def of_panel(self) -> bool:
        """Whether it is of the panel."""
        return self.name.startswith("panel")


def roles_of(case: BoolArray, member: IntArray | None, settings: VariantSettings) -> list[Role]:
    """Return the samples of a comparison: the case, its control, the panel.

    ``case`` and ``member`` are [R], as `Counts` has them.
    """
    roles = [Role("case", settings.case, case)]
    if settings.control:
        roles.append(Role("control", settings.control, ~case if member is None else member == 0))
    first = len(roles) - 1
    for i, sample in enumerate(settings.members):
        members = np.zeros(len(case), bool) if member is None else member == first + i
        roles.append(Role(f"panel{i + 1}", sample, members))
    return roles


@dataclass(frozen=True)
class Mixed:
    """A sample, and at how many locations its replicates carry different alleles."""

    sample: str
    locations: int


def mixed(batch: Counts, settings: VariantSettings) -> tuple[Mixed, ...]:
    """Count locations at which replicates of a sample carry different alleles, by sample.

    An allele has a share above .3 in one of them and below .02 in another, of 20 reads and more.
    """
    counted = []
    for role in roles_of(batch.case, batch.member, settings):
        if role.own.sum() < 2 or not len(batch):
            continue
        reads = batch.counts[:, role.own].astype(float)
        depth = reads.sum(axis=2, keepdims=True)
        share = np.where(depth >= LEAST_DEPTH, reads / np.maximum(depth, 1.0), np.nan)
        known = ~np.isnan(share).any(axis=(1, 2))
        if not known.any():
            continue
        share = share[known]
        rows = np.arange(len(share))
        share[rows, :, np.maximum(batch.ref[known], 0)] = np.nan
        most, least = _ends(share)
        apart = ((most >= CARRIED) & (least <= ABSENT)).any(axis=1)
        counted.append(Mixed(role.sample, int(apart.sum())))
    return tuple(m for m in counted if m.locations)


def _ends(share: Any) -> tuple[Any, Any]:
    """Return the largest and the smallest share of every allele over replicates, [J, 4]."""
    return (
        np.where(np.isnan(share), -1.0, share).max(axis=1),
        np.where(np.isnan(share), 2.0, share).min(axis=1),
    )


def mixed_in(parts: Sequence[Sequence[Mixed]]) -> tuple[Mixed, ...]:
    """Return the samples whose replicates look like different people's in all parts together."""
    total: Counter[str] = Counter()
    for m in (m for part in parts for m in part):
        total[m.sample] += m.locations
    return tuple(Mixed(sample, n) for sample, n in total.items() if n >= LEAST_MIXED)
