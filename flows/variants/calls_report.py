"""What the variants report says of the calls: their names, reads, filters and shares."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import floor, log10
from typing import Any

import numpy as np

from flows.report import plots
from flows.report.page import Grid, Section
from flows.report.plots import Spec
from flows.variants.calls import ALPHA
from flows.variants.part_calls import LACKING
from flows.variants.settings import READ_FILTERS, VariantSettings
from flows.variants.vcf import FILTERS
from vbmodels.variants.read_filters import LEAST_READS

HOW_SURE = (
    "QUAL: 30 is a probability of 0.001 that random errors explain it, 20 of 0.01. q-value: the "
    "smallest false discovery rate at which the variant would be called."
)
Pair = Sequence[float | None]
MOST_CALLS = 200
MOST_PLOTTED = 30
COMPARED = {
    "strand_bias": ("on the forward strand", " %", "strand bias", "on one strand"),
    "read_end": ("mean distance to the read's end", " bases", "the position in the read",
                 "at one distance to the read's end"),
    "low_mapq": ("mean mapping quality", "", "mapping quality", "of one mapping quality (MAPQ)"),
    "low_baseq": ("mean base quality", "", "base quality", "of one base quality"),
    "near_indel": ("with an indel near it", " %", "indels nearby", "near an indel"),
    "many_mismatches": ("with several mismatches near it", " %", "mismatches nearby",
                        "near several mismatches"),
}  # fmt: skip
"""What each filter compares, its unit, what it checks, and how reads are that it cannot check."""


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
            "protocol, or a panel of other samples, separates them."
        )
    if not settings.control:
        return (
            f"Tumour-only test: the allele's rate in {settings.case} is beyond what errors and "
            f"differences between samples give in {settings.compared_with}. Alleles that the case "
            "was born with, which no sample of its own sets apart, are called too."
        )
    side = "differs from" if settings.two_sided else "is higher than"
    return (
        f"Somatic test: an allele is called if its share of the reads in {settings.case} {side} "
        f"that in {settings.compared_with} by more than errors explain ({level_of(settings)}). "
        "Alleles that both carry alike, germline ones included, are not called."
    )


def is_mnv(call: dict[str, Any]) -> bool:
    """Return whether a call is of several bases on the same reads."""
    return len(call["ref"]) == len(call["alt"]) > 1


def name_of(call: dict[str, Any]) -> str:
    """Return a call as people write it."""
    return f"{call['chrom']}:{call['pos']} {call['ref']}>{call['alt']}"


def row_of(call: dict[str, Any], settings: VariantSettings, *against: str) -> tuple[Any, ...]:
    """Return a call as a row of a table, with the reads of what the case is compared with."""
    without, every = len(untested(call, settings)), len(READ_FILTERS)
    passed = "PASS" + f" ({without} of {every} filters not testable)" * bool(without)
    said = round(call["qual"], 1), ";".join(call["filters"]) or passed, call["QV"]
    return name_of(call), share_of(call), reads_of(call, "case"), *against, *said


def in_short(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call as a row of the run's page."""
    short = {"q_value": float(f"{call['QV']:.2g}"), "rate": float(f"{call['MU']:.3g}")}
    return {"variant": name_of(call), "prob": call["P"], **short}


def reads_of(call: dict[str, Any], *roles: str, by: str = "/") -> str:
    """Return the reads with the allele and the depth, of all replicates of some samples."""
    pairs = [pair for role in roles for pair in call["replicates"].get(role, ())]
    return f"{sum(a for a, _ in pairs):,}{by}{sum(n for _, n in pairs):,}"


def of_panel(call: dict[str, Any], settings: VariantSettings) -> str:
    """Return a call's reads and depth in the panel, and in the sample of the largest share."""
    reads = call["replicates"].get("panel", [])
    together = reads_of(call, "panel")
    shares = [a / max(n, 1) for a, n in reads]
    if len(reads) < 2 or max(shares) == 0.0:
        return together
    most = int(np.argmax(shares))
    return f"{together}; {reads[most][0]:,}/{reads[most][1]:,} in {settings.members[most]}"


def share_of(call: dict[str, Any]) -> str:
    """Return the share of the case's reads with the allele, with its 95 % interval, in per cent.

    >>> share_of({"MU": 0.104, "MUCI": (0.0899, 0.12)})
    '10.4 % (9.0 to 12.0)'
    """
    low, high = (100.0 * end for end in call["MUCI"])
    digits = max(1, 1 - floor(log10(max(low, 1e-4))))
    return f"{100.0 * call['MU']:.{digits}f} % ({low:.{digits}f} to {high:.{digits}f})"


