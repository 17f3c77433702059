"""What could have been called, and where not: limits of detection, depth, q-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.data.runs import Dropped
from flows.report.page import Grid, Section
from flows.variants import detection
from flows.variants.calls_report import level_of
from flows.variants.locations import NO_READS
from flows.variants.part_calls import MOST_MISSED, PartCalls, callable_of, positions_of
from flows.variants.settings import VariantSettings


def callable_in_words(cases: Sequence[Sequence[PartCalls]], settings: VariantSettings) -> str:
    """Say where a share would have been called, in one case or in each; or how many positions."""
    positions = max(positions_of(parts) for parts in cases)
    if not all(any(p.limits is not None for p in parts) for parts in cases):
        return f"{positions:,} positions were tested"
    found = [callable_of(parts) for parts in cases]
    some = " to ".join(f"{n:,}" for n in dict.fromkeys((min(found), max(found))))
    said = (
        f"an allele in {100.0 * settings.callable_share:g} % of the reads would have been "
        f"called, with a probability of {detection.PROBABILITY:g}, at {some} of {positions:,} "
        "positions"
    )
    return f"{said}{' of each case' * (len(cases) > 1)}"


def detection_section(
    parts: Sequence[PartCalls], settings: VariantSettings,
    lost: Sequence[Dropped] = (),
) -> Section:  # fmt: skip
    """Return where an allele of a small share would be called, and where it could be missed.

    ``lost``: positions that were not tested, and why.
    """
    text = (
        "The limit of a position is the smallest share of its reads at which an allele would be "
        f"called {level_of(settings)}, with a probability of {detection.PROBABILITY:g}: at the "
        "depth and the error rates of this run, for the base with the most errors.\n"
        f"Positions with a limit of {100.0 * settings.callable_share:g} % or less are in "
        "{run}/callable.bed: an allele of that share or more would probably have been called "
        "there. The table detection has each position's limit; --set callable_share= sets "
        "another share."
    )
    grids: list[Grid] = []
    missed = detection.join_missed([part.missed for part in parts])
    every = positions_of(parts) - callable_of(parts)
    if missed or lost:
        grids.append(_missed(missed, every, lost, settings))
    return Section("Limit of detection", text, (), grids)


def _missed(
    missed: Sequence[detection.Missed], every: int, lost: Sequence[Dropped],
    settings: VariantSettings,
) -> Grid:  # fmt: skip
    """Return where an allele could be missed: at ``every`` position that is not callable."""
    against = [f"reads of {settings.compared_with}"] if settings.controls else []
    rows = [
        (one.name, _limit(*one.limit), _why_missed(one, settings), _range(*one.case),
         *([_range(*one.control)] if settings.controls else []))
        for one in missed[:MOST_MISSED]
    ]  # fmt: skip
    for one in lost:
        no_reads = one.reason == NO_READS
        why = "no read in any sample" if no_reads else "the reference is not A, C, G or T"
        named = ", ".join(one.examples) if one.count == len(one.examples) else f"{one.count:,} more"
        named += " (some are named in Input files)" * (0 < len(one.examples) < one.count)
        rows.append((named, "not detectable", why, *["0" * no_reads] * (len(against) + 1)))
    caption = f"{every:,} position{' is' if every == 1 else 's are'} not callable"
    more = f" (the first {MOST_MISSED} regions; all: the table detection)"
    caption += more * (len(missed) > MOST_MISSED)
    caption += ". For a region: smallest to largest limit and depth, replicates added."
    columns = ("positions", "limit", "why", f"reads of {settings.case}", *against)
    return Grid(columns, rows, caption)


def _range(low: float, high: float, digits: int = 0) -> str:
    return f"{low:,.{digits}f}" + f" to {high:,.{digits}f}" * (high > low)


def _limit(low: float, high: float) -> str:
    """Return the limits of a region's positions in words.

    >>> _limit(0.051, 0.394), _limit(0.06, float("nan")), _limit(float("nan"), float("nan"))
    ('5.1 to 39.4 %', '6.0 %, or none', 'none')
    """
    if np.isnan(high):
        return "none" if np.isnan(low) else f"{100.0 * low:.1f} %, or none"
    return f"{_range(100.0 * low, 100.0 * high, 1)} %"


def _why_missed(one: detection.Missed, settings: VariantSettings) -> str:
    """Say why a share would be missed: too few reads, or the control's with another base."""
    if settings.controls and not one.control[1]:
        return f"no read in {settings.compared_with}"
    errors, base = one.errors
    if errors:
        many = f"{'up to ' * (one.stop > one.start)}{errors:,} read{'s' * (errors > 1)}"
        return f"another base ({base}) in {many} of {settings.compared_with}"
    return f"few reads{'' if settings.controls else ', or many errors'}"
