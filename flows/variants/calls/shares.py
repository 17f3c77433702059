"""Reads of an allele among all, and the ends of a range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


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
        pairs = [(one.allele, one.every) for one in reads]
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
        low = [one.low for one in (self, other) if one.low is not None]
        high = [one.high for one in (self, other) if one.high is not None]
        return Range(min(low, default=None), max(high) if len(high) == 2 else None)