def share_in_words(case: str) -> str:
    """Say what the column of shares is."""
    return (
        f"The share is the model's estimate of how many of the reads of {case} show the allele, "
        "because they have it or by a sequencing error."
    )


def variants(count: int) -> str:
    """Return a number of variants in words.

    >>> variants(1), variants(1200)
    ('1 variant', '1,200 variants')
    """
    return f"{count:,} variant{'' if count == 1 else 's'}"


def call_in_words(call: dict[str, Any], settings: VariantSettings) -> str:
    """Name a call, with its reads, those of the control, and how probably it is false."""
    text = (
        f"{name_of(call)} in {reads_of(call, 'case', by=' of ')} reads of {settings.case} "
        f"({share_of(call).replace(' (', ', 95 % interval ')}"
    )
    if settings.controls:
        text += f", {reads_of(call, 'control', 'panel', by=' of ')} of {settings.compared_with}"
    many = float(f"{10.0 ** min(call['qual'] / 10.0, 7.0):.2g}")
    false = f"of about 1 in {many:,.0f}" if many <= 1e6 else "below 1 in 1,000,000"
    without, every = len(untested(call, settings)), len(READ_FILTERS)
    few = without >= every / 2
    text += ". Random errors explain it" if few else ". The call is false"
    text += f" with a probability {false} (QUAL {call['qual']:.1f})"
    artefact = f"; an artefact is not excluded, as {without} of {every} filters could not be tested"
    return text + artefact * few


def calls_section(
    calls: Sequence[dict[str, Any]], settings: VariantSettings, not_run: Mapping[str, str],
    without: str,
) -> Section:  # fmt: skip
    """Return what was called, with the reads and the filters of each call."""
    against = [name for name, there in (("control", settings.control),
                                        ("panel", settings.members)) if there]  # fmt: skip
    rows = [
        row_of(c, settings, *(of_panel(c, settings) if one == "panel" else reads_of(c, one)
                              for one in against)) for c in calls[:MOST_CALLS]
    ]  # fmt: skip
    heads = ("panel; most in" if name == "panel" else str(settings.control) for name in against)
    columns = ("variant", "share (95 %)", settings.case, *heads, "QUAL", "filter", "q-value")
    more = f" The first {MOST_CALLS} of {len(calls):,}." if len(calls) > MOST_CALLS else ""
    text = "" if calls else "No allele is called. "
    text += f"{_question(settings)}{f' {without}' * bool(without)}"
    if joined := sum(is_mnv(c) for c in calls):
        text += (
            f" {variants(joined)} of several bases: the same reads have all of them, and the "
            "reads are those with all; loci has a row for each base."
        )
    said = passed_in_words(not_run, settings) if calls else ""
    seen = dict.fromkeys(name for c in calls for name in c["filters"])
    said += "".join(f" {name}: {FILTERS[name][0].lower()}{FILTERS[name][1:]}." for name in seen)
    for reason in dict.fromkeys(why for why in not_run.values() if why not in LACKING):
        names = ", ".join(name for name, why in not_run.items() if why == reason)
        said += f" {names} did not run: {reason}."
    text += f"\n{said.lstrip()}\n" if said else " "
    text += f"All calls are in {{run}}/variants.vcf.gz, all positions in the table loci.{more}"
    details = [_replicates(c, settings, not_run) for c in calls[:MOST_CALLS]]
    how = (
        "Best first, as SEQUENCE:POSITION (counted from 1) REFERENCE>ALLELE; each opens to its "
        f"replicates and filters. {share_in_words(settings.case)} The columns of samples are reads "
        "with the allele / all reads, as counted. "
        f"{HOW_SURE}"
    )
    if not calls:
        return Section("Calls", text)
    grid = Grid(columns, rows, details=details)
    chart = shares_chart([(name_of(c), c) for c in calls], settings.case, settings.compared_with)
    return Section("Calls", text, [chart], (grid,), how=how, tables_first=len(calls) == 1)


def passed_in_words(not_run: Mapping[str, str], settings: VariantSettings) -> str:
    """Say what PASS is: which filters of reads ran."""
    names = ", ".join(name for name in READ_FILTERS if name not in not_run)
    said = (
        f" PASS: called, and not removed by any filter ({names}); each filter removes a true "
        f"variant with a probability of at most {settings.filter_level:g} (filter_level). The "
        "VCF's INFO field UNTESTED names the filters that a call's reads could not test."
    )
    return said * bool(names)


def _compared(call: dict[str, Any], skipped: Container[str] = ()) -> dict[str, Pair]:
    """Return what each filter compared: of the reads with the allele, and with the reference."""
    found = {} if is_mnv(call) else call.get("compared", {})
    if found and (strands := call["samples"]["case"]["strands"]):
        own = (strands[2:], LEAST_READS), (strands[:2], 1)
        at = [reads[0] / sum(reads) if sum(reads) >= least else None for reads, least in own]
        found = {"strand_bias": at, **found}
    return {name: pair for name, pair in found.items() if name not in skipped}


