"""What the variants report says, from the calls of the partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.runs import Dropped, total_dropped
from flows.report.page import Findings, Grid, NextStep, Section
from flows.variants import (
    batch_report,
    calls_report,
    detection,
    indel_report,
    limits_report,
    part_calls,
    read_account,
)  # fmt: skip
from flows.variants.calls import ALPHA
from flows.variants.calls_report import call_in_words, is_mnv, level_of, name_of, variants
from flows.variants.locations import NO_READS, NO_REFERENCE
from flows.variants.part_calls import PartCalls, callable_of, filters_not_run, positions_of
from flows.variants.samples import mixed_warnings
from flows.variants.settings import VariantSettings
from flows.variants.tiles import NEXT_STEPS, tiles_of
from vbmodels.variants.panel.model import CONTAMINATION
from vbmodels.variants.two_groups.batch_null import names_of_types

CALLABLE = 0.9
DELETED = 0.05  # share of the depth at a call from which on its deletions are said
"""Share of the positions that are callable from which on a headline with a call leaves it out."""


def report(
    parts: Sequence[PartCalls],
    caps: Sequence[str],
    settings: VariantSettings,
    batch: Any = None,
    dropped: Sequence[Dropped] = (),
) -> Findings:
    """Say what was found in all partitions; ``batch`` is a fit of the batch-aware null.

    ``dropped``: what was not used.
    """
    calls = part_calls.in_order(parts)
    reads = parts[0].sample_reads if parts else None
    not_run = filters_not_run(parts, settings)
    why_not = parts[0].no_indels if parts and not settings.indels else None  # else a warning
    sections = [calls_report.calls_section(calls, settings, not_run, why_not or "")]
    if any(p.limits is not None for p in parts):
        lost = [one for one in total_dropped(dropped) if one.reason in (NO_READS, NO_REFERENCE)]
        sections.append(limits_report.detection_section(parts, settings, lost))
    if reads is not None and (rows := read_account.as_rows(reads, settings)):
        sections.append(read_account.section(rows))
    indels = [p.indels for p in parts if p.indels is not None]
    fit = parts[0].indel_fit if parts else None
    if fit is not None and any(one.alleles for one in indels):
        sections.append(indel_report.section(indels, fit, settings))
    if batch is not None:
        sections.append(batch_report.batch_section(batch, settings))
        if settings.members:
            sections.append(panel_section(batch, settings))
    results = results_of(parts, settings, batch)
    return Findings(
        headline_of(parts, calls, settings), sections, results,
        tuple(warnings_of(parts, caps, settings, batch)),
        [calls_report.in_short(c) for c in calls[:20]],
        tiles_of(results, level_of(settings), settings.callable_share, positions_of(parts)),
        _next_steps(parts, calls, settings),
        read_account.input_grids([reads]),
        row="position" if reads is not None and reads.files else "row",
        notes=read_account.replicates_in_words(reads),
        used={"tau": "not used (test=two_groups)"} if settings.test == "two_groups" else {},
    )  # fmt: skip


def panel_section(q: Any, settings: VariantSettings) -> Section:
    """Return each sample's factor by substitution, as a table."""
    names = names_of_types()
    rows = [
        (sample, *(round(float(f), 2) for f in np.exp(own)))
        for sample, own in zip(settings.controls, q.member_shift, strict=True)
    ]
    single = " One sample alone has no factor of its own: the case is compared with it directly."
    text = (
        "Error rates of every sample that the case is compared with, as factors of the rates in "
        "their middle, by substitution. At single sites samples, the case among them, differ by a "
        f"standard deviation of {q.tau:.3f} (site_sd) in logit. A sample of the panel may carry an "
        f"allele itself with a probability of {CONTAMINATION:g}, and then hides no "
        f"variant of the case.{single * (len(rows) == 1)}"
    )
    return Section("The panel", text, (), (Grid(("sample", *names), rows),))


def _mixing(parts: Sequence[PartCalls]) -> list[part_calls.Mixing]:
    return [p.mixing for p in parts if p.mixing is not None]


def warnings_of(
    parts: Sequence[PartCalls], caps: Sequence[str], settings: VariantSettings, batch: Any
) -> list[str]:
    """Return what a case's report warns of."""
    # That the errors of a substitution are alike at all sites (M0) is as clean data are.
    limits = [cap for cap in caps if not cap.startswith("M0 of substitution")]
    warnings = [f"A hyperparameter is at the limit of its range: {cap}." for cap in limits]
    if any(cap.startswith("M0 = ") for cap in caps):
        warnings.append(
            "No difference between locations was found in the errors of a sample, so each has the "
            "sample's mean rate: variants can be missed, strong ones too, and a call may show the "
            "samples' difference alone. Use test=two_groups, or more reads."
        )
    if batch is not None:
        for of in (batch_report.batch_warnings, batch_report.context_warnings):
            warnings += of(batch, settings.case, settings.compared_with)
    not_run = filters_not_run(parts, settings)
    lacking = [n for n, why in not_run.items() if why in part_calls.LACKING]
    if lacking:
        warnings.append(
            f"Filters that did not run: {', '.join(lacking)}; {not_run[lacking[-1]]}, so an error "
            "that its reads betray can be here as PASS. Call from BAM or CRAM files, or count "
            "them again, to have these filters."
        )
    why_not = parts[0].no_indels if parts else None
    if why_not is not None and settings.indels:
        warnings.append(why_not)
    fit = parts[0].indel_fit if parts else None
    if fit is not None:
        warnings += indel_report.warnings(fit)
    warnings += calls_report.power_warnings(part_calls.in_order(parts), settings)
    warnings += [f"Not called: {one}." for part in parts for one in part.disagreeing]
    under = [c for c in part_calls.in_order(parts) if c.get("deleted", 0) >= DELETED * _depth(c)]
    if under:
        names = (f"{name_of(c)} ({c['deleted']:,} of {_depth(c):,})" for c in under)
        warnings.append(f"Reads with a deletion are part of the depth of {', '.join(names)}.")
    warnings += mixed_warnings([part.mixed for part in parts])
    warnings += of_settings(settings)
    mixing = _mixing(parts)
    bad = sum(m.above for m in mixing)
    if bad:
        locations = sum(p.locations for p in parts)
        largest = _trust(mixing)["largest_r_hat"]
        warnings.append(
            f"The chains disagree at {bad:,} of {locations:,} locations (R-hat above "
            f"{part_calls.GOOD_R_HAT}, the largest {largest:.2f}); draw more, or thin."
        )
    return warnings


