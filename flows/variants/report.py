"""What the variants report says, from the calls of the partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any

import numpy as np

from flows.data.run_tables import Parameter
from flows.report import plots
from flows.report.page import Findings, Grid, NextStep, Section
from flows.report.plots import Spec
from flows.variants import detection, indel_report, read_account
from flows.variants.batch_report import (
    batch_results,
    batch_section,
    batch_warnings,
    context_warnings,
)
from flows.variants.calls import ALPHA, SAMPLER
from flows.variants.read_account import SampleReads
from flows.variants.samples import mixed_warnings
from flows.variants.settings import READ_FILTERS, VariantSettings
from flows.variants.tiles import NEXT_STEPS, tiles_of
from flows.variants.training_sites import FIT_UNITS
from flows.variants.vcf import FILTERS
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.panel.model import CONTAMINATION
from vbmodels.variants.two_groups.batch_null import names_of_types


def of_panel(call: dict[str, Any], settings: VariantSettings) -> str:
    """Return a call's reads and depth in the panel, and in the sample of the largest share."""
    reads = call["replicates"].get("panel", [])
    together = f"{sum(a for a, _ in reads)}/{sum(n for _, n in reads)}"
    shares = [a / max(n, 1) for a, n in reads]
    if len(reads) < 2 or max(shares) == 0.0:
        return together
    most = int(np.argmax(shares))
    return f"{together}; {reads[most][0]}/{reads[most][1]} in {settings.members[most]}"


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
        f"standard deviation of tau = {q.tau:.3f} in logit. A sample of the panel may carry an "
        f"allele itself with a probability of {CONTAMINATION:g}, and then hides no "
        f"variant of the case.{single * (len(rows) == 1)}"
    )
    return Section("The panel", text, (), (Grid(("sample", *names), rows),))


MOST_CALLS = 200
MOST_PLOTTED = 30
MOST_MISSED = 10  # regions that are not callable
MOST_LIMITS = 200  # different limits of detection in the plot
GOOD_R_HAT = 1.05


@dataclass(frozen=True)
class Mixing:
    """How far one partition's draws can be trusted."""

    largest_r_hat: float
    smallest_effective_draws: float
    above: int  # locations whose R-hat is above `GOOD_R_HAT`

    @classmethod
    def of(cls, mixing: FloatArray) -> Mixing:
        """Summarise R-hat and effective number of draws by location, [J, 2].

        Locations where nothing varies have no R-hat; chains that disagree no effective draws.
        """
        r_hat, ess = mixing.T
        worst = float(np.fmax.reduce(r_hat, initial=1.0))
        return cls(worst, float(np.nan_to_num(ess).min()), int((r_hat > GOOD_R_HAT).sum()))


@dataclass(frozen=True)
class PartCalls:
    """What one partition adds to the VCF and the report."""

    locations: int
    units: int
    contigs: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]
    q_histogram: IntArray
    depth: tuple[tuple[str, int, float, float], ...] = field(default=())
    mixing: Mixing | None = None
    strands: bool = True  # whether it is known on which strand a read lies
    reads: bool = True  # whether it is known what reads are like
    limits: detection.LimitCounts | None = None
    callable: bytes = b""  # BED of where the callable share would be called
    missed: tuple[detection.Missed, ...] = ()  # the first regions where it would not
    indels: indel_report.PartIndels | None = None
    indel_fit: indel_report.IndelFit | None = None  # the same of every partition
    no_indels: str | None = None  # why they were not called
    mixed: tuple[tuple[str, int], ...] = ()  # locations where a sample's replicates disagree
    next_best: tuple[float, float, str] | None = None  # not called: probability, q-value, name
    sample_reads: SampleReads | None = None  # what is known of the replicates' reads


NO_STRANDS = "these counts do not have the strands of reads"
NO_READS = "these counts do not have the qualities of reads"