def untested(call: dict[str, Any], settings: VariantSettings) -> list[str]:
    """Return the filters that could not have removed a call; none where its reads are not known."""
    found = _compared(call, settings.skipped_filters)
    if not found:
        return []
    return [n for n in READ_FILTERS if n not in found or not _testable(n, found[n])]


def _testable(name: str, pair: Pair) -> bool:
    """Whether a filter could have removed a call, of enough reads, or saw nothing to remove it by.

    That all reads are alike says nothing, but that none is near an indel or mismatches does.
    """
    share, none = COMPARED[name][1] == " %", pair[0] == 0.0 and name != "strand_bias"
    alike = pair[0] == pair[1] and not (share and (none or pair[0] not in (0.0, 1.0)))
    return None not in pair and not alike


def power_warnings(calls: Sequence[dict[str, Any]], settings: VariantSettings) -> list[str]:
    """Say which filters could check no call, and how to confirm it."""
    every = [one for call in calls if (one := _compared(call, settings.skipped_filters))]
    known = {n: own for n in COMPARED if (own := [one[n] for one in every if n in one])}
    alike = [
        name for name, own in known.items()
        if not any(None in pair or _testable(name, pair) for pair in own)
    ]  # fmt: skip
    if not alike:
        return []
    why, what = (
        " and ".join(", ".join(COMPARED[name][k] for name in alike).rsplit(", ", 1)) for k in (3, 2)
    )
    text = (
        f"All reads of the case at {'the' if len(every) == 1 else 'every'} call are {why}, so "
        f"{what} could not be checked. More reads of the same kind do not help: confirm "
    )
    text += "with reads of both strands, or " * ("strand_bias" in alike)
    return [f"{text}by another method, such as digital PCR."]


def _mean(name: str, value: float | None) -> str:
    """Return what a filter compared, with its unit."""
    if value is None:
        return "too few reads"
    unit = COMPARED[name][1]
    return f"{100.0 * value:.0f} %" if unit == " %" else f"{value:.1f}{unit}"


def _replicates(
    call: dict[str, Any], settings: VariantSettings, not_run: Mapping[str, str]
) -> Section:
    """Return the reads of every replicate of a call, and of each filter what it compared."""
    names = {"case": settings.case, "control": str(settings.control)}
    rows = [
        (names.get(role) or settings.members[k], k + 1 if role in names else "all", reads, depth,
         f"{100.0 * reads / max(depth, 1):.2f} %")
        for role, replicates in call["replicates"].items()
        for k, (reads, depth) in enumerate(replicates)
    ]  # fmt: skip
    grids = [Grid(("sample", "replicate", "reads with the allele", "all reads", "share"), rows)]
    columns = ("of the reads", "with the allele", "with the reference", "filter", "result")
    of_filters = [
        (COMPARED[name][0], *(_mean(name, value) for value in pair), name,
         "did not run" if name in not_run else "removed" if name in call["filters"]
         else "passed" + ": no such read" * (pair[0] == pair[1] == 0.0) if _testable(name, pair)
         else "not testable" + f": all are {COMPARED[name][3]}" * (None not in pair))
        for name, pair in _compared(call).items()
    ]  # fmt: skip
    if of_filters:
        caption = f"Reads of {settings.case} with the allele against those with the reference base"
        grids.append(Grid(columns, of_filters, caption))
    return Section(name_of(call), "", (), grids)


def shares_chart(
    calls: Sequence[tuple[str, dict[str, Any]]], case: str, against: str | None
) -> Spec:
    """Plot the share of reads of named calls, in the case and in what it is compared with."""
    shown = calls[:MOST_PLOTTED]
    marks = [(case, "")] + ([(against, "C")] if against else [])
    series = [
        (name, [tuple(100.0 * np.array([c[f"{m}MU"], *c[f"{m}MUCI"]])) for _, c in shown])
        for name, m in marks
    ]
    some = f" (the first {MOST_PLOTTED} of {len(calls):,})" if len(calls) > MOST_PLOTTED else ""
    how = "Points are estimated shares, lines 95 % intervals, on a logarithmic axis."
    none = against and sum(reads_of(c, "control", "panel").startswith("0/") for _, c in shown)
    if none:
        no, then = ("No", ":") if none == len(shown) else ("Where no", ",")
        how += f" {no} read of {against} has the allele{then} its point is the error rate expected."
    title = f"Share of reads with each called allele{some}"
    names = [name for name, _ in shown]
    return plots.paired_intervals(names, series, "% of the reads", title, how)