def _depth(call: dict[str, Any]) -> int:
    """Return the reads of the case at a call."""
    return max(int(call["samples"]["case"]["depth"]), 1)


def headline_of(
    parts: Sequence[PartCalls], calls: Sequence[dict[str, Any]], settings: VariantSettings
) -> str:
    """Return the result, and what limits it.

    How much of the regions could have shown an allele is left to the page's cards where something
    is called and most of them could.
    """
    passed = [c for c in calls if not c["filters"]]
    alone = len(passed) == 1 and settings.test == "two_groups"  # its QUAL says more than the level
    found = variants(len(passed)) + ("" if alone else f" {level_of(settings)}")
    found += f" ({len(calls) - len(passed):,} more filtered)" if len(calls) > len(passed) else ""
    if passed:
        found += f"{'; the surest' * (len(passed) > 1)}: {call_in_words(passed[0], settings)}"
    reads = parts[0].sample_reads if parts else None
    thin = [] if reads is None else reads.thin
    limits = []
    if not passed or thin or callable_of(parts) < CALLABLE * positions_of(parts):
        limits.append(limits_report.callable_in_words([parts], settings))
    if thin:
        limits.append(f"without reads: {', '.join(thin)}")
    if not settings.controls:
        said = "without a control errors that all reads share look like variants: a control of the "
        limits.append(f"{said}same protocol, or a panel, separates them")
    said = "; ".join(limits)
    return f"{found}." + f" {said[:1].upper()}{said[1:]}." * bool(said)


def results_of(parts: Sequence[PartCalls], settings: VariantSettings, batch: Any) -> dict[str, Any]:
    """Return the numbers that a case's record has."""
    calls = [c for p in parts for c in p.calls]
    results: dict[str, Any] = {
        "locations": sum(p.locations for p in parts),
        "units": sum(p.units for p in parts),
        "calls": len(calls),
        "passed": sum(not c["filters"] for c in calls),
        "mnv": sum(is_mnv(c) for c in calls),
    }
    if batch is not None:
        results |= batch_report.batch_results(batch)
    indels = [p.indels for p in parts if p.indels is not None]
    if parts and parts[0].indel_fit is not None:
        results |= indel_report.results(indels)
    found_at = [p.limits for p in parts if p.limits is not None]
    if found_at:
        results |= {
            "median_limit_of_detection": detection.LimitCounts.merge(found_at).quantile(0.5),
            "callable_locations": callable_of(parts),
        }
    reads = parts[0].sample_reads if parts else None
    if reads is not None and (rows := read_account.as_rows(reads, settings)):
        results["reads"] = rows
    mixing = _mixing(parts)
    return results | (_trust(mixing) if mixing else {})


def of_settings(settings: VariantSettings) -> list[str]:
    """Return the warnings that follow from the settings alone."""
    if settings.test == "two_groups" or settings.tau > 0.0 or not settings.control:
        return []
    return [
        "At tau = 0 the papers' rule has no point null: its specificity is only "
        f"{1 - ALPHA:g}, so among few variants many calls are false; set tau=5e-4, "
        "or go by q_value."
    ]


def _next_steps(
    parts: Sequence[PartCalls], calls: Sequence[dict[str, Any]], settings: VariantSettings
) -> tuple[NextStep, ...]:
    """Return what to do next: about the surest call, and positions that are not callable."""
    steps, text = list[NextStep](), ""
    names = calls_report.untested(calls[0], settings) if calls else []
    if names := [name for name in names if name not in settings.skipped_filters]:
        strands = "with reads of both strands, or " * ("strand_bias" in names)
        text = (
            f"Confirm {calls_report.name_of(calls[0])} {strands}by another method, such as "
            f"digital PCR: {', '.join(names)} could not be tested."
        )
    if text:
        steps.append(NextStep(text))
    if any(part.missed for part in parts):
        text = (
            "Before you claim absence at a position that is not callable, get more reads "
            "there. The largest limits:"
        )
        steps.append(NextStep(text, "vbflows show {run} detection --sort limit"))
    return (*steps, *NEXT_STEPS)


def _trust(mixing: Sequence[part_calls.Mixing]) -> dict[str, float]:
    return {
        "largest_r_hat": max(m.largest_r_hat for m in mixing),
        "smallest_effective_draws": min(m.smallest_effective_draws for m in mixing),
    }
