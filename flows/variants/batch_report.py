"""What is said of the difference between case and control that was taken as the null.

By substitution, and by the bases before and behind it.
"""

from __future__ import annotations

from math import floor, log10
from typing import Any

import numpy as np

from flows.report import plots
from flows.report.page import Grid, Section
from flows.variants.settings import VariantSettings
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.panel.model import PanelGlobal, PanelNull
from vbmodels.variants.two_groups.batch_null import BatchGlobal, BatchNull, names_of_types
from vbmodels.variants.two_groups.contexts import names_of_contexts

LEAST_SHIFT, LEAST_Z = 0.4, 4.0
MOST_TAU, MOST_V = 0.5, 0.02
EXCHANGEABLE = "exchangeable: without a variant the samples differ at random only"


def null_of(model: Any, q: Any) -> str:
    """Return what no variant means, for the header of a VCF."""
    if not isinstance(model, BatchNull):
        return EXCHANGEABLE
    factors = ", ".join(
        f"{name} x{np.exp(b):.2f}" for name, b in zip(names_of_types(), q.shift, strict=True)
    )
    if q.of_context is not None:
        factors += "; by its neighbouring bases too, in the posterior's context_shift"
    against = "panel's" if isinstance(model, PanelNull) else "control's"
    return (
        f"batch: without a variant the case's error rates are the {against} times a factor by "
        f"substitution ({factors}), and sites differ by site_sd = {q.tau:.3f} in logit"
    )


def batch_results(q: BatchGlobal) -> dict[str, float]:
    """Return the largest factor between the samples, and how far sites differ."""
    largest = float(q.shift[np.abs(q.shift).argmax()])
    return {
        "largest_factor": round(float(np.exp(largest)), 3),
        "site_sd": round(q.tau, 4),
        "share_of_outlying_sites": round(q.v, 5),
    }


def batch_warnings(q: BatchGlobal, case: str, control: str) -> list[str]:
    """Say where the samples differ by more than chance, and what was made of it."""
    assert q.errors is not None
    overall = abs(q.shift_mean) > LEAST_SHIFT and np.all(np.abs(q.shift) > 0.5 * LEAST_SHIFT)
    if overall and abs(q.shift_mean) > LEAST_Z * q.errors.of_mean:
        warnings = [
            f"Errors are {np.exp(q.shift_mean):.1f} times as frequent in {case} as in {control}: "
            "this was taken as the null; a different library preparation or another sequencing "
            "run is likely."
        ]
        seen = q.shift - q.shift_mean
    else:
        warnings, seen = [], q.shift
    marked = (np.abs(seen) > LEAST_SHIFT) & (np.abs(seen) > LEAST_Z * q.errors.of_type)
    warnings += [
        f"{name} errors are {np.exp(b):.1f} times as frequent in {case} as in {control}: this was "
        "taken as the null; a different library preparation or oxidation is likely."
        for name, b, mark in zip(names_of_types(), q.shift, marked, strict=True)
        if mark
    ]
    # What is usual between samples a panel shows, and tau has learned it.
    if (q.tau > MOST_TAU and not isinstance(q, PanelGlobal)) or q.v > MOST_V:
        warnings.append(
            f"Sites differ between {case} and {control} beyond replicates (site_sd = {q.tau:.2f}, "
            f"{q.v:.1%} of sites far off): a call of a small share rests on few replicates; look "
            "at a control of the same protocol."
        )
    return warnings


def _verdict(low: FloatArray, high: FloatArray) -> str:
    out = int(np.sum((low > 1.0) | (high < 1.0)))
    said = f"{out} of {len(low)} intervals do not include 1"
    if not out:
        said = f"All {len(low)} intervals include 1, so the data are compatible with no difference"
    return f"{said} (the intervals reach from {low.min():.2f} to {high.max():.2f})."


def batch_section(q: BatchGlobal, settings: VariantSettings) -> Section:
    """Return the difference by substitution, as a table and a picture."""
    names, case, control = names_of_types(), settings.case, settings.compared_with
    factor, control_rate = np.exp(q.shift), q.a / (q.a + q.b)
    assert q.errors is not None
    half = 1.96 * q.errors.of_type
    low, high = np.exp(q.shift - half), np.exp(q.shift + half)
    rows = [
        (name, f"{f:.2f} ({lo:.2f} to {hi:.2f})", rate_in_words(r * f), rate_in_words(r))
        for name, r, f, lo, hi in zip(names, control_rate, factor, low, high, strict=True)
    ]
    columns = (
        "substitution", "factor (95 %)", f"error rate in {case}", f"error rate in {control}"
    )  # fmt: skip
    picture = plots.paired_intervals(
        names,
        [("factor", list(zip(factor, low, high, strict=True)))],
        "factor", f"Factor by which errors are more frequent in {case} than in {control}",
        "Points are estimates, lines 95 % intervals, on a logarithmic axis; a line that crosses 1 "
        "is compatible with no difference.",
        rule=1.0,
    )  # fmt: skip
    text = (
        f"{_verdict(low, high)} The factor of a substitution is its error rate in {case} divided "
        f"by that in {control}; calls and QUAL allow for it, and for single positions that differ "
        "further."
    )
    grids = (Grid(columns, rows, "The numbers of the chart, and the error rates", folded=True),)
    return Section("Differences between the samples", text, (picture,), grids)


def rate_in_words(rate: float, digits: int = 2) -> str:
    """Return a rate in per cent, with two digits or so many.

    >>> rate_in_words(0.0002), rate_in_words(0.0149), rate_in_words(3e-7)
    ('0.020 %', '1.5 %', '0.000030 %')
    """
    return f"{100.0 * rate:.{max(digits - 1 - floor(log10(max(100.0 * rate, 1e-9))), 0)}f} %"


MOST_NAMED = 3
LEAST_CONTEXT_Z = 5.0  # of 192, whose errors are given b_t and some 1.3 times too small


def marked_contexts(q: BatchGlobal) -> IntArray:
    """Return the contexts that surely differ from their substitution, the furthest first."""
    assert q.of_context is not None
    assert q.errors is not None
    assert q.errors.of_context is not None
    off = q.of_context - q.shift[:, None]
    sure = (np.abs(off) > LEAST_SHIFT) & (np.abs(off) > LEAST_CONTEXT_Z * q.errors.of_context)
    sure[:, -1] = False
    order = np.argsort(-np.abs(off), axis=None, kind="stable")
    return order[sure.ravel()[order]]


def context_warnings(q: BatchGlobal, case: str, control: str) -> list[str]:
    """Say in which contexts errors differ from those of their substitution elsewhere."""
    if q.of_context is None:
        return []
    names, found = names_of_contexts(), marked_contexts(q)
    if not len(found):
        return []
    some = ", ".join(
        f"{names[i]} x{np.exp(q.of_context.flat[i]):.1f}" for i in found[:MOST_NAMED].tolist()
    )
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return [
        f"Errors of {case} against {control} differ by the neighbouring bases ({some}{more}): this "
        "was taken as the null; oxidation or deamination is likely."
    ]
