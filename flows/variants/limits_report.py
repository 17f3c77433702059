"""What could have been called, and where not: limits of detection, depth, q-values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.data.runs import Dropped
from flows.report import plots
from flows.report.page import Grid, Section
from flows.report.plots import Spec
from flows.variants import detection
from flows.variants.batch_report import rate_in_words
from flows.variants.calls_report import level_of
from flows.variants.locations import NO_READS
from flows.variants.part_calls import MOST_MISSED, PartCalls, callable_of, positions_of
from flows.variants.settings import VariantSettings

MOST_LIMITS = 200  # different limits of detection in the plot


def callable_in_words(cases: Sequence[Sequence[PartCalls]], settings: VariantSettings) -> str:
    """Say where a share would have been called, in one case or in each; or how many positions."""
    positions = max(positions_of(parts) for parts in cases)
    if not all(any(p.limits is not None for p in parts) for parts in cases):
        return f"{positions:,} positions were tested"
    found = [callable_of(parts) for parts in cases]
    some = " to ".join(f"{n:,}" for n in dict.fromkeys((min(found), max(found))))
    said = f"an allele in {100.0 * settings.callable_share:g} % of the reads would have been "
    said += f"called, with a probability of {detection.PROBABILITY:g}, at {some} of {positions:,} "
    said += "positions"
    return f"{said}{' of each case' * (len(cases) > 1)}"


def detection_section(
    found: Sequence[detection.LimitCounts], parts: Sequence[PartCalls], settings: VariantSettings,
    lost: Sequence[Dropped] = (),
) -> Section:  # fmt: skip
    """Return where an allele of a small share would be called, and where it could be missed.

    ``lost``: positions that were not tested, and why.
    """
    limits = detection.LimitCounts.merge(found)
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
    drawn = _limits_plot(limits, positions_of(parts), settings)
    return Section("Limit of detection", text, drawn, grids)


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


def _limits_plot(
    limits: detection.LimitCounts, positions: int, settings: VariantSettings
) -> tuple[Spec, ...]:
    """Draw the share of all positions by their limit; nothing where no position has one."""
    known = int(np.count_nonzero(~np.isnan(limits.share)))
    if not known:
        return ()
    shown = np.unique(np.linspace(0, known - 1, MOST_LIMITS).astype(int))
    share, some = 100.0 * limits.share[shown], max(positions, 1)
    below = 100.0 * limits.below()[shown] * limits.locations / some
    steps = np.insert(np.repeat(below, 2)[:-1], 0, 0.0)
    series = [("positions with a limit at or below it", steps)]
    title = "Where an allele of a given share would be called"
    mark = 100.0 * settings.callable_share
    low, middle, high = (
        100.0 * limits.count[limits.share <= 1.001 * at].sum() / some for at in (0.01, 0.02, 0.05)
    )
    how = "An allele of 1 % of the reads would be called, with a probability of "
    how += f"{detection.PROBABILITY:g}, at {low:.0f} % of the {positions:,} positions, one of 2 % "
    how += f"at {middle:.0f} %, one of 5 % at {high:.0f} %. The line at {mark:g} % is the setting "
    how += "callable_share: left of it is callable."
    x, y = "limit of detection (% of the reads)", "% of the positions"
    at = np.repeat(share, 2)
    return (plots.lines(at, series, x, y, title, how, log=True, mark=mark, top=100.0),)


def depth_section(parts: Sequence[PartCalls], settings: VariantSettings, limits: bool) -> Section:
    """Return the depth of the samples along the contigs."""
    points = [point for part in parts for point in part.depth]
    contigs = list(dict.fromkeys(p[0] for p in points))
    drawn = []
    of_several = "; of several samples, their mean" if len(settings.controls) > 1 else ""
    for contig in contigs[:4]:
        own = sorted(p[1:] for p in points if p[0] == contig)
        step = max(1, len(own) // 2000)
        pos, case, control = (np.array(v) for v in zip(*own[::step], strict=True))
        control = control / max(len(settings.controls), 1)
        series = [(settings.case, case)]
        series += [(settings.compared_with, control)] if settings.controls else []
        drawn.append(
            plots.lines(
                pos, series, f"position on {contig}", "reads",
                f"Depth of a sample along {contig}",
                f"Reads at each position, of all replicates of a sample{of_several}.",
                top=1.1 * max(*case, *control, 1.0),
            )
        )  # fmt: skip
    text = f"The first 4 of {len(contigs)} contigs." if len(contigs) > 4 else ""
    how = "Where the depth falls, rare alleles cannot be seen"
    how += ": see Limit of detection." if limits else "."
    return Section("Depth", text, drawn, how=how)


def q_values_section(parts: Sequence[PartCalls]) -> Section:
    """Return how far from a call the next best allele was, and all q-values."""
    counts = sum((p.q_histogram for p in parts), np.zeros(40, np.int64))
    centres = (np.arange(40) + 0.5) / 40
    text = ""
    for prob, q, name in sorted(filter(None, (p.next_best for p in parts)))[-1:]:
        text += f"Next best, not called: {name}, a variant with a probability of "
        text += f"{rate_in_words(prob)}. A false discovery rate of {q:.2g} would be needed to call "
        text += "it" + (": no near miss." if prob < 0.1 else ".")
    title = "The q-value of every position's best allele, and of every called allele"
    plot = plots.histogram(centres, "q-value", "alleles", title, counts=counts)
    label = "Chart of all q-values: calls at the left, positions without a variant at the right"
    return Section("q-values", text, (plot,), folded=label)