def filters_not_run(parts: Sequence[PartCalls], settings: VariantSettings) -> dict[str, str]:
    """Return the filters that did not run on these partitions, and why."""
    found = {}
    if not all(part.strands for part in parts):
        found["strand_bias"] = NO_STRANDS
    if not all(part.reads for part in parts):
        found |= {name: NO_READS for name in READ_FILTERS if name != "strand_bias"}
    return found | {
        name: "skip_filters names it" for name in READ_FILTERS if name in settings.skipped_filters
    }


def report(
    parts: Sequence[PartCalls],
    hyperparameters: Sequence[Parameter],
    caps: Sequence[str],
    settings: VariantSettings,
    batch: Any = None,
) -> Findings:
    """Say what was found in all partitions; ``batch`` is a fit of the batch-aware null."""
    calls = in_order(parts)
    units = sum(p.units for p in parts)
    locations = sum(p.locations for p in parts)
    reads = parts[0].sample_reads if parts else None
    not_run = filters_not_run(parts, settings)
    why_not = parts[0].no_indels if parts else None
    sections = [_calls(calls, settings, not_run, why_not or "")]
    found_at = [p.limits for p in parts if p.limits is not None]
    if found_at:
        sections.append(_detection(detection.LimitCounts.merge(found_at), parts, settings))
    if reads is not None and (rows := read_account.as_rows(reads, settings)):
        sections.append(read_account.section(rows))
    sections.append(_depth(parts, settings, bool(found_at)))
    indels = [p.indels for p in parts if p.indels is not None]
    fit = parts[0].indel_fit if parts else None
    if fit is not None and any(one.alleles for one in indels):
        sections.append(indel_report.section(indels, fit, settings))
    if batch is not None:
        sections.append(batch_section(batch, settings.case, settings.compared_with, units))
        if settings.members:
            sections.append(panel_section(batch, settings))
    sections.append(_q_values(parts, settings))
    mixing = _mixing(parts)
    if mixing:
        sections.append(_sampler(mixing, locations))
    sections.append(_hyperparameters(hyperparameters, units, settings))
    top = [
        {"variant": name_of(c), "prob": c["P"], "q_value": float(f"{c['QV']:.2g}"),
         "rate": float(f"{c['MU']:.3g}")}
        for c in calls[:20]
    ]  # fmt: skip
    results = results_of(parts, settings, batch)
    return Findings(
        headline_of(parts, calls, settings), sections, results,
        tuple(warnings_of(parts, caps, settings, batch)), top,
        tiles_of(results, level_of(settings), settings.callable_share, _positions(parts)),
        _next_steps(parts),
        read_account.input_grids([reads]),
        row="position" if reads is not None and reads.files else "row",
        limits=_limits_in_words(parts),
        notes=read_account.replicates_in_words(reads),
        used={"tau": "not used (test=two_groups)"} if settings.test == "two_groups" else {},
    )  # fmt: skip


def _limits_in_words(parts: Sequence[PartCalls]) -> str:
    """Say how many positions are not callable, where that is known and there are some."""
    positions = _positions(parts)
    missed = positions - _callable(parts) if all(p.limits is not None for p in parts) else 0
    return f"{missed:,} of {positions:,} positions not callable" if missed else ""


def in_order(parts: Sequence[PartCalls]) -> list[dict[str, Any]]:
    """Return all calls, best first."""
    return sorted((c for p in parts for c in p.calls), key=lambda c: -c["qual"])


def _mixing(parts: Sequence[PartCalls]) -> list[Mixing]:
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
        warnings += batch_warnings(batch, settings.case, settings.compared_with)
        warnings += context_warnings(batch, settings.case, settings.compared_with)
    not_run = filters_not_run(parts, settings)
    lacking = [n for n, why in not_run.items() if why.startswith((NO_STRANDS, NO_READS))]
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
    warnings += mixed_warnings([part.mixed for part in parts])
    warnings += of_settings(settings)
    mixing = _mixing(parts)
    bad = sum(m.above for m in mixing)
    if bad:
        locations = sum(p.locations for p in parts)
        largest = _trust(mixing)["largest_r_hat"]
        warnings.append(
            f"The chains disagree at {bad:,} of {locations:,} locations (R-hat above "
            f"{GOOD_R_HAT}, the largest {largest:.2f}); draw more, or thin."
        )
    return warnings


