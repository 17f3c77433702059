"""What each filter of reads compared at a call, and whether it could have removed the call."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from flows.variants.settings import READ_FILTERS, VariantSettings
from vbmodels.variants.read_filters import LEAST_READS

SHARES = ("strand_bias", "near_indel", "many_mismatches")
"""Filters that compare shares of the reads; the others compare means."""


@dataclass(frozen=True)
class Compared:
    """What a filter compared: a mean or a share of the reads.

    Attributes
    ----------
    filter
        Its name.
    allele, reference
        Of the reads with the allele, and with the reference base; None of too few.
    """

    filter: str
    allele: float | None
    reference: float | None

    @property
    def is_alike(self) -> bool:
        """Whether reads are the same on both sides, so that they say nothing.

        That none is near an indel or mismatches does say something.
        """
        if self.allele is None or self.allele != self.reference:
            return False
        if self.filter not in SHARES:
            return True
        return self.allele == 1.0 or (self.allele == 0.0 and self.filter == "strand_bias")

    @property
    def is_testable(self) -> bool:
        """Whether the filter could have removed the call."""
        return None not in (self.allele, self.reference) and not self.is_alike


def is_mnv(call: dict[str, Any]) -> bool:
    """Return whether a call is of several bases on the same reads."""
    return len(call["ref"]) == len(call["alt"]) > 1


def compared(call: dict[str, Any], skipped: Container[str] = ()) -> list[Compared]:
    """Return what each filter compared at a call; none where its reads are not known."""
    known = {} if is_mnv(call) else call.get("compared", {})
    if not known:
        return []
    found = [Compared(name, *pair) for name, pair in known.items()]
    if strands := call["samples"]["case"]["strands"]:
        allele, reference = strands[2:], strands[:2]
        found.insert(
            0,
            Compared(
                "strand_bias",
                allele[0] / sum(allele) if sum(allele) >= LEAST_READS else None,
                reference[0] / sum(reference) if sum(reference) else None,
            ),
        )
    return [one for one in found if one.filter not in skipped]


def untested(call: dict[str, Any], settings: VariantSettings) -> list[str]:
    """Return the filters that could not have removed a call; none where its reads are not known."""
    found = compared(call, settings.skipped_filters)
    able = {one.filter for one in found if one.is_testable}
    return [name for name in READ_FILTERS if name not in able] if found else []
