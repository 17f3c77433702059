"""What is said of several cases of one run: each in a row, and what they were called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.report.page import Findings, Grid, Section
from flows.variants import calls_report, read_account
from flows.variants.calls_report import MOST_CALLS, level_of, name_of, reads_of, variants
from flows.variants.case_files import CASES, CaseFound
from flows.variants.limits_report import callable_in_words
from flows.variants.part_calls import filters_not_run, in_order
from flows.variants.report import results_of, warnings_of
from flows.variants.settings import VariantSettings
from flows.variants.tiles import NEXT_STEPS_OF_CASES, tiles_of
from vbmodels.variants.two_groups.batch_null import names_of_types
from vbmodels.variants.two_groups.cases import Several, SeveralGlobal


def cases_report(
    model: Several, q: SeveralGlobal, found: Sequence[CaseFound], settings: VariantSettings
) -> Findings:
    """Say what was found in every case."""
    results = {one.name: results_of(one.parts, settings.of_case(one.name), one.q) for one in found}
    warned = {}
    for one, converged in zip(found, q.converged, strict=True):
        alone = settings.of_case(one.name)
        warned[one.name] = warnings_of(one.parts, model.model.caps_hit(one.q), alone, one.q)
        if not converged and q.converged.any():  # of a run whose fits all had not it is said
            warned[one.name].append("The fit had not converged; raise max_iter or tol.")
    passed = sum(own["passed"] for own in results.values())
    with_some = sum(own["passed"] > 0 for own in results.values())
    calls = sorted(
        ((one.name, call) for one in found for call in in_order(one.parts)),
        key=lambda pair: -pair[1]["qual"],
    )
    top = [{"case": name, **calls_report.in_short(c)} for name, c in calls[:20]]
    sums = {
        name: sum(own[name] for own in results.values())
        for name in ("locations", "units", "calls", "passed")
    }
    headline = f"{variants(passed)} in {with_some:,} of {len(found):,} cases, each "
    headline += level_of(settings)
    for name, call in [pair for pair in calls if not pair[1]["filters"]][:1]:
        said = calls_report.call_in_words(call, settings.of_case(name))
        headline += f"{'; the surest' * (passed > 1)}: {said}"
    said = callable_in_words([one.parts for one in found], settings)
    known = [one.parts[0].sample_reads for one in found]
    if thin := dict.fromkeys(name for reads in known if reads is not None for name in reads.thin):
        said += f"; without reads: {', '.join(thin)}"
    headline += f". {said[0].upper()}{said[1:]}."
    rows = {name: row for own in results.values() for name, row in own.get("reads", {}).items()}
    sections = [
        _cases(results, warned, found, settings), _calls(calls, settings), _errors(found, settings)
    ]  # fmt: skip
    sections += [read_account.section(rows)] if rows else []
    every = {"cases": results, **sums}
    return Findings(
        headline, sections, every, tuple(_once(warned)), top,
        tiles_of(every, f"each {level_of(settings)}", settings.callable_share), NEXT_STEPS_OF_CASES,
        read_account.input_grids(known),
        row="position" if any(one is not None and one.files for one in known) else "row",
    )  # fmt: skip


def _cases(
    results: dict[str, dict[str, Any]], warned: dict[str, list[str]], found: Sequence[CaseFound],
    settings: VariantSettings,
) -> Section:  # fmt: skip
    rows = []
    common = set.intersection(*(set(warnings) for warnings in warned.values()))
    for one in found:
        own, largest = results[one.name], int(np.abs(one.q.shift).argmax())
        limit = own.get("median_limit_of_detection")
        rows.append(
            (
                one.name, own["passed"], own["calls"] - own["passed"], own.get("indels", "none"),
                f"{own['locations']:,}", "none" if limit is None else f"{100.0 * limit:.2f} %",
                f"{names_of_types()[largest]} x{np.exp(one.q.shift[largest]):.2f}",
                round(one.q.tau, 3), sum(warning not in common for warning in warned[one.name]),
            )
        )  # fmt: skip
    columns = ("case", "variants", "filtered", "indels", "positions", "limit", "errors", "site sd",
               "warnings")  # fmt: skip
    text = (
        f"Each case is compared with {settings.compared_with} by a fit of its own, with its own "
        "false discovery rate: a run of it alone calls the same. Its calls are in "
        f"{CASES}/NAME/variants.vcf.gz, with callable.bed; the tables loci, indels and detection "
        "have all cases, by the column sample."
        f"{calls_report.passed_in_words(filters_not_run(found[0].parts, settings), settings)}"
    )
    how = (
        "Indels are among the variants; positions are those with reads; limit: of detection, which "
        f"half of the positions do not exceed; errors: the substitution whose rate differs most "
        f"from {settings.compared_with}, and the factor; site sd: how far sites differ beyond that "
        "(sd of the logit); warnings: those that not all cases have."
    )
    return Section("Cases", text, (), (Grid(columns, rows),), how=how)


def _calls(calls: Sequence[tuple[str, dict[str, Any]]], settings: VariantSettings) -> Section:
    rows = [
        (name, *calls_report.row_of(c, settings, reads_of(c, "control", "panel")))
        for name, c in calls[:MOST_CALLS]
    ]
    columns = ("case", "variant", "share (95 %)", "reads", str(settings.compared_with), "QUAL",
               "filter", "q-value")  # fmt: skip
    more = f"The first {MOST_CALLS} of {len(calls):,} calls." if len(calls) > MOST_CALLS else ""
    how = (
        f"Best first. {calls_report.share_in_words('the case')} "
        f"Reads of the case and of {settings.compared_with}: with the allele / all, of all "
        f"replicates. {calls_report.HOW_SURE}"
    )
    if not calls:
        return Section("Calls", "No case has a call.")
    named = [(f"{name} {name_of(c)}", c) for name, c in calls]
    chart = calls_report.shares_chart(named, "case", settings.compared_with)
    return Section("Calls", more, (chart,), (Grid(columns, rows),), how=how)


def _errors(found: Sequence[CaseFound], settings: VariantSettings) -> Section:
    names = names_of_types()
    rows = [(one.name, *(round(float(f), 2) for f in np.exp(one.q.shift))) for one in found]
    text = (
        f"Error rates of every case as factors of those of {settings.compared_with}, by "
        "substitution. What differs alike at all sites of a substitution is the null: it is no "
        f"evidence for variants. A case far from the others was made otherwise."
    )
    return Section("Differences between the samples", text, (), (Grid(("case", *names), rows),))


def _once(warned: dict[str, list[str]]) -> list[str]:
    """Say what is the same of several cases once, and of which."""
    of: dict[str, list[str]] = {}
    for name, warnings in warned.items():
        for warning in warnings:
            of.setdefault(warning, []).append(name)
    every = len(warned)
    return [
        warning if len(names) == every else f"{', '.join(names)}: {warning}"
        for warning, names in of.items()
    ]