def variants(count: int) -> str:
    """Return a number of variants in words.

    >>> variants(1), variants(1200)
    ('1 variant', '1,200 variants')
    """
    return f"{count:,} variant{'' if count == 1 else 's'}"


def headline_of(
    parts: Sequence[PartCalls], calls: Sequence[dict[str, Any]], settings: VariantSettings
) -> str:
    """Return the result, how much of the regions could have shown it, and what limits it."""
    passed = [c for c in calls if not c["filters"]]
    alone = len(passed) == 1 and settings.test == "two_groups"  # its QUAL says more than the level
    found = variants(len(passed)) + ("" if alone else f" {level_of(settings)}")
    found += f" ({len(calls) - len(passed):,} more filtered)" if len(calls) > len(passed) else ""
    if passed:
        found += f"{'; the surest' * (len(passed) > 1)}: {call_in_words(passed[0], settings)}"
    limits = [callable_in_words([parts], settings)]
    reads = parts[0].sample_reads if parts else None
    if reads is not None and reads.thin:
        limits.append(f"without reads: {', '.join(reads.thin)}")
    if not settings.controls:
        said = "without a control errors that all reads share look like variants: a control of the "
        limits.append(f"{said}same protocol, or a panel, separates them")
    said = "; ".join(limits)
    return f"{found}. {said[0].upper()}{said[1:]}."


def call_in_words(call: dict[str, Any], settings: VariantSettings) -> str:
    """Name a call, with its share of the reads, the control's reads with it, and QUAL."""
    reads = reads_of(call, "control", "panel").replace("/", " of ")
    against = f"{reads} in {settings.compared_with}, " * bool(settings.controls)
    share = f"{share_of(call)} of the reads of {settings.case}"
    return f"{name_of(call)} in {share}, {against}QUAL {call['qual']:.1f}"


def callable_in_words(cases: Sequence[Sequence[PartCalls]], settings: VariantSettings) -> str:
    """Say where a share would have been called, in one case or in each; or how many positions."""
    positions = max(_positions(parts) for parts in cases)
    if not all(any(p.limits is not None for p in parts) for parts in cases):
        return f"{positions:,} positions were tested"
    found = [_callable(parts) for parts in cases]
    some = " to ".join(f"{n:,}" for n in dict.fromkeys((min(found), max(found))))
    said = f"an allele in {100.0 * settings.callable_share:g} % of the reads would have been "
    said += f"called, with a probability of {detection.PROBABILITY:g}, at {some} of {positions:,} "
    said += "positions"
    return f"{said}{' of each case' * (len(cases) > 1)}"


def _positions(parts: Sequence[PartCalls]) -> int:
    """Return how many positions the regions have, those without reads included."""
    locations = sum(p.locations for p in parts)
    reads = parts[0].sample_reads if parts else None
    return locations if reads is None else max(reads.positions, locations)


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
        results |= batch_results(batch)
    indels = [p.indels for p in parts if p.indels is not None]
    if parts and parts[0].indel_fit is not None:
        results |= indel_report.results(indels)
    found_at = [p.limits for p in parts if p.limits is not None]
    if found_at:
        results |= {
            "median_limit_of_detection": detection.LimitCounts.merge(found_at).quantile(0.5),
            "callable_locations": _callable(parts),
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


def level_of(settings: VariantSettings) -> str:
    """Return by what a call is made."""
    if settings.test == "two_groups":
        return f"at a false discovery rate of {settings.fdr:g}"
    what = "difference" if settings.control else "rate"
    return f"by P({what} > {settings.tau:g}) > {1 - ALPHA:g}"


def _question(settings: VariantSettings) -> str:
    """Return what a call says, in one sentence, and what it does not."""
    if not settings.controls:
        return (
            "One sample without a control: the allele is more frequent than the errors of its "
            "substitution. An error that all reads share looks the same; a control of the same "
            "protocol, or a panel of other samples, separates them. "
        )
    if not settings.control:
        return (
            f"Tumour-only test: the allele's rate in {settings.case} is beyond what errors and "
            f"differences between samples give in {settings.compared_with}. Alleles that the case "
            "was born with, which no sample of its own tells apart, are called too. "
        )
    side = "differs from" if settings.two_sided else "is higher than"
    return (
        f"Somatic test: an allele is called if its share of the reads in {settings.case} {side} "
        f"that in {settings.compared_with}. Alleles that both carry alike, germline ones "
        "included, are not called. "
    )


def is_mnv(call: dict[str, Any]) -> bool:
    """Return whether a call is of several bases on the same reads."""
    return len(call["ref"]) == len(call["alt"]) > 1


def name_of(call: dict[str, Any]) -> str:
    """Return a call as people write it."""
    return f"{call['chrom']}:{call['pos']} {call['ref']}>{call['alt']}"


def reads_of(call: dict[str, Any], *roles: str) -> str:
    """Return the reads with the allele and the depth, of all replicates of some samples."""
    pairs = [pair for role in roles for pair in call["replicates"].get(role, ())]
    return f"{sum(a for a, _ in pairs):,}/{sum(n for _, n in pairs):,}"


def share_of(call: dict[str, Any]) -> str:
    """Return the share of the case's reads with the allele, with its 95 % interval, in per cent.

    >>> share_of({"MU": 0.104, "MUCI": (0.0899, 0.12)})
    '10.4 % (9.0 to 12.0)'
    """
    low, high = (100.0 * end for end in call["MUCI"])
    digits = max(1, 1 - floor(log10(max(low, 1e-4))))
    return f"{100.0 * call['MU']:.{digits}f} % ({low:.{digits}f} to {high:.{digits}f})"


def _calls(
    calls: Sequence[dict[str, Any]], settings: VariantSettings, not_run: Mapping[str, str],
    without: str,
) -> Section:  # fmt: skip
    against = [name for name, there in (("control", settings.control),
                                        ("panel", settings.members)) if there]  # fmt: skip
    rows = [
        (
            name_of(c), share_of(c), reads_of(c, "case"),
            *(of_panel(c, settings) if name == "panel" else reads_of(c, name) for name in against),
            round(c["qual"], 1), ";".join(c["filters"]) or "PASS", c["QV"],
        )
        for c in calls[:MOST_CALLS]
    ]  # fmt: skip
    heads = ("panel; most in" if name == "panel" else str(settings.control) for name in against)
    columns = ("variant", "share (95 %)", settings.case, *heads, "QUAL", "filter", "q-value")
    more = f" The first {MOST_CALLS} of {len(calls):,}." if len(calls) > MOST_CALLS else ""
    text = "" if calls else "No allele is called. "
    text += f"{_question(settings)}All calls are in variants.vcf.gz, all positions in the table "
    text += f"loci.{more}"
    if joined := sum(is_mnv(c) for c in calls):
        text += f" {variants(joined)} of several bases: the same reads have all of them, and the "
        text += "reads are those with all; loci has a row for each base."
    seen = dict.fromkeys(name for c in calls for name in c["filters"])
    if without:
        text += f" {without}"
    text += "".join(f" {name}: {FILTERS[name][0].lower()}{FILTERS[name][1:]}." for name in seen)
    text += f"{passed_in_words(not_run, settings)}{_without_power(calls)}" if calls else ""
    for reason in dict.fromkeys(not_run.values()):
        names = ", ".join(name for name, why in not_run.items() if why == reason)
        text += f" {names} did not run: {reason}."
    if calls:
        text += "\nNo other caller was run: confirm calls independently."
    details = [_replicates(c, settings) for c in calls[:MOST_CALLS]]
    how = "Best first; a variant opens the reads of every replicate and what the filters compared. "
    how += (
        f"The share of the reads in {settings.case} is estimated, errors included; the columns of "
    )
    how += "samples are reads with the allele / all reads, as counted."
    if not calls:
        return Section("Calls", text)
    grid = Grid(columns, rows, details=details)
    chart = shares_chart([(name_of(c), c) for c in calls], settings.case, settings.compared_with)
    return Section("Calls", text, [chart], (grid,), how=how)


COMPARED = {
    "strand_bias": "share on the forward strand",
    "read_end": "mean distance to the read's end, in bases",
    "low_mapq": "mean mapping quality",
    "low_baseq": "mean base quality",
    "near_indel": "share with an indel near it",
    "many_mismatches": "share with several mismatches near it",
}


def passed_in_words(not_run: Mapping[str, str], settings: VariantSettings) -> str:
    """Say what PASS is: which filters of reads ran."""
    names = ", ".join(name for name in READ_FILTERS if name not in not_run)
    said = f" PASS: called, and not removed by any filter ({names}); each filter removes a true "
    said += f"variant with a probability of at most {settings.filter_level:g} (filter_level)."
    return said * bool(names)


def _compared(call: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return what each filter compared: of the reads with the allele, and with the reference."""
    found = {} if is_mnv(call) else call.get("compared", {})
    if found and (strands := call["samples"]["case"]["strands"]):
        at = strands[2] / max(sum(strands[2:]), 1), strands[0] / max(sum(strands[:2]), 1)
        found = {"strand_bias": at, **found}
    return found


def _without_power(calls: Sequence[dict[str, Any]]) -> str:
    """Name the filters that had nothing to compare: all reads of every call are alike to them."""
    every = [one for one in map(_compared, calls) if one]
    if not every:
        return ""
    pairs = {name: [one.get(name, (0.0, 1.0)) for one in every] for name in every[0]}
    alike = [name for name, found in pairs.items() if all(one == other for one, other in found)]
    if not alike:
        return ""
    return f" All reads are alike in what they compare, so PASS says nothing of {', '.join(alike)}."


def _replicates(call: dict[str, Any], settings: VariantSettings) -> Section:
    """Return the reads of every replicate of a call."""
    names = {"case": settings.case, "control": str(settings.control), "panel": "panel"}
    rows = [
        (names.get(role, role), number, reads, depth, reads / depth if depth else None)
        for role, replicates in call["replicates"].items()
        for number, (reads, depth) in enumerate(replicates, 1)
    ]
    grids = [Grid(("sample", "replicate", "reads with the allele", "all reads", "share"), rows)]
    compared = _compared(call)
    columns = ("filter", "with the allele", "with the reference", "compared")
    of_filters = [(name, *pair, COMPARED[name]) for name, pair in compared.items()]
    if of_filters:
        grids.append(Grid(columns, of_filters, f"Reads of {settings.case} that filters compare"))
    return Section(name_of(call), "", (), grids)


def shares_chart(
    calls: Sequence[tuple[str, dict[str, Any]]], case: str, against: str | None
) -> Spec:
    """Plot the share of reads of named calls, in the case and in what it is compared with."""
    shown = calls[:MOST_PLOTTED]
    series = [(case, [(c["MU"], *c["MUCI"]) for _, c in shown])]
    if against:
        series.append((against, [(c["CMU"], *c["CMUCI"]) for _, c in shown]))
    some = f" (the first {MOST_PLOTTED} of {len(calls):,})" if len(calls) > MOST_PLOTTED else ""
    how = "Points are estimates, errors included, lines 95 % intervals, on a logarithmic axis."
    if against:
        how += f" Where no read of {against} has the allele, its share is its error rate."
    title = f"Share of reads with each called allele{some}"
    names = [name for name, _ in shown]
    return plots.paired_intervals(names, series, "share of reads", title, how)


def _depth(parts: Sequence[PartCalls], settings: VariantSettings, with_limits: bool) -> Section:
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
            )
        )  # fmt: skip
    text = f"The first 4 of {len(contigs)} contigs." if len(contigs) > 4 else ""
    how = "Where the depth falls, rare alleles cannot be seen"
    how += ": see Limit of detection." if with_limits else "."
    return Section("Depth", text, drawn, how=how)


def _q_values(parts: Sequence[PartCalls], settings: VariantSettings) -> Section:
    counts = sum((p.q_histogram for p in parts), np.zeros(40, np.int64))
    centres = (np.arange(40) + 0.5) / 40
    text = ""
    for prob, q, name in sorted(filter(None, (p.next_best for p in parts)))[-1:]:
        text += f"Next best, not called: {name}, probability {prob:.2g}, q-value {q:.2g}"
        text += ": no near miss." if prob < 0.1 else "."
    title = "The q-value of every position's best allele, and of every called allele"
    plot = plots.histogram(centres, "q-value", "alleles", title, counts=counts)
    label = "Chart of all q-values: calls at the left, positions without a variant at the right"
    return Section("q-values", text, (plot,), folded=label)


def _callable(parts: Sequence[PartCalls]) -> int:
    return sum(detection.positions(part.callable) for part in parts)


def _next_steps(parts: Sequence[PartCalls]) -> tuple[NextStep, ...]:
    """Return what to do next, about positions that are not callable too."""
    if not any(part.missed for part in parts):
        return NEXT_STEPS
    text = "Positions that are not callable need more reads, or fewer errors, before you claim "
    text += "absence. No other caller was run; confirm calls independently. The largest limits:"
    return (*NEXT_STEPS, NextStep(text, "vbflows show {run} detection --sort limit"))


def _detection(
    limits: detection.LimitCounts, parts: Sequence[PartCalls], settings: VariantSettings
) -> Section:
    positions = _positions(parts)
    callable_ = _callable(parts)
    text = (
        f"callable.bed lists the {callable_:,} of {positions:,} positions whose limit is at "
        f"most {100.0 * settings.callable_share:g} % (the setting callable_share, by default 0.05)."
        " The table detection has the limit of each position with reads."
    )
    how = (
        "The limit is the share from which on an allele would be called with a probability of "
        "0.95, at this run's depth, error rates and level, for the base with the most errors."
    )
    grids: list[Grid] = []
    if missed := detection.join_missed([part.missed for part in parts]):
        thin, without = limits.locations - callable_, positions - limits.locations
        grids.append(_missed(missed, thin, without, settings))
    return Section("Limit of detection", text, _limits_plot(limits), grids, how=how)


def _missed(
    missed: Sequence[detection.Missed], thin: int, without: int, settings: VariantSettings
) -> Grid:
    """Return where an allele could be missed: ``thin`` positions with reads, and some without."""
    rows = [
        (one.name, "none" if np.isnan(one.limit) else f"{100.0 * one.limit:.1f} %",
         _why_missed(one, settings), one.case, *([one.control] if settings.controls else []))
        for one in missed[:MOST_MISSED]
    ]  # fmt: skip
    caption = f"Not callable: {thin:,} positions with reads"
    more = f" (the first {MOST_MISSED} regions; all: the table detection)"
    caption += more * (len(missed) > MOST_MISSED)
    caption += f", {without:,} without" if without else ""
    caption += "; limits and reads, of all replicates, are the largest of a region's positions"
    against = [f"reads of {settings.compared_with}"] if settings.controls else []
    columns = ("not callable", "limit", "why", f"reads of {settings.case}", *against)
    return Grid(columns, rows, caption)


def _why_missed(one: detection.Missed, settings: VariantSettings) -> str:
    """Say why a share would be missed: too few reads, or the control's with another base."""
    if settings.controls and not one.control:
        return f"no read in {settings.compared_with}"
    if one.errors:
        return f"another base in {one.errors:,} of {settings.compared_with}'s reads"
    return f"few reads{'' if settings.controls else ', or many errors'}"


def _limits_plot(limits: detection.LimitCounts) -> tuple[Spec, ...]:
    """Draw the share of positions by their limit; nothing where no position has one."""
    known = int(np.count_nonzero(~np.isnan(limits.share)))
    if not known:
        return ()
    shown = np.unique(np.linspace(0, known - 1, MOST_LIMITS).astype(int))
    share, below = limits.share[shown], limits.below()[shown]
    series = [("positions with a limit at or below it", np.insert(below, 0, 0.0))]
    title = "Where an allele of a given share would be called"
    how = "At 0.01 the line shows the share of the positions with reads whose limit is at most 1 %."
    x, y = "limit of detection (share of reads)", "share of positions"
    return (plots.lines(np.insert(share, 0, share[0]), series, x, y, title, how, log=True),)


MEANINGS = {
    "pi": "share of alleles that are variants, before their reads (no count of missed ones)",
    "w": "share of alleles whose error rate can be anything",
    "log_M_mean": "precision of replicates M: mean of its logarithm",
    "log_M_sd": "precision of replicates M: sd of its logarithm",
    "rho": "share of the variants by their rate",
    "shift_mean": "case against control: mean difference over substitutions, in logit",
    "shift_sd": "case against control: sd of the differences over substitutions",
    "tau": "case against control: sd of the differences between sites",
    "v": "share of sites far off that difference",
    "error_rate": "mean error rate",
    "error_shape": "evenness of error rates over sites (shape of their Beta)",
    "mu0": "mean rate of errors",
    "M0": "evenness of error rates over sites (precision of their Beta)",
    "log_M": "precision of replicates M: its logarithm",
    "indel_pi": "share of the tested indels that differ between case and control",
    "indel_log_M_mean": "indels: precision of replicates M: mean of its logarithm",
}
"""What a parameter is, in words; the shifts by substitution have a section of their own."""


def _hyperparameters(rows: Sequence[Parameter], units: int, settings: VariantSettings) -> Section:
    shown = [(MEANINGS[p.name], p.index or "", p.mean, p.name) for p in rows if p.name in MEANINGS]
    names = ("meaning", "of", "value", "name in posterior/parameters.parquet")
    grid = Grid(names, shown, f"All {len(shown)} hyperparameters", folded=True)
    text = f"Estimated from the data of {'both samples' if settings.controls else 'the sample'}"
    if settings.test == "two_groups" and units > FIT_UNITS:
        text += (
            f" at about {FIT_UNITS:,} of {units:,} units (location and allele), drawn by their "
            "positions and the seed, those of locations that differ more sooner than others, each "
            "weighted by how many it represents; pi again from all units"
        )
    return Section("Hyperparameters", f"{text}.", (), (grid,), needs_fit=True)


def _trust(mixing: Sequence[Mixing]) -> dict[str, float]:
    return {
        "largest_r_hat": max(m.largest_r_hat for m in mixing),
        "smallest_effective_draws": min(m.smallest_effective_draws for m in mixing),
    }


def _sampler(mixing: Sequence[Mixing], locations: int) -> Section:
    worst = _trust(mixing)
    rows = [
        ("draws of a location", SAMPLER.chains * SAMPLER.draws),
        ("largest R-hat", round(worst["largest_r_hat"], 3)),
        (f"locations with R-hat above {GOOD_R_HAT}", sum(m.above for m in mixing)),
        ("smallest effective number of draws", round(worst["smallest_effective_draws"])),
    ]
    text = (
        f"Slice sampling: {SAMPLER.chains} chains of {SAMPLER.draws:,} kept draws after "
        f"{SAMPLER.warmup:,} sweeps, at every one of {locations:,} locations, at the "
        "hyperparameters below. P, QUAL and q-values are no finer than so many draws allow."
    )
    return Section("Sampler", text, (), (Grid(("what", "value"), rows),))
